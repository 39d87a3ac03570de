"""One host of the lab: an SSH server on a loopback address, detached, without root.

``python -m cockpit.lab.server FOLDER`` serves the host in FOLDER until SIGTERM; then it ends everything that
was started through it. ``FOLDER/server.json`` holds address, port, user and name; beside it stand the host
key, the authorized key and the host's home.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh

from cockpit.lab import processes
from cockpit.lab.child import Child

SESSIONS = 10
"""Sessions a connection may have, as sshd's default ``MaxSessions``."""

GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL when the host is shut down."""

_PR_SET_CHILD_SUBREAPER = 36
"""linux/prctl.h: orphaned descendants become this process's children, as they would become init's."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What ``server.json`` says."""

    folder: Path
    name: str
    address: str
    port: int
    user: str
    env: dict[str, str]

    @property
    def home(self) -> Path:
        """The host's home folder."""
        return self.folder / "home"

    @staticmethod
    def read(folder: Path) -> Settings:
        """The settings of the host in ``folder``."""
        text = json.loads((folder / "server.json").read_text())
        return Settings(folder, text["name"], text["address"], text["port"], text["user"], text["env"])


class Machine:
    """The host: what runs on it, and what every session finds there."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._children: dict[int, Child] = {}
        self._closing = False
        self.gone = asyncio.Event()

    def session_env(self, peer: tuple[str, int], term: str) -> dict[str, str]:
        """A session's environment: sshd's, and the mark by which the host knows its processes."""
        s = self.settings
        env = {
            "HOME": str(s.home),
            "USER": s.user,
            "LOGNAME": s.user,
            "SHELL": "/bin/sh",
            "LANG": "C.UTF-8",
            "PATH": f"{s.home}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "XDG_STATE_HOME": f"{s.home}/.local/state",
            "SSH_CONNECTION": f"{peer[0]} {peer[1]} {s.address} {s.port}",
            processes.MARK: str(s.folder),
            **s.env,
        }
        return {**env, "TERM": term} if term else env

    def started(self, child: Child) -> None:
        """``child`` runs; the machine reaps it."""
        self._children[child.pid] = child

    def reap(self) -> None:
        """Reap whatever has ended: commands of sessions, and the orphans that were adopted."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                if self._closing:
                    self.gone.set()
                return
            if pid == 0:
                return
            child = self._children.pop(pid, None)
            if child is not None:
                child.reaped(os.waitstatus_to_exitcode(status))

    async def shut_down(self) -> None:
        """End every process of the host: SIGTERM, a grace, SIGKILL until none is left."""
        self._closing = True
        leftovers = self._signal_all(signal.SIGTERM)
        self.reap()
        try:
            async with asyncio.timeout(GRACE):
                await self.gone.wait()
        except TimeoutError:
            while not self.gone.is_set():
                leftovers |= self._signal_all(signal.SIGKILL)
                self.reap()
                try:
                    async with asyncio.timeout(0.2):
                        await self.gone.wait()
                except TimeoutError:
                    continue
        processes.remove(leftovers)

    def _signal_all(self, number: signal.Signals) -> set[Path]:
        """Signal every process of the host; the value is the files that they would leave behind."""
        pids = processes.of_host(self.settings.folder)
        leftovers = processes.leftovers(pids)
        processes.send(pids, number)
        return leftovers


