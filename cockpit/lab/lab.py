"""The lab: two hosts on this machine, with real SSH, real Ray and real vLLM, without root."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cockpit.lab import environment, files, folders, model, plan, processes
from cockpit.lab.errors import LabError, Progress

_START_LIMIT = 30.0
_STOP_LIMIT = 30.0


@dataclass(frozen=True, slots=True)
class LabHost:
    """One host of the lab. ``server`` is the process id of its SSH server, None where it doesn't run."""

    name: str
    address: str
    port: int
    server: int | None
    processes: int

    def to_json(self) -> dict[str, Any]:
        """The host as the command line's contract has it."""
        return {
            "name": self.name,
            "address": self.address,
            "port": self.port,
            "running": self.server is not None,
            "server": self.server,
            "processes": self.processes,
        }


@dataclass(frozen=True, slots=True)
class LabInfo:
    """How the lab stands. The paths are None before the first ``up``."""

    name: str
    hosts: tuple[LabHost, ...] = ()
    profile: Path | None = None
    ssh_config: Path | None = None
    environment: Path | None = None

    @property
    def running(self) -> bool:
        """Whether every host's SSH server runs."""
        return bool(self.hosts) and all(host.server is not None for host in self.hosts)

    @property
    def _word(self) -> str:
        up = sum(host.server is not None for host in self.hosts)
        return (
            "up" if self.running else "down" if not up else "partly up; `spark-cockpit lab up` starts the rest"
        )

    def to_json(self) -> dict[str, Any]:
        """The lab as the command line's contract has it."""
        return {
            "name": self.name,
            "running": self.running,
            "hosts": [host.to_json() for host in self.hosts],
            "profile": _text(self.profile),
            "ssh_config": _text(self.ssh_config),
            "environment": _text(self.environment),
        }

    def __str__(self) -> str:
        if not self.hosts:
            return f"The lab {self.name} has not been made yet: spark-cockpit lab up"
        lines = [f"The lab {self.name} is {self._word}."]
        for host in self.hosts:
            state = f"serves SSH, {host.processes} processes" if host.server else "is down"
            lines.append(f"  {host.name}  {host.address}:{host.port}  {state}")
        if self.running:
            lines.append(f"  profile {self.name}: {self.profile}")
            lines.append(f"  ssh -F {self.ssh_config} {self.hosts[0].name}")
        return "\n".join(lines)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def status() -> LabInfo:
    """How the lab stands; starts and changes nothing."""
    name = folders.name()
    home = folders.home(name)
    kept = plan.kept(home)
    built = environment.find() if sys.platform == "linux" else None
    venv = built.folder if built else None
    if kept is None:
        return LabInfo(name, environment=venv)
    hosts = []
    for host, address in zip(plan.HOSTS, kept.addresses, strict=True):
        folder = files.host_folder(home, host)
        server = processes.server_pid(folder)
        hosts.append(LabHost(host, address, kept.ssh, server, len(processes.of_host(folder))))
    return LabInfo(name, tuple(hosts), home / "profile.yaml", home / "ssh_config", venv)


def up(progress: Progress) -> LabInfo:
    """Make what is not made yet, and start the hosts that don't run; what runs stays as it is.

    The hosts are processes of their own and go on when the cockpit ends. Raises ``LabError``.
    """
    environment.refuse_elsewhere()
    name = folders.name()
    built = environment.ensure(progress)
    made = model.ensure(built, progress)
    home = folders.home(name)
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    with folders.locked(home / "lock", lambda: progress("Waiting for another `lab up`", None, None)):
        running = [host for host in plan.HOSTS if processes.server_pid(files.host_folder(home, host))]
        current = plan.kept(home) if running else None
        if current is None:
            current = plan.pick(home)
        files.write_keys(home)
        files.write_hosts(home, current)
        files.write_ssh(home, current)
        files.write_profile(home, files.profile(home, current, name, built.folder, made))
        for host in plan.HOSTS:
            if host not in running:
                progress(f"Starting {host}", None, None)
                _start(files.host_folder(home, host))
    return status()


def _start(folder: Path) -> None:
    """Start a host's server and wait until it takes connections."""
    leftover = processes.of_host(folder)
    if leftover:
        _end(leftover)
    read, write = os.pipe()
    log = folder / "server.log"
    with log.open("ab") as output:
        server = subprocess.Popen(
            (sys.executable, "-m", "cockpit.lab.server", str(folder), str(write)),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(write,),
            start_new_session=True,
            cwd="/",
            env=_server_env(),
        )
    os.close(write)
    try:
        ready = bool(select.select([read], [], [], _START_LIMIT)[0]) and os.read(read, 16) == b"ready\n"
    finally:
        os.close(read)
    if not ready:
        server.kill()
        server.wait()
        raise LabError(f"{folder.name}: its SSH server did not start; what it said is in {log}.")
    server.returncode = 0  # it is a process of its own from here on: nobody waits for it


def _server_env() -> dict[str, str]:
    """The server's environment: the cockpit's own package first, and no mark of a host we may sit on."""
    import cockpit

    root = str(Path(cockpit.__file__).parents[1])
    path = os.environ.get("PYTHONPATH")
    env = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{path}" if path else root}
    env.pop(processes.MARK, None)
    return env


def down() -> LabInfo:
    """End the hosts and everything that was started through them. Keys and the profile stay; the hosts' state
    folders go, with the runs in them, as a host's would that is set up anew.

    Raises ``LabError`` when something could not be ended.
    """
    home = folders.home(folders.name())
    kept = plan.kept(home)
    if kept is None:
        return status()
    with folders.locked(home / "lock", lambda: None):
        for host in reversed(plan.HOSTS):
            _stop(files.host_folder(home, host))
        plan.release(kept, home)
    return status()


def _stop(folder: Path) -> None:
    server = processes.server_pid(folder)
    if server is not None:
        os.kill(server, signal.SIGTERM)
        if not _gone(server, _STOP_LIMIT):
            raise LabError(
                f"{folder.name}: its server (process {server}) did not end within {_STOP_LIMIT:g} s."
            )
    _end(processes.of_host(folder))
    shutil.rmtree(folder / "home" / ".local" / "state", ignore_errors=True)


def _end(pids: set[int]) -> None:
    """End what a killed server has left behind."""
    leftovers = processes.leftovers(pids)
    for number in (signal.SIGTERM, signal.SIGKILL):
        processes.send(pids, number)
        until = time.monotonic() + 5
        pids = {pid for pid in pids if not _gone(pid, max(0.0, until - time.monotonic()))}
    if pids:
        raise LabError(f"These processes of the lab did not end: {', '.join(map(str, sorted(pids)))}.")
    processes.remove(leftovers)


def _gone(pid: int, limit: float) -> bool:
    """Wait until the process ends, at most ``limit`` seconds (pidfd_open(2), Linux 5.3)."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], limit)[0])
    finally:
        os.close(descriptor)
