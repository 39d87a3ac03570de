"""A host by SSH: one connection, its sessions budgeted, no outcome guessed.

The only way into asyncssh, together with ``dial``, ``known_hosts`` and ``identities``; everything else
reaches it through ``factory.open_host``. asyncssh 2.24.1 returns normally, with no exit status, from a
command whose connection was lost, and leaves a process running that it gives up on: both end here.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

import asyncssh

from cockpit.hosts import quoting
from cockpit.hosts.dial import Ask, Client, Dialler
from cockpit.hosts.errors import ConnectionLost, ForwardFailed, NotConnected, SessionRefused, TimedOut
from cockpit.hosts.running import (
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
from cockpit.hosts.ssh_session import SshSession, open_session
from cockpit.model.command import Command, Completed, streaming
from cockpit.model.profile import HostSpec

RUNS = 4
STREAMS = 4
"""sshd opens ten sessions a connection (MaxSessions): these, one to end processes from, and one that sshd
has not quite freed."""
PING_TIMEOUT = 5.0


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
        command = streaming(command)
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
            raise NotConnected(self.name, self._why(None), command=command)
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
        return "it was closed" if self._client else ""

    async def _start(self, command: Command, argv: Sequence[str]) -> SshSession:
        conn = self._connection(command)
        token = uuid.uuid4().hex
        opening = asyncio.ensure_future(open_session(conn, quoting.remote_line(argv, token), token))
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

    def _abandon(self, opening: asyncio.Future[SshSession]) -> None:
        """End a process that was still being started when its caller went away."""
        if opening.cancelled() or opening.exception() is not None:
            return
        ending = asyncio.ensure_future(self._end(opening.result()))
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)

    async def _end(self, session: SshSession) -> None:
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

    def status(self, session: SshSession, command: Command) -> int:
        """The exit status; 128 + n after signal n, as shells have it. Raises ``ConnectionLost``."""
        status = session.status
        if status is None:
            raise self.lost(None, command)
        return status


_T = TypeVar("_T")


class SshStream:
    """``hosts.host.Stream`` on a session."""

    def __init__(self, host: SshHost, command: Command, session: SshSession) -> None:
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
