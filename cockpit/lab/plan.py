"""A lab's own addresses and ports: picked once, kept, and held apart from every other lab on this machine."""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
from dataclasses import asdict, dataclass
from pathlib import Path

from cockpit.lab.errors import LabError

HOSTS = ("spark-1", "spark-2")
"""The head, and the worker."""

_NUMBERS = range(2, 250)
_PORTS = 12
_FIRST_PORT = 21000
"""Below Linux's ephemeral ports (from 32768), where a kept port might be somebody's outgoing connection."""

_CLAIMS = Path("/tmp")
"""Short on purpose: Ray's socket paths must fit into 107 bytes, and a home folder may be long."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The lab's number, which gives its two loopback addresses, and its ports."""

    number: int
    ssh: int
    ray: int
    dashboard: int
    api: int

    @property
    def addresses(self) -> tuple[str, str]:
        """The hosts' addresses. Not 127.0.0.x: Ray takes 127.0.0.1 for the machine's outer address."""
        return f"127.0.{self.number}.2", f"127.0.{self.number}.3"

    @property
    def scratch(self) -> Path:
        """The lab's folder for Ray's temporary files; its existence claims the number on this machine."""
        return _CLAIMS / f"spark-cockpit-lab-{self.number}"

    def write(self, home: Path) -> None:
        """Keep it in the lab's folder."""
        (home / "lab.json").write_text(json.dumps(asdict(self)) + "\n")


def kept(home: Path) -> Plan | None:
    """The plan the lab in ``home`` had last, or None."""
    try:
        return Plan(**json.loads((home / "lab.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None


def pick(home: Path) -> Plan:
    """The lab's kept plan where it is still free, else a fresh one; its number is claimed for ``home``."""
    last = kept(home)
    if last is not None and _claim(last, home) and _free(last):
        return last
    if last is not None:
        release(last, home)
    for number in _NUMBERS:
        first = _FIRST_PORT + number * _PORTS
        plan = Plan(number, ssh=first, ray=first + 1, dashboard=first + 2, api=first + 3)
        if not _claim(plan, home):
            continue
        if _free(plan):
            plan.write(home)
            return plan
        release(plan, home)
    raise LabError("Every address the lab could use is taken by other labs on this machine.")


def _claim(plan: Plan, home: Path) -> bool:
    """Make the number ours, unless another lab, of whichever user, has it."""
    try:
        plan.scratch.mkdir(mode=0o700)
    except FileExistsError:
        return _is_ours(plan, home)
    (plan.scratch / "lab").write_text(str(home))
    return True


def _is_ours(plan: Plan, home: Path) -> bool:
    try:
        seen = plan.scratch.lstat()
        return (
            stat.S_ISDIR(seen.st_mode)
            and seen.st_uid == os.getuid()
            and (plan.scratch / "lab").read_text() in ("", str(home))
        )
    except OSError:
        return False


def release(plan: Plan, home: Path) -> None:
    """Give the number back, with the temporary files under it."""
    if _is_ours(plan, home):
        shutil.rmtree(plan.scratch, ignore_errors=True)


def _free(plan: Plan) -> bool:
    """Whether nobody listens on the lab's ports."""
    return all(
        _bindable(address, port)
        for address in plan.addresses
        for port in (plan.ssh, plan.ray, plan.dashboard, plan.api)
    )


def _bindable(address: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True
