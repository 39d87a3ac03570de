"""Fixtures that give tests a rig. A rig stands for the whole session; each test gets it as freshly booted."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.rig.environment import Environment, environment_for_tests
from tests.rig.models import models
from tests.rig.needs import refuse, require
from tests.rig.rig import Rig


@pytest.fixture(scope="session")
def vllm_environment() -> Environment:
    """The environment with real Ray and vLLM; the lab's is made when there is none yet (minutes)."""
    try:
        return environment_for_tests(lambda text: print(text, file=sys.stderr))
    except ValueError as error:
        refuse(str(error))
        raise


@pytest.fixture(scope="session")
def standing_rig(vllm_environment: Environment) -> Iterator[Rig]:
    """Two hosts with Docker engines, environment and model; ``rig`` is what a test asks for."""
    require()
    rig = Rig.start(environment=vllm_environment, models=models(vllm_environment))
    yield rig
    rig.stop()


@pytest.fixture
def rig(standing_rig: Rig) -> Iterator[Rig]:
    """Two hosts with Docker engines, the image, the environment and the model; nothing runs on them."""
    yield standing_rig
    standing_rig.reset()


@pytest.fixture(scope="session")
def standing_plain_rig() -> Iterator[Rig]:
    """Two hosts without Docker and without vLLM; ``plain_rig`` is what a test asks for."""
    require()
    rig = Rig.start(docker=False)
    yield rig
    rig.stop()


@pytest.fixture
def plain_rig(standing_plain_rig: Rig) -> Iterator[Rig]:
    """Two hosts with sshd alone: for what needs neither Docker nor vLLM."""
    yield standing_plain_rig
    standing_plain_rig.reset()
