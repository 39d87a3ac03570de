"""What running a command means, the same by SSH and on this machine: output, limits, outcome, secrets."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from cockpit.hosts.errors import CommandFailed, TimedOut
from cockpit.model.command import KILL_AFTER, Command, Completed

CHUNK = 64 * 1024
"""Bytes a read asks for."""
GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL for a process that is given up on."""
SETTLE = 5.0
"""Seconds that a command gets, past its limit and the SIGKILL of ``timeout(1)``, to be heard from."""
LINGER = 7.0
"""Seconds of silence after which an ended command's output counts as complete although something it left
behind still holds it open; longer than a dead link takes to be noticed, so nothing is under way any more."""
TAIL = 8 * 1024

Secrets = Mapping[str, str] | Callable[[], Mapping[str, str]] | None
"""Where the values for ``Command.secrets`` come from; None is this process's environment."""


def secret_values(secrets: Secrets) -> Mapping[str, str]:
    """The values as they are now."""
    if secrets is None:
        return os.environ
    return secrets() if callable(secrets) else secrets


def patience(command: Command) -> float:
    """Seconds this side waits: the host's own ``timeout(1)`` comes first unless the host does not answer."""
    return command.limit + KILL_AFTER + SETTLE


class Pipes(Protocol):
    """A running process's ends."""

    async def feed(self, data: bytes) -> None:
        """Give ``data`` to standard input and end it; a process that does not read it is no error."""
        ...

    async def read_output(self) -> bytes:
        """The next bytes of standard output, b"" at its end."""
        ...

    async def read_errors(self) -> bytes:
        """The next bytes of standard error, b"" at its end."""
        ...

    @property
    def ended(self) -> bool:
        """Whether the process has ended, as far as is known."""
        ...

    async def wait(self) -> None:
        """Wait until it has ended, or never can be known to."""
        ...


async def collect(pipes: Pipes, data: bytes) -> tuple[bytes, bytes]:
    """Feed ``data``, and read both outputs until they end (or the process has, ``LINGER`` ago)."""
    output, errors = bytearray(), bytearray()
    feeder = asyncio.ensure_future(pipes.feed(data))
    readers = {
        asyncio.ensure_future(_read_all(pipes.read_output, output)),
        asyncio.ensure_future(_read_all(pipes.read_errors, errors)),
    }
    try:
        await _read_on(pipes, readers, lambda: len(output) + len(errors))
        if not pipes.ended:
            await pipes.wait()
    finally:
        for task in (feeder, *readers):
            task.cancel()
        await asyncio.wait({feeder, *readers})
    return bytes(output), bytes(errors)


async def _read_on(pipes: Pipes, readers: set[asyncio.Task[None]], size: Callable[[], int]) -> None:
    pending, seen, since = readers, -1, time.monotonic()
    while pending:
        done, pending = await asyncio.wait(pending, timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        if size() != seen or not pipes.ended:
            seen, since = size(), time.monotonic()
        elif time.monotonic() - since > LINGER:
            return


async def _read_all(read: Callable[[], Awaitable[bytes]], into: bytearray) -> None:
    while data := await read():
        into += data


def conclude(completed: Completed, *, check: bool) -> Completed:
    """``completed``, or the error it amounts to. ``timeout(1)`` ends with 124, or 137 where it had to kill
    (coreutils 9.1); before the limit those are the command's own."""
    command = completed.command
    if completed.status in (124, 137) and completed.seconds >= command.limit:
        output = completed.error_text or ("" if command.gives else completed.text)
        raise TimedOut(command.host, command, command.limit, output=output)
    if check and completed.status != 0:
        raise CommandFailed(completed)
    return completed


async def within(seconds: float, step: Awaitable[object]) -> bool:
    """Whether ``step`` was done within ``seconds``; it is cancelled if not."""
    try:
        async with asyncio.timeout(seconds):
            await step
    except TimeoutError:
        return False
    return True


class Tail:
    """The last bytes of a stream's standard error."""

    def __init__(self) -> None:
        self._kept = bytearray()

    @property
    def text(self) -> str:
        """What was kept; invalid UTF-8 becomes U+FFFD."""
        return self._kept.decode("utf-8", "replace")

    async def follow(self, read: Callable[[], Awaitable[bytes]]) -> None:
        """Read to the end, keeping the last ``TAIL`` bytes."""
        while data := await read():
            self._kept += data
            del self._kept[:-TAIL]
