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

    async def end_input(self) -> None:
        """End standard input; raises ``ConnectionLost``."""
        ...

    async def wait(self) -> int:
        """The exit status once standard output has ended; raises ``ConnectionLost`` if none ever comes."""
        ...

    @property
    def error_text(self) -> str:
        """The last 8 KiB of standard error so far."""
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
        known. Waits its turn when the connection's sessions are all in use. What the command leaves running
        in the background goes on; if it holds the outputs open, they count as ended after 7 s of silence.
        The login shell on the host must be a POSIX one.
        """
        ...

    def open(self, command: Command) -> AbstractAsyncContextManager[Stream]:
        """Start ``command.argv`` (no limit) and stream it; on leaving, the process is ended on the host.

        ``command.stdin``, where there is any, is given to it and its input ended; else its input stays open
        for ``Stream.write``. At most four streams a host: a fifth waits. When the connection goes, the
        process ends as soon as the host knows: at once where its end of the connection breaks; after a
        silently cut link when TCP gives up there or the link is whole again.
        """
        ...

    def forward(self, port: int, address: str = "127.0.0.1") -> AbstractAsyncContextManager[int]:
        """Forward a free local port (the value) to ``address:port`` as the host sees it.

        Nothing is asked of the host before the port is used: where nobody listens there, a client of the
        local port is let in and sees its connection end at once, without an error.
        """
        ...

    async def ping(self) -> float:
        """The round trip in seconds, at most 5."""
        ...

    async def close(self) -> None:
        """Close the connection; what runs on the host goes on."""
        ...
