"""Taking a rig away, knowing nothing but its number: works on one that was killed half made, too."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

from tests.rig import cgroups, network
from tests.rig.layout import STATE
from tests.rig.shell import run, wait_for


def tear_down(number: int) -> None:
    """Take rig ``number`` away; the caller holds its lock. Raises ``RigError`` when something would not go."""
    state = STATE / str(number)
    for namespace in network.namespaces(number):
        wait_for(lambda space=namespace: killed(space), f"{namespace} is empty", timeout=20)  # type: ignore[misc]
    if Path(f"/sys/class/net/sc{number}-op").exists():
        run(["ip", "link", "delete", f"sc{number}-op"])
    for namespace in network.namespaces(number):
        run(["ip", "netns", "delete", namespace])
    for mount in mounts_below(state):
        run(["umount", "--lazy", mount])
    made = state / "made.json"
    if made.exists():
        told = json.loads(made.read_text())
        cgroups.remove([Path(path) for path in told["groups"]])
        for home in Path(told["disks"]).glob("*/home"):
            shutil.rmtree(home)
    shutil.rmtree(state)


def killed(namespace: str) -> bool:
    """Whether no process is left in the namespace; those that are get SIGKILL."""
    pids = run(["ip", "netns", "pids", namespace]).out.split()
    for pid in pids:
        try:
            os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            continue
    return not pids


def mounts_below(folder: Path) -> list[str]:
    """The mounts of this mount namespace below ``folder``, innermost first."""
    points = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    return [point for point in reversed(points) if point.startswith(f"{folder}/")]
