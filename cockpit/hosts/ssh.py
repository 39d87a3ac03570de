"""A host by SSH: one connection, its sessions budgeted, no outcome guessed.

The only way into asyncssh, together with ``dial``, ``known_hosts`` and ``identities``; everything else
reaches it through ``factory.open_host``. asyncssh 2.24.1 returns normally, with no exit status, from a
command whose connection was lost, and leaves a process running that it gives up on: both end here.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

import asyncssh

from cockpit.hosts import quoting
from cockpit.hosts.dial import Ask, Client, Dialler
from cockpit.hosts.errors import ConnectionLost, ForwardFailed, SessionRefused, TimedOut
from cockpit.hosts.running import (
    CHUNK,
    GRACE,
    SETTLE,
    Secrets,
    Tail,
    collect,
    conclude,
    patience,
    secret_values,
    within,
)
from cockpit.model.command import Command, Completed
from cockpit.model.profile import HostSpec

WINDOW = 16 * 1024 * 1024
PACKET = 64 * 1024
RUNS = 4
STREAMS = 4
"""sshd opens ten sessions a connection (MaxSessions): these, one to end processes from, and one that sshd
has not quite freed."""
OPENINGS = 4
"""How often a session is asked for: sshd 9.2 frees a closed one only after it has answered a request that
came together with the closing."""
PING_TIMEOUT = 5.0

_T = TypeVar("_T")


class SshHost:
    """``hosts.host.Host`` over asyncssh. Made by ``factory.open_host``."""

    def __init__(
        self,
        spec: HostSpec,
        *,
        ssh_config: str = "",
        ask: Ask | None = None,
        trust: frozenset[str] = frozenset(),
        secrets: Secrets = None,
    ) -> None:
        self._spec = spec
        self._secrets = secrets
        self._dialler = Dialler(spec.name, ssh_config, ask, trust)
        self._conn: asyncssh.SSHClientConnection | None = None
        self._client: Client | None = None
        self._connecting = asyncio.Lock()
        self._runs = asyncio.Semaphore(RUNS)
        self._streams = asyncio.Semaphore(STREAMS)
        self._killing = asyncio.Semaphore(1)
        self._endings: set[asyncio.Task[None]] = set()

    @property
    def name(self) -> str:
        """The profile's name for it."""
        return self._spec.name

    @property
    def connected(self) -> bool:
        """Whether a connection stands right now."""
        return self._conn is not None and not self._conn.is_closed()

    async def connect(self) -> None:
        """Connect, or reconnect after a lost link; nothing happens when connected already."""
        async with self._connecting:
            if not self.connected:
                spec = self._spec
                self._conn, self._client = await self._dialler.dial(spec.address, spec.user, spec.port)

    async def run(self, command: Command, *, check: bool = True) -> Completed:
        """Run ``command.remote_argv`` to its end; see ``hosts.host.Host``."""
        data = command.stdin_bytes(secret_values(self._secrets))
        async with self._runs:
            began = time.monotonic()
            session = await self._start(command, command.remote_argv)
            try:
                async with asyncio.timeout(patience(command)):
                    stdout, stderr = await collect(session, data)
            except TimeoutError:
                raise TimedOut(self.name, command, command.limit) from None
            except (asyncssh.Error, OSError) as error:
                raise self.lost(error, command) from error
            finally:
                await self._end(session)
        status = self.status(session, command)
        return conclude(Completed(command, status, stdout, stderr, time.monotonic() - began), check=check)

    @asynccontextmanager
    async def open(self, command: Command) -> AsyncIterator[SshStream]:
        """Start ``command.argv`` and stream it; see ``hosts.host.Host``."""
        data = command.stdin_bytes(secret_values(self._secrets))
        async with self._streams:
            session = await self._start(command, quoting.stream_argv(command.argv))
            stream = SshStream(self, command, session)
            try:
                if data:
                    await stream.write(data)
                    await stream.end_input()
                yield stream
            finally:
                await stream.stop()
                await self._end(session)

    @asynccontextmanager
    async def forward(self, port: int, address: str = "127.0.0.1") -> AsyncIterator[int]:
        """Forward a free local port to ``address:port`` as the host sees it.

        Nothing is asked of the host before the port is used: where nobody listens there, a client of the
        local port is let in and sees its connection end at once, without an error.
        """
        target = f"{address}:{port}"
        conn = self._connection(None)
        try:
            listener = await conn.forward_local_port("127.0.0.1", 0, address, port)
        except (OSError, asyncssh.Error) as error:
            raise ForwardFailed(self.name, target, str(error)) from error
        try:
            yield listener.get_port()
        finally:
            listener.close()

    async def ping(self) -> float:
        """The round trip in seconds, at most 5: a keepalive request, which needs no session."""
        conn = self._connection(None)
        began = time.monotonic()
        # The one private call: asyncssh has no public way to ask without a session.
        request = asyncio.ensure_future(conn._make_global_request(b"keepalive@openssh.com"))
        done, _ = await asyncio.wait({request}, timeout=PING_TIMEOUT)
        if not done:
            raise ConnectionLost(self.name, f"no answer to a ping within {PING_TIMEOUT:g} s")
        self._connection(None)
        return time.monotonic() - began

    async def close(self) -> None:
        """Close the connection; what runs on the host goes on."""
        if self._endings:
            await asyncio.wait(self._endings, timeout=GRACE)
        conn, self._conn = self._conn, None
        if conn is not None:
            conn.close()
            await within(GRACE, conn.wait_closed())

    def _connection(self, command: Command | None) -> asyncssh.SSHClientConnection:
        if self._conn is None or self._conn.is_closed():
            raise ConnectionLost(self.name, self._why(None), command=command)
        return self._conn

    def lost(self, error: Exception | None, command: Command) -> ConnectionLost:
        """The error for a link that is gone while ``command`` ran."""
        return ConnectionLost(self.name, self._why(error), command=command)

    def _why(self, error: Exception | None) -> str:
        cause = error or (self._client.lost if self._client else None)
        if isinstance(cause, asyncssh.Error):
            return cause.reason.rstrip(".")
        if cause is not None:
            return str(cause) or type(cause).__name__
        return "it was closed" if self._client else "not connected yet"

    async def _start(self, command: Command, argv: Sequence[str]) -> _Session:
        conn = self._connection(command)
        token = uuid.uuid4().hex
        opening = asyncio.ensure_future(_open_session(conn, quoting.remote_line(argv, token), token))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(self._abandon)
            raise
        except asyncssh.ChannelOpenError as error:
            if conn.is_closed():
                raise self.lost(None, command) from error
            raise SessionRefused(self.name, command, error.reason) from error
        except (asyncssh.Error, OSError) as error:
            raise self.lost(error, command) from error

    def _abandon(self, opening: asyncio.Future[_Session]) -> None:
        """End a process that was still being started when its caller went away."""
        if opening.cancelled() or opening.exception() is not None:
            return
        ending = asyncio.ensure_future(self._end(opening.result()))
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)

    async def _end(self, session: _Session) -> None:
        """End the process on the host: SIGTERM, then SIGKILL, to its group. Never waits for long."""
        drain = asyncio.ensure_future(session.drain())  # a full window would hold up the process's end
        try:
            if not session.ended and self.connected:
                group = await session.group()
                if group is None or not await self._end_group(group):
                    session.signal("KILL")
        finally:
            session.close()
            await within(1.0, session.wait())
            drain.cancel()

    async def _end_group(self, group: int) -> bool:
        """From the one session that is kept free for it, so one at a time. Whether the group is gone."""
        async with self._killing:
            try:
                async with asyncio.timeout(GRACE + SETTLE):
                    line = quoting.end_line(group, GRACE)
                    killer = await self._connection(None).create_process(line, encoding=None, request_pty=False)
                    await killer.channel.wait_closed()
            except (asyncssh.Error, OSError, ConnectionLost):
                return False
            return killer.exit_status == 0

    def status(self, session: _Session, command: Command) -> int:
        """The exit status; 128 + n after signal n, as shells have it. Raises ``ConnectionLost``."""
        status = session.status
        if status is None:
            raise self.lost(None, command)
        return status


