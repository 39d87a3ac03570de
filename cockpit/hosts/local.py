"""This machine as a host: the same meaning as by SSH, without a connection that could be lost."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from cockpit.hosts import quoting
from cockpit.hosts.errors import ConnectionLost, ForwardFailed, HostError, NotConnected, TimedOut
from cockpit.hosts.running import (
    CHUNK,
    GRACE,
    Secrets,
    Tail,
    collect,
    conclude,
    patience,
    secret_values,
    within,
)
from cockpit.model.command import Command, Completed, streaming
from cockpit.model.profile import HostSpec

CONNECT_TIMEOUT = 5.0


class LocalHost:
    """``hosts.host.Host`` on the machine the cockpit runs on. Made by ``factory.open_host``."""

    def __init__(self, spec: HostSpec, *, secrets: Secrets = None) -> None:
        self._spec = spec
        self._secrets = secrets
        self._connected = False
        self._home = Path.home()  # where sshd starts a command too

    @property
    def name(self) -> str:
        """The profile's name for it."""
        return self._spec.name

    @property
    def connected(self) -> bool:
        """Whether ``connect`` was called and ``close`` was not."""
        return self._connected

    async def connect(self) -> None:
        """Nothing to do: this machine is at hand."""
        self._connected = True

    async def run(self, command: Command, *, check: bool = True) -> Completed:
        """Run ``command.remote_argv`` to its end; see ``hosts.host.Host``."""
        data = command.stdin_bytes(secret_values(self._secrets))
        began = time.monotonic()
        session = await self._start(command, command.remote_argv)
        try:
            async with asyncio.timeout(patience(command)):
                stdout, stderr = await collect(session, data)
        except TimeoutError:
            raise TimedOut(self.name, command, command.limit) from None
        finally:
            await session.end()
        return conclude(
            Completed(command, session.status, stdout, stderr, time.monotonic() - began), check=check
        )

    @asynccontextmanager
    async def open(self, command: Command) -> AsyncIterator[LocalStream]:
        """Start ``command.argv`` and stream it; see ``hosts.host.Host``."""
        command = streaming(command)
        data = command.stdin_bytes(secret_values(self._secrets))
        session = await self._start(command, quoting.stream_argv(command.argv, orphans=0))
        stream = LocalStream(self.name, command, session)
        try:
            if data:
                await stream.write(data)
                await stream.end_input()
            yield stream
        finally:
            await stream.stop()
            await session.end()

    @asynccontextmanager
    async def forward(self, port: int, address: str = "127.0.0.1") -> AsyncIterator[int]:
        """Relay a free local port to ``address:port``; where nobody listens, its clients see an end at once."""
        relays: set[asyncio.Task[None]] = set()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            relay = asyncio.ensure_future(_relay(reader, writer, address, port))
            relays.add(relay)
            relay.add_done_callback(relays.discard)

        try:
            server = await asyncio.start_server(accept, "127.0.0.1", 0)
        except OSError as error:
            raise ForwardFailed(self.name, f"{address}:{port}", str(error)) from error
        try:
            yield int(server.sockets[0].getsockname()[1])
        finally:
            server.close()
            for relay in relays:
                relay.cancel()
            if relays:
                await asyncio.wait(relays)

    async def ping(self) -> float:
        """The time it takes to start a process here and see it end, in seconds."""
        began = time.monotonic()
        await self.run(Command(self.name, ("true",), "see whether this machine answers", limit=5))
        return time.monotonic() - began

    async def close(self) -> None:
        """Nothing runs on behalf of a connection here."""
        self._connected = False

    async def _start(self, command: Command, argv: Sequence[str]) -> _Session:
        if not self._connected:
            raise NotConnected(self.name, command=command)
        quoting.join(command.argv)
        opening = asyncio.ensure_future(_open_session(argv, self._home))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            # asyncio itself would end the leader alone, and leave what it has started.
            await (await opening).end()
            raise
        except OSError as error:
            raise HostError(
                self.name,
                f"could not {command.why}: {argv[0]} does not start: {error.strerror} "
                f"(run was: {quoting.join(command.argv)}).",
            ) from error


async def _open_session(argv: Sequence[str], folder: Path) -> _Session:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.subprocess_exec(
        lambda: SubprocessStreamProtocol(limit=CHUNK, loop=loop),
        *argv,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        start_new_session=True,
        cwd=folder,
    )
    return _Session(Process(transport, protocol, loop), transport)


class LocalStream:
    """``hosts.host.Stream`` on a process of this machine."""

    def __init__(self, host: str, command: Command, session: _Session) -> None:
        self._host = host
        self._command = command
        self._session = session
        self._errors = Tail()
        self._watch = asyncio.ensure_future(self._errors.follow(session.read_errors))

    @property
    def error_text(self) -> str:
        """The last of standard error."""
        return self._errors.text

    async def read(self) -> bytes:
        """The next bytes of standard output, at most 64 KiB; ``b""`` at its end."""
        return await self._session.read_output()

    async def write(self, data: bytes) -> None:
        """Give ``data`` to standard input."""
        try:
            await self._session.put(data)
        except OSError as error:
            raise ConnectionLost(self._host, "it reads no input any more", command=self._command) from error

    async def end_input(self) -> None:
        """End standard input."""
        self._session.end_input()

    async def wait(self) -> int:
        """The exit status once standard output has ended."""
        while await self.read():
            pass
        await self._session.wait()
        return self._session.status

    async def stop(self) -> None:
        """Stop following standard error."""
        self._watch.cancel()
        await asyncio.wait({self._watch})


class _Session:
    """One process of this machine, leader of its own group; ``running.Pipes``."""

    def __init__(self, process: Process, transport: asyncio.SubprocessTransport) -> None:
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise ValueError("the process was started without pipes")
        self._process = process
        self._transport = transport
        self._stdin, self._stdout, self._stderr = process.stdin, process.stdout, process.stderr

    async def feed(self, data: bytes) -> None:
        with contextlib.suppress(OSError):
            await self.put(data)
        self.end_input()

    async def put(self, data: bytes) -> None:
        self._stdin.write(data)
        await self._stdin.drain()

    def end_input(self) -> None:
        self._stdin.close()

    async def read_output(self) -> bytes:
        return await self._stdout.read(CHUNK)

    async def read_errors(self) -> bytes:
        return await self._stderr.read(CHUNK)

    @property
    def ended(self) -> bool:
        return self._process.returncode is not None

    @property
    def status(self) -> int:
        """The exit status; 128 + n after signal n, as shells have it."""
        status = self._process.returncode
        if status is None:
            raise ValueError("the process has not ended")
        return status if status >= 0 else 128 - status

    async def wait(self) -> None:
        await self._process.wait()

    async def end(self) -> None:
        """End a process that still runs, and its group: SIGTERM, then SIGKILL. Never waits for long."""
        try:
            if not self.ended:
                self._signal(signal.SIGTERM)
                try:
                    await within(GRACE, self.wait())
                finally:
                    self._signal(signal.SIGKILL)  # whatever the leader left behind as it ended, too
                await within(GRACE, self.wait())
        finally:
            self._transport.close()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


async def _relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str, port: int) -> None:
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            far_reader, far_writer = await asyncio.open_connection(address, port)
    except OSError:
        writer.close()
        return
    try:
        await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
    finally:
        writer.close()
        far_writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
