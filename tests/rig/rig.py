"""The rig as a whole: start, reset, stop."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.rig import cgroups, image, network
from tests.rig.environment import Environment, default_environment
from tests.rig.host import MODELS, Host
from tests.rig.layout import Layout, claim, leftovers
from tests.rig.shell import RigError, run
from tests.rig.teardown import tear_down

CHECKOUT = Path(__file__).parents[2]


class Rig:
    """Hosts that stand. Made by ``Rig.start``; ends with ``stop``, or with the process that started it."""

    def __init__(self, layout: Layout, lock: int, environment: Environment | None, models: Path | None) -> None:
        self.layout = layout
        self.environment = environment
        self.models = models
        self.hosts: dict[str, Host] = {}
        self._lock = lock
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._delayer: subprocess.Popen[str] | None = None

    @classmethod
    def start(
        cls,
        docker: bool = True,
        n_hosts: int = 2,
        *,
        environment: Environment | None = None,
        models: Path | None = None,
    ) -> Rig:
        """Boot ``n_hosts`` hosts, called spark-1 and up. First clears away what killed rigs left behind.

        ``environment`` (default: the tests') is there read-only at its own path, ``models`` as /models. With
        ``docker`` each host has an engine with the image ``rig/vllm:test`` in it. Raises ``RigError``.
        """
        for number, descriptor in leftovers():
            tear_down(number)
            os.close(descriptor)
        layout, lock = claim(n_hosts)
        rig = cls(layout, lock, environment or default_environment(), models)
        try:
            rig._build(docker=docker)
        except BaseException:
            rig.stop()
            raise
        return rig

    @property
    def ssh_config(self) -> Path:
        """Aliases spark-1 and up with user, key and known hosts; spark-2-via-1 jumps through spark-1."""
        return self.layout.state / "ssh_config"

    @property
    def known_hosts(self) -> Path:
        """The hosts' keys, under their names and addresses."""
        return self.layout.state / "known_hosts"

    @property
    def key(self) -> Path:
        """The private key of the user ``aurora``, who is in the group docker."""
        return self.layout.state / "key"

    @property
    def image(self) -> str:
        """The image in every engine; its entrypoint is ``vllm serve``."""
        return image.TAG

    @property
    def mounts(self) -> tuple[str, ...]:
        """What a container needs to find the environment and the models, ``SOURCE:TARGET:ro``."""
        environment = self.environment.mounts if self.environment else ()
        return (*environment, f"{MODELS}:{MODELS}:ro") if self.models else environment

    def _build(self, *, docker: bool) -> None:
        layout = self.layout
        parents = cgroups.hierarchies().values()
        groups = {
            name: [parent / f"sc{layout.number}-{index}" for parent in parents]
            for index, name in enumerate(layout.names, 1)
        }
        every = [str(group) for each in groups.values() for group in each]
        made = {"groups": every, "disks": str(layout.disks)}
        (layout.state / "made.json").write_text(json.dumps(made))
        self._supervise()
        archive = image.archive(self.environment) if docker else None
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "rig", "-f", str(self.key)])
        network.build(layout)
        for index, name in enumerate(layout.names, 1):
            cgroups.make(f"sc{layout.number}-{index}")
            host = Host(layout, index, groups[name], self.environment, self.models, docker=docker)
            shutil.rmtree(host.disk / "home", ignore_errors=True)
            disk = host.state / "disk"
            disk.mkdir()
            run(["mount", "-t", "tmpfs", "-o", "mode=755,size=4g", "rig", str(disk)])
            self.hosts[name] = host
            host.power_on()
        self._write_ssh()
        for host in self.hosts.values():
            host.wait_ready()
        if archive is not None:
            image.load(archive, self.hosts.values())
        self.reset()

    def _supervise(self) -> None:
        """Start the process that takes the rig away when this one ends, however it ends."""
        self._supervisor = subprocess.Popen(
            [sys.executable, "-m", "tests.rig.supervisor", str(self.layout.number), str(os.getpid())],
            cwd=CHECKOUT,
            stdin=subprocess.PIPE,
            stdout=(self.layout.state / "supervisor.log").open("wb"),
            stderr=subprocess.STDOUT,
            pass_fds=[self._lock],
            start_new_session=True,
        )

    def _write_ssh(self) -> None:
        entries, known = [], []
        for host in self.hosts.values():
            entries.append(f"Host {host.name}\n  HostName {host.address}\n")
            known.append(f"{host.name},{host.address},{host.fabric} {host.public_key}\n")
        if len(self.hosts) > 1:
            second = self.hosts["spark-2"]
            entries.append(
                f"Host spark-2-via-1\n  HostName {second.fabric}\n  HostKeyAlias spark-2\n  ProxyJump spark-1\n"
            )
        entries.append(
            f"Host *\n  User aurora\n  IdentityFile {self.key}\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {self.known_hosts}\n  StrictHostKeyChecking yes\n"
        )
        self.ssh_config.write_text("\n".join(entries))
        self.known_hosts.write_text("".join(known))

    def delay(self, milliseconds: float) -> None:
        """Let every packet between the operator and the hosts take this much longer, each way; 0 ends it."""
        if self._delayer is not None:
            self._delayer.kill()
            self._delayer.communicate()
            self._delayer = None
            network.undelay(self.layout)
        if milliseconds:
            self._delayer = network.delay(self.layout, milliseconds)

    def reset(self) -> None:
        """Every host as after a fresh boot, all cables up, nothing delayed."""
        self.delay(0)
        for host in self.hosts.values():
            host.reset()

    def stop(self) -> None:
        """Take everything away again. Raises ``RigError`` when something would not go."""
        if self._lock < 0:
            return
        number = self.layout.number
        supervisor, self._supervisor = self._supervisor, None
        lock, self._lock = self._lock, -1
        try:
            if supervisor is None or supervisor.stdin is None:
                tear_down(number)
            else:
                supervisor.stdin.close()
                status = supervisor.wait(60)
                if status:
                    raise RigError(f"The rig's supervisor ended with status {status}.")
        finally:
            os.close(lock)
            for host in self.hosts.values():
                host.reap()
            if self._delayer is not None:
                self._delayer.communicate()