async def _open_session(conn: asyncssh.SSHClientConnection, line: bytes, token: str) -> _Session:
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
            return _Session(process, token)
    raise AssertionError("unreachable")


class _Session:
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


class SshStream:
    """``hosts.host.Stream`` on a session."""

    def __init__(self, host: SshHost, command: Command, session: _Session) -> None:
        self._host = host
        self._command = command
        self._session = session
        self._errors = Tail()
        self._watch = asyncio.ensure_future(self._errors.follow(self._read_errors))

    @property
    def error_text(self) -> str:
        """The last of standard error."""
        return self._errors.text

    async def read(self) -> bytes:
        """The next bytes of standard output, at most 64 KiB; ``b""`` at its end."""
        data = await self._guard(self._session.read_output())
        if not data and not self._host.connected:
            self._host.status(self._session, self._command)
        return data

    async def write(self, data: bytes) -> None:
        """Give ``data`` to standard input."""
        await self._guard(self._session.put(data))

    async def end_input(self) -> None:
        """End standard input."""
        try:
            self._session.end_input()
        except (OSError, asyncssh.Error) as error:
            raise self._host.lost(error, self._command) from error

    async def wait(self) -> int:
        """The exit status once standard output has ended."""
        while await self.read():
            pass
        await self._session.wait()
        return self._host.status(self._session, self._command)

    async def stop(self) -> None:
        """Stop following standard error."""
        self._watch.cancel()
        await asyncio.wait({self._watch})

    async def _read_errors(self) -> bytes:
        try:
            return await self._session.read_errors()
        except (OSError, asyncssh.Error):  # a lost link is told by the others
            return b""

    async def _guard(self, step: Awaitable[_T]) -> _T:
        try:
            return await step
        except (OSError, asyncssh.Error) as error:
            raise self._host.lost(error, self._command) from error
