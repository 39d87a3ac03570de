"""Running the machine's own commands, each with a time limit."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


class RigError(Exception):
    """The rig could not do what was asked; says which command failed and what it wrote."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a command left: exit status and both outputs, invalid UTF-8 replaced."""

    status: int
    out: str
    err: str


def run(argv: Sequence[str], *, timeout: float = 20, stdin: str = "", check: bool = True) -> Result:
    """Run ``argv`` here. Raises ``RigError`` past ``timeout`` seconds and, with ``check``, on a failure."""
    try:
        done = subprocess.run(
            list(argv), input=stdin, capture_output=True, timeout=timeout, text=True, errors="replace"
        )
    except subprocess.TimeoutExpired as late:
        raise RigError(f"No end after {timeout:g} s: {shlex.join(argv)}") from late
    if check and done.returncode:
        said = (done.stderr + done.stdout).strip()
        raise RigError(f"Status {done.returncode}: {shlex.join(argv)}\n{said}")
    return Result(done.returncode, done.stdout, done.stderr)


def wait_for(condition: Callable[[], bool], what: str, *, timeout: float) -> None:
    """Return as soon as ``condition`` holds; raises ``RigError`` when it does not within ``timeout`` s."""
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            raise RigError(f"Not within {timeout:g} s: {what}")
        time.sleep(0.03)
