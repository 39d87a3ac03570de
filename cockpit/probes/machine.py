"""What a host says of its resources, as records. Everything here was said by a host: it is not to be trusted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Disk:
    """A file system; ``path`` is the first of the ``folders`` that were asked about and are on it. Bytes."""

    path: str
    size: int
    free: int
    folders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Engine:
    """A process of vLLM that runs; ``bytes`` is its resident memory. ``cluster`` is the profile whose cockpit started
    it, "" where none did or it can't be told."""

    pid: int
    uid: int
    bytes: int
    name: str
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """A host's resources, bytes all. ``between`` is the least and the most by which its clock is ahead of the
    cockpit's, in seconds. ``memlock`` is -1 for no limit. ``gpus`` are nvidia-smi's words for persistence, the
    reasons of its clocks and the temperature; ``gpu_memory`` is what compute processes hold.
    ``driver`` is the kernel module's own words. ``cdi`` are (file, driver). ``containers`` run: (id, name, image,
    the cockpit's label). ``models`` are the folders on the host that hold the model, whatever the runtime reads."""

    memory: Mapping[str, int]
    disks: tuple[Disk, ...] = ()
    memlock: int = -1
    engines: tuple[Engine, ...] = ()
    shm_size: int = 0
    shm_left: int = 0
    shm_names: tuple[str, ...] = ()
    gpus: tuple[tuple[str, ...], ...] = ()
    cdi: tuple[tuple[str, str], ...] = ()
    containers: tuple[tuple[str, str, str, str], ...] = ()
    sudo: bool = True
    gpu_memory: int | None = None
    driver: str = ""
    models: tuple[str, ...] = ()
    between: tuple[float, float] = (0.0, 0.0)

    def free_at(self, folder: str) -> int | None:
        """Bytes free where ``folder`` is; None where no folder above it was asked about."""
        above = [
            (len(one), disk.free)
            for disk in self.disks
            for one in (disk.path, *disk.folders)
            if f"{folder}/".startswith(f"{one}/")
        ]
        return max(above)[1] if above else None

    @property
    def total(self) -> int:
        """MemTotal."""
        return self.memory.get("MemTotal", 0)

    @property
    def available(self) -> int:
        """MemAvailable."""
        return self.memory.get("MemAvailable", 0)

    @property
    def page_cache(self) -> int:
        """What of the page cache can be dropped."""
        cached = self.memory.get("Cached", 0) + self.memory.get("Buffers", 0)
        return max(0, cached - self.memory.get("Shmem", 0))

    @property
    def swapped(self) -> int:
        """What is swapped out."""
        return max(0, self.memory.get("SwapTotal", 0) - self.memory.get("SwapFree", 0))

    @property
    def unaccounted(self) -> int | None:
        """Memory in use that belongs to no process, no cache and no GPU process; None where that isn't known.

        On unified memory the driver's allocations stand in none of the kernel's own lines (man 5 proc).
        """
        if self.gpu_memory is None or "AnonPages" not in self.memory:
            return None
        lines = ("MemFree", "Buffers", "Cached", "AnonPages", "Slab", "PageTables", "KernelStack", "Hugetlb")
        known = sum(self.memory.get(name, 0) for name in lines)
        return max(0, self.total - known - self.gpu_memory)


def parse_machine(output: bytes, began: float, ended: float) -> MachineFacts:
    """The answer of ``scripts/machine_facts.py``, asked from ``began`` to ``ended`` by the cockpit's clock;
    raises ``ValueError`` on anything else."""
    try:
        facts = json.loads(output.decode("utf-8", "replace").strip().splitlines()[-1])
        return _machine(facts, began, ended)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"not a host's resources ({error!r}): {output[:120]!r}") from error


def _disk(row: dict[str, Any]) -> Disk:
    folders = tuple(str(folder) for folder in row.get("folders", ()))
    return Disk(str(row["path"]), int(row["size"]), int(row["free"]), folders)


def _machine(facts: dict[str, Any], began: float, ended: float) -> MachineFacts:
    at, shm = float(facts["at"]), facts["shm"]
    return MachineFacts(
        memory={str(name): int(value) for name, value in facts["memory"].items()},
        disks=tuple(_disk(row) for row in facts["disks"]),
        memlock=int(facts["memlock"]),
        engines=tuple(
            Engine(
                int(row["pid"]),
                int(row["uid"]),
                int(row["bytes"]),
                str(row["name"]),
                str(row.get("cluster", "")),
            )
            for row in facts["engines"]
        ),
        shm_size=int(shm["size"]),
        shm_left=int(shm["left"]),
        shm_names=tuple(str(name) for name in shm["names"]),
        gpus=tuple(tuple(str(word) for word in row) for row in facts["gpus"]),
        cdi=tuple((str(path), str(driver)) for path, driver in facts["cdi"]),
        containers=tuple((str(a), str(b), str(c), str(d)) for a, b, c, d in facts["containers"]),
        sudo=bool(facts["sudo"]),
        driver=str(facts.get("driver", "")),
        models=tuple(str(path) for path in facts.get("models", ())),
        gpu_memory=None if facts["gpu_memory"] is None else int(facts["gpu_memory"]),
        between=(at - ended, at - began),
    )
