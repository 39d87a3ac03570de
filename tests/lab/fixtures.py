"""Fixtures that give tests a lab: the environment is the user's cached one, all else their own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cockpit.lab import environment, folders, lab, model
from cockpit.lab.environment import Environment
from cockpit.lab.lab import LabInfo


def say(message: str, done: int | None, total: int | None) -> None:
    """Tell of the lab's progress, without the bytes."""
    if done is None:
        print(message, file=sys.stderr)


@pytest.fixture(scope="session")
def lab_environment() -> Environment:
    """The environment with real Ray and vLLM; made when there is none yet (minutes)."""
    return environment.ensure(say)


@pytest.fixture(scope="session")
def lab_model(lab_environment: Environment) -> Path:
    """The folder of the lab's model."""
    return model.ensure(lab_environment, say)


@contextmanager
def lab_of_its_own(name: str, data: Path) -> Iterator[LabInfo]:
    """The lab called ``name``, up, with all but the environment below ``data``; brought down in the end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(data))
        patch.setenv(folders.NAME, name)
        try:
            yield lab.up(say)
        finally:
            lab.down()


@pytest.fixture(scope="module")
def lab_info(
    lab_environment: Environment, lab_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LabInfo]:
    """A lab of the module's own, up."""
    with lab_of_its_own("test", tmp_path_factory.mktemp("data")) as info:
        yield info
