"""One host of the rig: power, commands on it, its cables."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from tests.rig import cgroups, network
from tests.rig.environment import Environment
from tests.rig.layout import FABRIC, MANAGEMENT, MTU, Layout
from tests.rig.shell import Result, RigError, run, wait_for

FILES = Path(__file__).parent / "files"
MODELS = "/models"
"""Where a host, and a container that is given the rig's mounts, finds the models."""


class Host:
    """A host, booted by ``Rig.start``. Every method has a time limit and raises ``RigError``."""

    def __init__(
        self,
        layout: Layout,
        index: int,
        groups: list[Path],
        environment: Environment | None,
        models: Path | None,
        *,
        docker: bool,
    ) -> None:
        self.name = layout.names[index - 1]
        self.docker = docker
        self._layout = layout
        self._index = index
        self._groups = groups
        self._environment = environment
        self._models = models
        self._wrapper: subprocess.Popen[bytes] | None = None
        self.state.mkdir(exist_ok=True)
        run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", self.name, "-f", str(self.state / "host_key")]
        )

    @property
    def address(self) -> str:
        """On the management network."""
        return self._layout.address(self._index)

    @property
    def fabric(self) -> str:
        """On the fabric."""
        return self._layout.address(self._index, FABRIC)

    @property
    def namespace(self) -> str:
        """The name of its network namespace."""
        return self._layout.namespace(self._index)

    @property
    def state(self) -> Path:
        """Its folder on the machine below: host key, console."""
        return self._layout.state / self.name

    @property
    def disk(self) -> Path:
        """The folder on the machine below that holds its Docker data and home folders."""
        return self._layout.disks / self.name

    @property
    def public_key(self) -> str:
        """Its SSH host key, ``ssh-ed25519 ...``."""
        return " ".join((self.state / "host_key.pub").read_text().split()[:2])

    @property
    def console(self) -> str:
        """What its start-up, sshd and dockerd have written, over all boots."""
        return (self.state / "console.log").read_text(errors="replace")

    @property
    def pid(self) -> int:
        """Its PID 1, as the machine below numbers it. Raises ``RigError`` when the power is off."""
        if self._wrapper is not None and self._wrapper.poll() is None:
            wrapper = self._wrapper.pid
            children = Path(f"/proc/{wrapper}/task/{wrapper}/children").read_text().split()
            if children:
                return int(children[0])
        raise RigError(f"{self.name} is off. Its console:\n{self.console[-3000:]}")

    @property
    def running(self) -> bool:
        """Whether the power is on."""
        return self._wrapper is not None and self._wrapper.poll() is None

    def power_on(self) -> None:
        """Start it without waiting; ``boot`` waits."""
        if self.running:
            raise RigError(f"{self.name} is on already.")
        network.plug(self._layout, self._index)
        join = "".join(f"echo $$ >{group}/cgroup.procs\n" for group in self._groups)
        unshare = "unshare --mount --uts --ipc --cgroup --pid --fork --propagation private"
        script = f"{join}exec ip netns exec {self.namespace} {unshare} sh {FILES}/host-init.sh"
        with (self.state / "console.log").open("ab") as console:
            self._wrapper = subprocess.Popen(
                ["sh", "-ec", script],
                env=self._init_environment(),
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
            )

    def _init_environment(self) -> dict[str, str]:
        layout = self._layout
        names = [f"{layout.address(index)} {name}" for index, name in enumerate(layout.names, 1)]
        binds = [f"{path} {path}" for path in (self._environment.folders if self._environment else ())]
        binds += [f"{self._models} {MODELS}"] if self._models else []
        return {
            "PATH": os.environ["PATH"],
            "RIG_HOST": self.name,
            "RIG_STATE": str(self.state),
            "RIG_DISK": str(self.disk),
            "RIG_FILES": str(FILES),
            "RIG_HOSTS": "\n".join(["127.0.0.1 localhost", *names]),
            "RIG_BINDS": "\n".join(binds),
            "RIG_CGROUPS": " ".join(cgroups.hierarchies()) if cgroups.is_v1() else "v2",
            "RIG_DOCKER": str(int(self.docker)),
        }

    def boot(self, timeout: float = 60) -> None:
        """Switch it on and wait until sshd and Docker answer."""
        self.power_on()
        self.wait_ready(timeout)

    def wait_ready(self, timeout: float = 60) -> None:
        """Wait until sshd and, where there is one, the Docker engine answer."""
        try:
            wait_for(self._answers, f"{self.name} answers", timeout=timeout)
        except RigError as error:
            raise RigError(f"{error}\nIts console:\n{self.console[-3000:]}") from None

    def _answers(self) -> bool:
        if not self.running:
            raise RigError(f"{self.name} went off while it booted.")
        return self._ssh_answers() and (not self.docker or self._docker_answers())

    def _ssh_answers(self) -> bool:
        try:
            with socket.create_connection((self.address, 22), timeout=1) as connection:
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False

    def _docker_answers(self) -> bool:
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(1)
                connection.connect(f"/proc/{self.pid}/root/run/docker.sock")
                connection.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
                return b" 200 " in connection.recv(64)
        except OSError:
            return False

    def crash(self) -> None:
        """Cut the power: everything on it ends at once, and no packet of farewell leaves it.

        Its disk stays; ``boot`` switches it on again.
        """
        if not self.running or self._wrapper is None:
            raise RigError(f"{self.name} is off already.")
        pid = self.pid
        for interface in MTU:
            network.link(self._layout, self._index, interface, up=False)
        os.kill(pid, 9)
        self._wrapper.wait(10)
        # With the namespace go the sockets of the dead, which would retransmit after the next boot.
        network.unplug(self._layout, self._index)
        if self._layout.count == 2:
            # The one cable between two hosts went dark at both ends.
            other = 3 - self._index
            if self._layout.namespace(other) in network.namespaces(self._layout.number):
                network.link_end(self._layout, other, FABRIC, up=True)

    def reap(self) -> None:
        """Take the exit status of a host that the supervisor has ended, so that no zombie stays."""
        if self._wrapper is not None:
            self._wrapper.wait(10)

    def exec(
        self,
        argv: Sequence[str],
        timeout: float = 30,
        *,
        user: str = "root",
        stdin: str = "",
        check: bool = True,
    ) -> Result:
        """Run ``argv`` on it, beside SSH; past ``timeout`` seconds it is ended there."""
        # A process enters the namespaces, and its memory counts as the host's only in the host's group.
        join = "".join(f"echo $$ >{group}/cgroup.procs && " for group in self._groups)
        enter = ["sh", "-c", f'{join}exec nsenter "$@"', "enter", "--target", str(self.pid)]
        enter += ["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup"]
        enter += ["--root", "--wdns=/", "--", "timeout", "--kill-after=2", f"{timeout:g}"]
        as_user = ["runuser", "-u", user, "--"] if user != "root" else []
        result = run([*enter, *as_user, *argv], timeout=timeout + 10, stdin=stdin, check=False)
        if check and result.status:
            said = (result.err + result.out).strip()
            raise RigError(f"{self.name}: status {result.status} of {' '.join(argv)}\n{said}")
        return result

    def link(self, state: Literal["up", "down"], interface: str = MANAGEMENT) -> None:
        """Pull the cable, or put it back. The fabric of two hosts is one cable: both lose the carrier."""
        network.link(self._layout, self._index, interface, up=state == "up")

    def drop(self, state: Literal["on", "off"], interface: str = MANAGEMENT) -> None:
        """A black hole in the network: carrier there, no packet arrives."""
        network.drop(self._layout, self._index, interface, on=state == "on")

    def loss(self, percent: float, interface: str = MANAGEMENT) -> None:
        """Lose this share of the packets in each direction; 0 ends it."""
        network.loss(self._layout, self._index, interface, percent)

    def rate(self, limit: str, interface: str = MANAGEMENT) -> None:
        """Limit the throughput in each direction, in tc's notation (``10mbit``); "" ends it."""
        network.rate(self._layout, self._index, interface, limit)

    def mtu(self, interface: str, size: int) -> None:
        """Set the MTU of this end."""
        network.batch(self.namespace, f"link set {interface} mtu {size}")

    def limit_memory(self, limit: int | None) -> None:
        """Give it only ``limit`` bytes of memory, for real: /proc/meminfo tells it, and past it the OOM
        killer comes. None: the machine's memory, told as a Spark's."""
        cgroups.memory_limit(self._groups, limit)

    def reset(self) -> None:
        """As after a fresh boot: no container, no process of the user, no fault. Boots it when it is off."""
        if not self.running:
            if self.namespace in network.namespaces(self._layout.number):
                network.unplug(self._layout, self._index)
            self.boot()
        network.mend(self._layout, self._index)
        self.limit_memory(None)
        self.exec(["sh", "-c", RESET], timeout=60)


RESET = """
pkill -9 -u aurora
if [ -S /run/docker.sock ]; then
    containers=$(docker ps -aq) || exit 1
    [ -z "$containers" ] || docker rm -f $containers >/dev/null || exit 1
fi
find /home/aurora -mindepth 1 -maxdepth 1 ! -name '.ssh' -exec rm -rf {} +
find /dev/shm /tmp -mindepth 1 -maxdepth 1 -exec rm -rf {} +
"""
