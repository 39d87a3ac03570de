"""The Host protocol: everything the rooms above know of a machine."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from cockpit.model.command import Command, Completed


class Stream(Protocol):
    """A long-lived command on a host, read in bytes."""

    async def read(self) -> bytes:
        """The next bytes of standard output, at most 64 KiB; ``b""`` at its end.

        Raises ``ConnectionLost`` when the link goes. Has no time limit of its own: the caller sets one
        (``asyncio.timeout``) where silence means something.
        """
        ...

    async def write(self, data: bytes) -> None:
        """Give ``data`` to standard input; raises ``ConnectionLost``."""
        ...

    async def wait(self) -> int:
        """The exit status once standard output has ended; raises ``ConnectionLost`` if none ever comes."""
        ...


class Host(Protocol):
    """A machine the cockpit reaches. All errors are of ``hosts.errors``, never asyncssh's or OSError."""

    @property
    def name(self) -> str:
        """The profile's name for it."""
        ...

    @property
    def connected(self) -> bool:
        """Whether a connection stands right now."""
        ...

    async def connect(self) -> None:
        """Connect, or reconnect after a lost link; nothing happens when connected already."""
        ...

    async def run(self, command: Command, *, check: bool = True) -> Completed:
        """Run ``command.remote_argv`` to its end.

        With ``check`` a status other than 0 raises ``CommandFailed``. Raises ``TimedOut`` past
        ``command.limit`` (the process is ended on the host) and ``ConnectionLost`` when the outcome can't be
        known. Waits its turn when the connection's sessions are all in use.
        """
        ...

    def open(self, command: Command) -> AbstractAsyncContextManager[Stream]:
        """Start ``command.argv`` (no limit) and stream it; on leaving, the process is ended on the host."""
        ...

    def forward(self, port: int, address: str = "127.0.0.1") -> AbstractAsyncContextManager[int]:
        """Forward a free local port (the value) to ``address:port`` as the host sees it."""
        ...

    async def ping(self) -> float:
        """The round trip in seconds, at most 5."""
        ...

    async def close(self) -> None:
        """Close the connection; what runs on the host goes on."""
        ...