class Session(asyncssh.SSHServerSession[bytes]):
    """One session channel and its command."""

    def __init__(self, machine: Machine, server: Server) -> None:
        self._machine, self._server = machine, server
        self._channel: asyncssh.SSHServerChannel[bytes]
        self._child: Child | None = None
        self._freed = False
        self._command = ""
        self._terminal: tuple[int, int] | None = None
        self._term = ""

    def connection_made(self, chan: asyncssh.SSHServerChannel[bytes]) -> None:
        """The channel is open."""
        self._channel = chan

    def pty_requested(self, term_type: str, term_size: tuple[int, int, int, int], term_modes: Any) -> bool:
        """A terminal is wanted."""
        self._term, self._terminal = term_type, (term_size[0], term_size[1])
        return True

    def exec_requested(self, command: str) -> bool:
        """Run ``command`` by the shell."""
        self._command = command
        return True

    def shell_requested(self) -> bool:
        """Run a login shell."""
        return True

    def session_started(self) -> None:
        """Start what was asked for."""
        settings = self._machine.settings
        peer = self._channel.get_extra_info("peername") or ("", 0)
        argv = ("/bin/sh", "-c", self._command) if self._command else ("/bin/sh", "-l")
        child = Child(argv, self._machine.session_env(peer[:2], self._term), str(settings.home), self)
        try:
            if self._terminal:
                child.start_in_terminal(self._terminal)
            else:
                child.start()
        except OSError as error:
            self._channel.write_stderr(f"{settings.name}: {error}\n".encode())
            self._channel.exit(255)
            return
        self._child = child
        self._machine.started(child)

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        """Input for the command."""
        if self._child:
            self._child.write(data)

    def eof_received(self) -> bool:
        """The input has ended; the output goes on."""
        if self._child:
            self._child.end_input()
        return True

    def signal_received(self, signal: str) -> None:
        """Deliver a signal to the command's group."""
        if self._child:
            self._child.send_signal(signal)

    def terminal_size_changed(self, width: int, height: int, pixwidth: int, pixheight: int) -> None:
        """The window's size has changed."""
        if self._child:
            self._child.resize((width, height))

    def pause_writing(self) -> None:
        """The channel takes no more for now."""
        if self._child:
            self._child.pause(True)

    def resume_writing(self) -> None:
        """The channel takes more again."""
        if self._child:
            self._child.pause(False)

    def connection_lost(self, exc: Exception | None) -> None:
        """The channel is closed."""
        self._free()
        if self._child:
            self._child.abandon()

    def _free(self) -> None:
        """Give the session back, once: before its client can know of the end, for it may open the next at once."""
        if not self._freed:
            self._freed = True
            self._server.sessions -= 1

    def output(self, data: bytes, *, error: bool) -> None:
        """The command's output, on to the client."""
        if error:
            self._channel.write_stderr(data)
        else:
            self._channel.write(data)

    def hold_input(self, hold: bool) -> None:
        """The command reads slowly, or reads on."""
        if hold:
            self._channel.pause_reading()
        else:
            self._channel.resume_reading()

    def ended(self, status: int) -> None:
        """The command's end, on to the client."""
        self._free()
        if status < 0:
            name = signal.Signals(-status).name.removeprefix("SIG")
            self._channel.exit_with_signal(name)
        else:
            self._channel.exit(status)


class Server(asyncssh.SSHServer):
    """One connection."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.sessions = 0

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        """Somebody connects."""
        self._connection = conn

    def begin_auth(self, username: str) -> bool:
        """Everybody has to show a key; only the host's one user has any."""
        if username == self._machine.settings.user:
            self._connection.set_authorized_keys(str(self._machine.settings.folder / "authorized_keys"))
        return True

    def session_requested(self) -> Session:
        """Open a session, unless the connection has its ten already."""
        if self.sessions >= SESSIONS:
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, "open failed")
        self.sessions += 1
        return Session(self._machine, self)

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
        """Forward to any port, as sshd does by default."""
        return True


async def serve(settings: Settings, ready: int | None) -> None:
    """Serve until SIGTERM; ``ready`` is closed once connections are taken."""
    machine = Machine(settings)
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGCHLD, machine.reap)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        # A signal with a handler is at its default again in what is started here; one that `lab up` was started
        # with ignored (nohup) would stay so in every command of the host.
        signal.signal(number, lambda *_: None)
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    listener = await asyncssh.listen(
        settings.address,
        settings.port,
        server_factory=lambda: Server(machine),
        server_host_keys=[str(settings.folder / "host_key")],
        encoding=None,
        password_auth=False,
        kbdint_auth=False,
        allow_scp=False,
        keepalive_interval=15,
        login_timeout=30,
        line_editor=False,
    )
    processes.write_server_pid(settings.folder)
    if ready is not None:
        os.write(ready, b"ready\n")
        os.close(ready)
    await stop.wait()
    listener.close()
    await machine.shut_down()
    (settings.folder / "server.pid").unlink(missing_ok=True)


def main() -> None:
    """``python -m cockpit.lab.server FOLDER [READY_FD]``."""
    settings = Settings.read(Path(sys.argv[1]))
    os.umask(0o022)
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    asyncio.run(serve(settings, int(sys.argv[2]) if len(sys.argv) > 2 else None))


if __name__ == "__main__":
    main()
