"""One rig's number, and everything that follows from it: addresses, names, folders.

A rig's state folder is also its lock: whoever makes or clears away rig ``n`` holds an exclusive lock on it.
A state folder nobody holds is what a killed rig left behind.
"""

from __future__ import annotations

import fcntl
import ipaddress
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_cache_path

from tests.rig.shell import RigError, run

STATE = Path("/run/spark-cockpit-rig")
"""One folder a rig, for the whole machine: numbers must not clash between users and checkouts."""

MANAGEMENT = "enP7s7"
FABRIC = "enp1s0f0np0"
"""Interface names of a DGX Spark: the 10 GbE port, and one of the ConnectX-7's."""

MTU = {MANAGEMENT: 1500, FABRIC: 9000}
NUMBERS = range(1, 100)


@dataclass(frozen=True, slots=True)
class Layout:
    """Rig ``number`` with ``count`` hosts."""

    number: int
    count: int

    @property
    def state(self) -> Path:
        """Locks, keys, configuration, consoles; gone with the rig."""
        return STATE / str(self.number)

    @property
    def disks(self) -> Path:
        """The hosts' Docker data, kept from one start to the next, and their home folders."""
        return cache() / "disks" / str(self.number)

    @property
    def switch(self) -> str:
        """The network namespace with the switches of both networks."""
        return f"sc{self.number}-sw"

    @property
    def operator(self) -> str:
        """The operator's interface, in the namespace the tests run in."""
        return f"sc{self.number}-op"

    @property
    def names(self) -> tuple[str, ...]:
        """The hosts' names, as they know themselves."""
        return tuple(f"spark-{index}" for index in range(1, self.count + 1))

    def namespace(self, index: int) -> str:
        """The network namespace of host ``index`` (from 1)."""
        return f"sc{self.number}-{index}"

    def address(self, index: int, interface: str = MANAGEMENT) -> str:
        """The IPv4 address of host ``index`` on ``interface``; host 254 is the operator."""
        return f"10.{64 + self.number}.{list(MTU).index(interface)}.{index}"

    def mac(self, index: int, interface: str) -> str:
        """The hardware address there, a locally administered one."""
        return f"02:5c:00:{self.number:02x}:{list(MTU).index(interface):02x}:{index:02x}"

    @property
    def range(self) -> ipaddress.IPv4Network:
        """All addresses of the rig."""
        return ipaddress.IPv4Network(f"10.{64 + self.number}.0.0/16")


def cache() -> Path:
    """What the rig keeps between runs: the image and the engines' data."""
    return user_cache_path("spark-cockpit") / "rig"


def routed() -> list[ipaddress.IPv4Network]:
    """Every range that some route of this machine leads to, the default route left out."""
    routes = json.loads(run(["ip", "-json", "-4", "route", "show", "table", "all"]).out or "[]")
    found = [route["dst"] for route in routes if route["dst"] != "default"]
    return [ipaddress.IPv4Network(dst, strict=False) for dst in found]


def lock(number: int) -> int | None:
    """Take rig ``number``'s state folder, made when absent: an open descriptor, or None when it is held."""
    folder = STATE / str(number)
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The folder may have been cleared away between the opening and the lock.
            if folder.stat().st_ino == os.fstat(descriptor).st_ino:
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except FileNotFoundError:
            pass
        os.close(descriptor)


def leftovers() -> Iterator[tuple[int, int]]:
    """Number and lock of every rig that stands without anyone holding it."""
    if not STATE.is_dir():
        return
    for folder in sorted(STATE.iterdir()):
        number = int(folder.name)
        descriptor = lock(number)
        if descriptor is not None:
            yield number, descriptor


def claim(count: int) -> tuple[Layout, int]:
    """A free number and its lock. Raises ``RigError`` when every range is taken or routed."""
    taken = routed()
    for number in NUMBERS:
        layout = Layout(number, count)
        if any(layout.range.overlaps(other) for other in taken):
            continue
        descriptor = lock(number)
        if descriptor is not None:
            return layout, descriptor
    raise RigError("Every range from 10.65.0.0/16 to 10.163.0.0/16 is in use on this machine.")
