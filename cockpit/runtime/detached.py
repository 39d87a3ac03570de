"""A process that outlives the connection: sh text that starts, watches and ends it.

Each process has a folder below ``$STATE``: ``launch.sh`` (what was started), ``pid`` (leader of its own
session and process group, with the start time that tells it from a later process of the same number),
``log`` (standard output and error), ``exit-status`` (written when it ends). The texts are for
``Runtime.script``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class ProcessState(StrEnum):
    """Gone means: it ran, no longer does, and left no exit status (killed, rebooted, container removed)."""

    ABSENT = "absent"
    RUNNING = "running"
    ENDED = "ended"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Process:
    """What ``state`` found. ``status`` is the exit status when ended; ``since`` in seconds since the epoch."""

    state: ProcessState
    pid: int | None = None
    status: int | None = None
    since: float | None = None


def start(folder: str, argv: Sequence[str], *, log: str = "log", prelude: str = "") -> str:
    """sh text that starts ``argv`` detached with its output to ``$STATE/folder/log`` (appended), SIGINT at its
    default, and returns when the pid file stands. ``prelude`` is sh text at the head of launch.sh."""
    raise NotImplementedError


def state(folder: str) -> str:
    """sh text that prints one line for ``parse_state``."""
    raise NotImplementedError


def parse_state(output: str) -> Process:
    """Read what ``state``'s text printed; raises ``ValueError`` on anything else."""
    raise NotImplementedError


def stop(folder: str, *, signal: str = "INT", grace: float = 15.0) -> str:
    """sh text that ends the process: ``signal`` to the group, ``grace`` seconds, then SIGKILL to all that is
    left of its session and descendants; prints what it did; status 0 when nothing of it runs any more."""
    raise NotImplementedError
