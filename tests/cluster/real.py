"""A real Ray cluster on loopback addresses, brought up by the very commands that hosts get."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cockpit.cluster import ray
from cockpit.cluster.arguments import temp_dir
from cockpit.cluster.membership import membership_command, parse_membership
from cockpit.model.command import Command
from cockpit.model.facts import Membership
from cockpit.model.profile import (
    Fabric,
    FlagValue,
    HostSpec,
    NativeRuntime,
    Profile,
    RaySpec,
    Role,
    ServeSpec,
)
from cockpit.runtime.native import NativeEnvironment


def ray_profile(venv: str, name: str = "ray-test", net: int = 25, port: int = 25379) -> Profile:
    """Two hosts on loopback, each with one CPU and a GPU that is only a number to Ray."""
    flags: dict[str, FlagValue] = {
        "num-cpus": 1,
        "num-gpus": 1,
        "object-store-memory": 100_000_000,
        "ray-client-server-port": port + 2,
    }
    return Profile(
        name=name,
        hosts=tuple(
            HostSpec(f"spark-{n}", "local", role, Fabric(f"127.0.{net}.{n + 1}", "lo"))
            for n, role in ((1, Role.HEAD), (2, Role.WORKER))
        ),
        runtime=NativeRuntime(venv),
        serve=ServeSpec("tiny", flags={"tensor-parallel-size": 2, "distributed-executor-backend": "ray"}),
        ray=RaySpec(port=port, dashboard_port=port + 1, flags=flags),
    )


@dataclass(slots=True)
class Cluster:
    """The profile's hosts as folders: each has a home of its own, and all share this machine."""

    profile: Profile
    folder: Path
    secrets: dict[str, str] = field(default_factory=dict)
    extra_env: Mapping[str, str] = field(default_factory=dict)

    @property
    def runtime(self) -> NativeEnvironment:
        assert isinstance(self.profile.runtime, NativeRuntime)
        return NativeEnvironment(self.profile, self.profile.runtime)

    def home(self, host: str) -> Path:
        return self.folder / host

    def state_folder(self, host: str) -> Path:
        return self.home(host) / ".local/state/spark-cockpit" / self.profile.name

    def environment(self, host: str) -> dict[str, str]:
        """What a login on the host would have."""
        home = self.home(host)
        home.mkdir(parents=True, exist_ok=True)
        keep = {key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ}
        return {**keep, "HOME": str(home), **self.extra_env}

    def start(self, command: Command) -> subprocess.Popen[bytes]:
        """Begin a command as its host would; its output goes nowhere."""
        silent = subprocess.DEVNULL
        begun = subprocess.Popen(
            command.remote_argv,
            stdin=subprocess.PIPE,
            stdout=silent,
            stderr=silent,
            env=self.environment(command.host),
        )
        assert begun.stdin is not None
        begun.stdin.write(command.stdin_bytes(self.secrets) or b"")
        begun.stdin.close()
        return begun

    def run(self, command: Command) -> subprocess.CompletedProcess[bytes]:
        """Run a command as its host would."""
        done = subprocess.run(
            command.remote_argv,
            input=command.stdin_bytes(self.secrets),
            capture_output=True,
            env=self.environment(command.host),
            timeout=command.limit + 20,
            check=False,
        )
        if command.gives and done.returncode == 0:
            self.secrets[command.gives] = done.stdout.decode().rstrip("\n")
        return done

    def good(self, command: Command) -> str:
        """Run a command that must end well; its output."""
        done = self.run(command)
        assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
        return done.stdout.decode()

    def start_head(self) -> str:
        return self.good(ray.head_command(self.profile, self.runtime))

    def join(self, host: HostSpec | None = None) -> str:
        self.good(ray.token_command(self.profile, self.runtime))
        return self.good(ray.worker_command(self.profile, self.runtime, host or self.profile.workers[0]))

    def state(self, host: HostSpec) -> ray.RayProcess:
        return ray.parse_state(self.good(ray.state_command(self.profile, self.runtime, host)))

    def membership(self) -> Membership:
        output = self.good(membership_command(self.profile, self.runtime))
        return parse_membership(output.encode(), self.profile)

    def stop(self) -> None:
        for command in ray.stop_commands(self.profile, self.runtime):
            self.good(command)

    def clear(self) -> None:
        """Take away what Ray keeps of its sessions."""
        for host in self.profile.hosts:
            shutil.rmtree(temp_dir(self.profile, host), ignore_errors=True)

    def processes(self) -> dict[int, str]:
        """Every living process that has this cluster's folders in its environment or command line."""
        mark = str(self.folder).encode()
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                text = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
            except OSError:
                continue
            if mark in text and int(folder.name) != os.getpid():
                found[int(folder.name)] = text[:80].replace(b"\0", b" ").decode("utf-8", "replace")
        return found
