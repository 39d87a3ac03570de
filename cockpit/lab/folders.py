"""Where the lab keeps what it makes, and the locks that hold two makers apart."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import platformdirs

from cockpit.lab.errors import LabError

APP = "spark-cockpit"
NAME = "SPARK_COCKPIT_LAB"
"""The environment variable that names the lab; several labs run side by side under different names."""


def name() -> str:
    """The lab's name, ``lab`` unless the environment says otherwise; it is also its profile's name."""
    value = os.environ.get(NAME) or "lab"
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,31}", value):
        raise LabError(
            f"{NAME} is {value!r}, which is no name for a lab.",
            remedy="Use at most 32 of a-z, 0-9 and the dash.",
        )
    return value


def cache() -> Path:
    """The folder of what can be made again: environments and models."""
    return Path(platformdirs.user_cache_dir(APP)) / "lab"


def home(lab: str) -> Path:
    """The folder of the lab called ``lab``: its keys, its hosts, its profile."""
    return Path(platformdirs.user_data_dir(APP)) / "labs" / lab


@contextlib.contextmanager
def locked(path: Path, wait: Callable[[], None]) -> Iterator[int]:
    """Hold ``path`` alone; ``wait`` is called once where somebody else holds it.

    The value is the lock's descriptor. A child that inherits it holds the lock until it ends, so that work
    which outlives a killed cockpit isn't joined by a second worker.
    """
    import fcntl  # not on Windows, where one sentence must still tell that there is no lab

    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            wait()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)
