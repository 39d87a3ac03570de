"""A real OpenSSH server on a loopback port, as the current user, and a link to it that can be cut."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cockpit.model.command import Command
from cockpit.model.profile import HostSpec, Role

SSHD = shutil.which("sshd", path=f"/usr/sbin:{os.environ['PATH']}")
PRIVSEP = Path("/run/sshd")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def make_key(file: Path, kind: str = "ed25519", passphrase: str = "") -> Path:
    command = ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", f"{file.name} comment", "-f", str(file)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return file


def fingerprint(key: Path) -> str:
    shown = subprocess.run(["ssh-keygen", "-lf", f"{key}.pub"], check=True, capture_output=True, text=True)
    return shown.stdout.split()[1]


def public(key: Path) -> str:
    return " ".join(Path(f"{key}.pub").read_text().split()[:2])


@dataclass
class Sshd:
    """One running server; its files stand in ``folder``."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes]
    user: str = field(default_factory=getpass.getuser)

    @property
    def host_key(self) -> Path:
        return self.folder / "host_key"

    @property
    def client_key(self) -> Path:
        return self.folder / "client_key"

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    @property
    def address_in_file(self) -> str:
        return f"[127.0.0.1]:{self.port}"

    def config(self, *extra: str, name: str = "spark-1", port: int = 0, known: bool = True) -> str:
        """An ssh_config for the alias ``name``. ``extra`` lines come first, and so win."""
        port = port or self.port
        if known:
            self.know(f"[127.0.0.1]:{port}")
        lines = [
            f"Host {name}",
            *(f"  {line}" for line in extra),
            "  HostName 127.0.0.1",
            f"  Port {port}",
            f"  User {self.user}",
            f"  UserKnownHostsFile {self.known_hosts}",
            f"  GlobalKnownHostsFile {self.folder}/no-such-file",
            f"  IdentityFile {self.client_key}",
            "",
        ]
        file = self.folder / f"config-{name}"
        file.write_text("\n".join(lines))
        return str(file)

    def know(self, name: str, key: Path | None = None) -> None:
        with self.known_hosts.open("a") as stream:
            stream.write(f"{name} {public(key or self.host_key)}\n")

    def children(self) -> list[int]:
        """The server's processes for connections."""
        return [pid for pid, parent in parents().items() if parent == self.process.pid]

    def drop_connections(self) -> None:
        for pid in self.children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def parents() -> dict[int, int]:
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            found[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    return found


@contextmanager
def serve(folder: Path, *options: str) -> Iterator[Sshd]:
    """Run a server; ``options`` are further lines of its sshd_config, first and so winning."""
    if SSHD is None:
        pytest.skip("no sshd here: apt-get install openssh-server")
    if os.getuid() == 0:
        PRIVSEP.mkdir(mode=0o755, exist_ok=True)  # sshd run by root refuses to start without it
    folder.mkdir(exist_ok=True)
    for name in ("host_key", "client_key"):
        if not (folder / name).exists():
            make_key(folder / name)
    (folder / "authorized_keys").write_text(Path(f"{folder}/client_key.pub").read_text())
    port = free_port()
    lines = [
        *options,
        f"SetEnv HOME={folder}",  # the developer's start-up files stay out of the tests
        f"Port {port}",
        "ListenAddress 127.0.0.1",
        f"HostKey {folder}/host_key",
        f"AuthorizedKeysFile {folder}/authorized_keys",
        "StrictModes no",
        "UsePAM no",
        "PermitRootLogin prohibit-password",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "PidFile none",
    ]
    (folder / "sshd_config").write_text("\n".join(lines) + "\n")
    with (folder / "sshd.log").open("ab") as log:
        command = [SSHD, "-D", "-e", "-f", str(folder / "sshd_config")]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log)
    server = Sshd(folder, port, process)
    try:
        _wait_for_port(server)
        yield server
    finally:
        server.drop_connections()
        process.kill()
        process.wait()


def _wait_for_port(server: Sshd) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(("127.0.0.1", server.port), 1).close()
            return
        except OSError:
            log = (server.folder / "sshd.log").read_text()
            assert server.process.poll() is None, f"sshd did not start: {log}"
            assert time.monotonic() < deadline, f"sshd does not listen: {log}"
            time.sleep(0.02)


@dataclass
class Link:
    """A relay to a server. ``cut``: nothing passes any more, without a word. ``drop``: both ends closed."""

    port: int
    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    whole: asyncio.Event = field(default_factory=asyncio.Event)

    def cut(self) -> None:
        self.whole.clear()

    def mend(self) -> None:
        self.whole.set()

    def drop(self) -> None:
        for writer in self.writers:
            writer.transport.abort()


@asynccontextmanager
async def link_to(port: int) -> AsyncIterator[Link]:
    tasks: set[asyncio.Task[None]] = set()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await link.whole.wait()
                writer.write(data)
                await writer.drain()
            await link.whole.wait()
        writer.close()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        link.writers += [writer, far_writer]
        await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(relay(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    link = Link(int(server.sockets[0].getsockname()[1]))
    link.mend()
    try:
        yield link
    finally:
        link.drop()
        server.close()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def spec(address: str = "spark-1", name: str = "spark-1", **more: object) -> HostSpec:
    return HostSpec(name, address, Role.HEAD, **more)  # type: ignore[arg-type]


def command(*argv: str, limit: float = 30.0, stdin: str = "", secrets: tuple[str, ...] = ()) -> Command:
    return Command("spark-1", argv, "try something", stdin, secrets, limit)


def running(marker: str) -> list[int]:
    """The processes that have ``marker`` as a word of their command line or in it."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if marker.encode() in file.read_bytes() and int(file.parent.name) != os.getpid():
                found.append(int(file.parent.name))
    return found


async def eventually(holds: Callable[[], object], seconds: float = 20.0) -> None:
    """Wait until ``holds``; the test fails when it never does."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"did not come true within {seconds:g} s"
        await asyncio.sleep(0.02)
