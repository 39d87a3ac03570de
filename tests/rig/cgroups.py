"""A control group of its own for each host, so that its memory can be counted and limited.

Version 1 has one hierarchy a controller, version 2 one for all. The groups lie below the group this process
is in; a host sees its own as the root (cgroup namespace), and so does its Docker engine.
"""

from __future__ import annotations

from pathlib import Path

from tests.rig.shell import RigError, wait_for

ROOT = Path("/sys/fs/cgroup")


def is_v1() -> bool:
    """Whether the controllers are in version 1 hierarchies."""
    return not (ROOT / "cgroup.controllers").exists()


def hierarchies() -> dict[str, Path]:
    """Controller name (as in /proc/self/cgroup; "" in version 2) to this process's group there."""
    if not is_v1():
        # Below the root: a group with processes in it, such as our own, can't pass on controllers.
        return {"": ROOT}
    found = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers:
            mount = ROOT / controllers.removeprefix("name=")
            found[controllers] = mount / path.lstrip("/")
    return found


def make(name: str) -> list[Path]:
    """The groups ``name``, one in each hierarchy."""
    groups = []
    for controllers, parent in hierarchies().items():
        group = parent / name
        group.mkdir(exist_ok=True)
        if "cpuset" in controllers.split(","):
            # A new cpuset is empty, and takes no process before it has been given CPUs and memory nodes.
            for file in ("cpuset.cpus", "cpuset.mems"):
                (group / file).write_text((parent / file).read_text())
        groups.append(group)
    return groups


def memory_limit(groups: list[Path], limit: int | None) -> None:
    """Limit the group's memory to ``limit`` bytes; None lifts it."""
    for group in groups:
        v1, v2 = group / "memory.limit_in_bytes", group / "memory.max"
        if v1.exists():
            v1.write_text(str(-1 if limit is None else limit))
        elif v2.exists():
            v2.write_text("max" if limit is None else str(limit))


def remove(groups: list[Path]) -> None:
    """Remove the groups and all below them. Raises ``RigError`` while processes stay in one."""

    def gone(group: Path) -> bool:
        for folder in sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True):
            try_rmdir(folder)
        return try_rmdir(group)

    for group in groups:
        wait_for(lambda group=group: gone(group), f"{group} is empty", timeout=10)  # type: ignore[misc]


def try_rmdir(folder: Path) -> bool:
    """Whether the group is gone; a process that is just ending holds it a moment longer."""
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def memory_of(groups: list[Path]) -> Path:
    """The group that counts memory."""
    for group in groups:
        if (group / "memory.stat").exists():
            return group
    raise RigError("No control group counts memory here.")
