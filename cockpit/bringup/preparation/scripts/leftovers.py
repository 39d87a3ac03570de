"""What earlier runs of this very cluster have left on this host: prints one line of JSON. Changes nothing.

Argument: JSON with ``state`` (the cluster's folder) and ``cluster`` (the value of our containers' label; "" where
there are none). Asked while no run is running. Ours are processes with the mark of a run of this cluster in their
environment, or ranks with another mark of it; our containers that have ended, or hold ranks; and files of /dev/shm
that were noted as a run's and that nobody holds.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from cockpit.runtime.scripts.processes import RANKS, read, shared_memory, table, title, units
from cockpit.runtime.scripts.programs import call

NOTE = "shared-memory.json"
LABEL = "org.spark-cockpit.cluster"
LIMIT = 8.0


def processes(state: str) -> "list[dict[str, Any]]":
    """Ours that no run stands behind any more."""
    found: list[dict[str, Any]] = []
    for pid in set(table()) - {os.getpid()}:
        marks = units(pid)
        of_run = any(mark.startswith(f"{state}/runs/") for mark in marks)
        rank = title(pid).startswith(RANKS) and any(mark.startswith(f"{state}/") for mark in marks)
        fields = read(f"/proc/{pid}/stat").rpartition(b") ")[2].split()
        if (of_run or rank) and len(fields) > 21 and fields[0] != b"Z":
            size = int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
            row = {"pid": pid, "began": int(fields[19]), "bytes": size}
            found.append({**row, "name": title(pid)[:200]})
    return sorted(found, key=lambda row: int(row["pid"]))


def containers(cluster: str) -> "list[dict[str, Any]]":
    """Ours that have ended, or in which ranks run."""
    if not cluster:
        return []
    found = []
    form = "{{.ID}}\t{{.Names}}\t{{.State}}"
    argv = ("docker", "ps", "-a", "--no-trunc", "--filter", f"label={LABEL}={cluster}", "--format", form)
    for line in call(*argv, limit=LIMIT).output.splitlines():
        identity, name, state = [*line.split("\t"), "", ""][:3]
        ranks: list[str] = []
        if state == "running":
            rows = call("docker", "top", identity, "-eo", "pid,args", limit=LIMIT).output.splitlines()[1:]
            ranks = [
                row.split(None, 1)[1][:80]
                for row in rows
                if row.split(None, 1)[1:2] and row.split(None, 1)[1].startswith(RANKS)
            ]
        if state != "running" or ranks:
            found.append({"id": identity, "name": name, "state": state, "ranks": ranks[:5]})
    return found


def noted_memory(state: str) -> "list[dict[str, Any]]":
    """What was noted as a run's, and nobody holds."""
    try:
        noted = [str(path) for path in json.loads(read(Path(state, NOTE)) or b"[]")]
    except (ValueError, TypeError):
        return []
    holders = shared_memory(set(table()))
    found: list[dict[str, Any]] = []
    for path in noted:
        try:
            about = os.lstat(path)
        except OSError:
            continue
        if path.startswith("/dev/shm/") and ".." not in path and path not in holders:
            found.append({"path": path, "bytes": about.st_blocks * 512, "mine": about.st_uid == os.getuid()})
    return found


def main(asked: "dict[str, Any]") -> None:
    """Print the answer."""
    state = os.path.realpath(asked["state"])
    told = {
        "processes": processes(state),
        "containers": containers(asked["cluster"]),
        "shm": noted_memory(state),
    }
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
