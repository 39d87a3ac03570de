"""One session of an SSH connection: a process on the host, its ends, and the number of its group there.

Imports asyncssh: loaded only by ``hosts.ssh``.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable

import asyncssh

from cockpit.hosts.running import CHUNK, GRACE

WINDOW = 16 * 1024 * 1024
PACKET = 64 * 1024
OPENINGS = 4
"""How often a session is asked for: sshd 9.2 frees a closed one only after it has answered a request that
came together with the closing."""


async def open_session(conn: asyncssh.SSHClientConnection, line: bytes, token: str) -> SshSession:
    for left in reversed(range(OPENINGS)):
        try:
            process = await conn.create_process(
                line, encoding=None, request_pty=False, window=WINDOW, max_pktsize=PACKET
            )
        except asyncssh.ChannelOpenError:
            if conn.is_closed() or not left:
                raise
            await asyncio.sleep(0.2)  # nothing was run, and nothing tells when a session is free
        else:
            return SshSession(process, token)
    raise AssertionError("unreachable")


class SshSession:
    """One session's process; ``running.Pipes``. ``token`` marks its announcement on standard error."""

    def __init__(self, process: asyncssh.SSHClientProcess[bytes], token: str) -> None:
        self._process = process
        self._mark = token.encode() + b" "
        self._group: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self._held = b""

    async def feed(self, data: bytes) -> None:
        with contextlib.suppress(OSError, asyncssh.Error):  # a lost link is the readers' to tell
            await self.put(data)
            self.end_input()

    async def put(self, data: bytes) -> None:
        self._process.stdin.write(data)
        await self._process.stdin.drain()

    def end_input(self) -> None:
        self._process.stdin.write_eof()

    async def read_output(self) -> bytes:
        return await self._process.stdout.read(CHUNK)

    async def read_errors(self) -> bytes:
        """Standard error without the announcement."""
        while True:
            try:
                data = await self._process.stderr.read(CHUNK)
            except (OSError, asyncssh.Error):
                self._announced(None)
                raise
            if self._group.done():
                return data
            self._held += data
            before, _, rest = self._held.partition(self._mark)
            number, newline, after = rest.partition(b"\n")
            if newline or not data:
                self._announced(int(number) if newline and number.isdigit() else None)
                held, self._held = (before + after if newline else self._held), b""
                if held or not data:
                    return held

    def _announced(self, group: int | None) -> None:
        if not self._group.done():
            self._group.set_result(group)

    async def group(self) -> int | None:
        """The number of the process's group on the host, None where it does not come in time."""
        await asyncio.wait({self._group}, timeout=GRACE)
        return self._group.result() if self._group.done() else None

    async def drain(self) -> None:
        """Read and forget."""
        await asyncio.gather(*(_forget(read) for read in (self.read_output, self.read_errors)))

    @property
    def ended(self) -> bool:
        return self.status is not None

    @property
    def status(self) -> int | None:
        """The exit status, 128 + n after signal n; None where it has not come."""
        if self._process.exit_signal is not None:
            number = getattr(signal, f"SIG{self._process.exit_signal[0]}", None)
            return 128 + int(number) if number is not None else 255
        return self._process.exit_status

    async def wait(self) -> None:
        await self._process.channel.wait_closed()

    def signal(self, name: str) -> None:
        """Ask sshd to deliver a signal; it may not."""
        with contextlib.suppress(OSError):
            self._process.channel.send_signal(name)

    def close(self) -> None:
        self._process.channel.close()


async def _forget(read: Callable[[], Awaitable[bytes]]) -> None:
    with contextlib.suppress(OSError, asyncssh.Error):
        while await read():
            pass
