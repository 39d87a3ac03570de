"""The environment with vLLM and Ray that the hosts get to see: its folders, and where it comes from."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cockpit.lab import environment as lab
from cockpit.lab.errors import LabError

VARIABLE = "SPARK_COCKPIT_TEST_ENV"
"""Names a virtual environment with ray and vllm, to be used instead of the lab's."""


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment and the Python it was made from."""

    venv: Path
    base: Path

    @property
    def folders(self) -> tuple[Path, ...]:
        """What must be there, at the same path, wherever the environment is to run."""
        # A base below /usr is the system's own Python, which hosts and image have.
        return (self.venv,) if self.base.parts[:2] == ("/", "usr") else (self.venv, self.base)

    @property
    def mounts(self) -> tuple[str, ...]:
        """The folders as mounts of a container, ``SOURCE:TARGET:ro``."""
        return tuple(f"{path}:{path}:ro" for path in self.folders)


def environment_at(venv: Path) -> Environment:
    """The environment in folder ``venv``; raises ``ValueError`` when there is none."""
    configuration = venv / "pyvenv.cfg"
    if not configuration.is_file():
        raise ValueError(f"{venv} is no virtual environment: it has no pyvenv.cfg.")
    for line in configuration.read_text().splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "home":
            return Environment(venv, Path(value.strip()).resolve().parent)
    raise ValueError(f"{configuration} does not say where its Python is (home).")


def default_environment() -> Environment | None:
    """The environment the tests use, where there is one: named by ``SPARK_COCKPIT_TEST_ENV``, else the
    lab's."""
    named = os.environ.get(VARIABLE)
    if named:
        return environment_at(Path(named))
    made = lab.find()
    return environment_at(made.folder) if made else None


def environment_for_tests(say: Callable[[str], None]) -> Environment:
    """The environment the tests use; the lab's is made where there is none yet, and ``say`` told of it.

    Raises ``ValueError`` with the reason where it can't be had.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return environment_at(Path(named))
    try:
        return environment_at(lab.ensure(lambda text, _done, _total: say(text)).folder)
    except LabError as error:
        raise ValueError(str(error)) from error
