"""What a host was seen to be: one sample of the probe, and Ray's membership. Memory is in bytes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Memory:
    """A host's memory. ``gpu_processes`` is the sum over the GPU's compute processes, None where it could
    not be asked; ``pressure`` is PSI's ``some avg10`` in percent, None without PSI."""

    total: int
    available: int
    page_cache: int
    swap_total: int
    swap_free: int
    gpu_processes: int | None = None
    pressure: float | None = None


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A compute process on a GPU; ``used`` in bytes, None where the driver does not tell."""

    pid: int
    name: str
    used: int | None


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU. On unified memory (GB10) the driver tells no memory: ``total`` and ``used`` are None.
    ``utilisation`` in percent, ``power`` in watts, ``temperature`` in degrees Celsius."""

    index: int
    name: str
    total: int | None = None
    used: int | None = None
    utilisation: float | None = None
    power: float | None = None
    temperature: float | None = None


@dataclass(frozen=True, slots=True)
class Interface:
    """Byte counters of a network interface, since boot."""

    name: str
    received: int
    sent: int


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of the probe. ``at`` is the host's clock, seconds since the epoch; ``disk_read`` counts bytes
    read from disks since boot."""

    at: float
    memory: Memory
    gpus: tuple[Gpu, ...]
    processes: tuple[GpuProcess, ...]
    interfaces: tuple[Interface, ...]
    disk_read: int = 0
    gpu_error: str = ""


class MemberState(StrEnum):
    """A host's place in the Ray cluster."""

    JOINED = "joined"
    MISSING = "missing"
    WRONG_ADDRESS = "wrong-address"
    UNEXPECTED = "unexpected"


@dataclass(frozen=True, slots=True)
class Member:
    """One host, or one unexpected node, as Ray's node table has it. ``gpus`` is what the node brought."""

    host: str
    state: MemberState
    address: str = ""
    gpus: float = 0.0
    node_id: str = ""


@dataclass(frozen=True, slots=True)
class Membership:
    """The Ray cluster compared with the hosts expected. ``reachable`` tells whether Ray answered at all;
    ``error`` says why not."""

    reachable: bool
    members: tuple[Member, ...] = ()
    ray_version: str = ""
    error: str = ""

    @property
    def complete(self) -> bool:
        """Whether every expected host has joined with at least one GPU, and nobody else."""
        return (
            self.reachable
            and bool(self.members)
            and all(m.state is MemberState.JOINED and m.gpus >= 1 for m in self.members)
        )
