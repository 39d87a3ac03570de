"""What a run has left on this host: GPU memory, processes, ports, shared memory. Prints one line of JSON.

Runs on the host, with the standard library of Python 3.10. Argument: JSON with ``mode`` (``note`` before the
stop: write down which shared memory our processes hold; ``verify`` after it), ``state`` (the cluster's
folder), ``container`` (our container's id, "" without), ``ports``, ``wait`` (seconds to wait for an end).
Ours is what has the cluster's mark in its environment, runs in our container, or descends from such.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from cockpit.runtime.scripts.processes import RANKS, UNIT, read, shared_memory, title

NOTE = "shared-memory.json"


def process_table() -> dict[int, tuple[int, int]]:
    """Parent and session of every process."""
    table = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            fields = read(f"{folder}/stat").rpartition(b") ")[2].split()
            if len(fields) > 3 and fields[0] != b"Z":
                table[int(folder.name)] = (int(fields[1]), int(fields[3]))
    return table


def ours(asked: dict[str, Any]) -> set[int]:
    """Every process of this cluster."""
    mark = f"{UNIT}{asked['state']}/".encode()
    container = asked["container"].encode()
    table = process_table()
    found = {
        pid
        for pid in table
        if mark in read(f"/proc/{pid}/environ") or (container and container in read(f"/proc/{pid}/cgroup"))
    }
    while True:
        more = {pid for pid, (parent, session) in table.items() if parent in found or session in found} - found
        if not more:
            return found - {os.getpid(), os.getppid()}
        found |= more


def of_the_run(pid: int, asked: dict[str, Any]) -> bool:
    """Whether one of our processes belongs to a run, not to Ray's own processes."""
    environment = read(f"/proc/{pid}/environ")
    folders = (asked["state"], "/spark-cockpit")
    in_run = any(f"{UNIT}{folder}/runs/".encode() in environment for folder in folders)
    return in_run or title(pid).startswith(RANKS)


def gpu_processes() -> list[dict[str, Any]]:
    """nvidia-smi's compute processes; ``used`` in MiB as it says it."""
    command = [
        "nvidia-smi",
        "--query-compute-apps=pid,used_memory,process_name",
        "--format=csv,noheader,nounits",
    ]
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [line.split(",", 2) for line in output.splitlines() if line.count(",") >= 2]
    return [
        {"pid": int(pid), "used": used.strip(), "name": name.strip()}
        for pid, used, name in rows
        if pid.strip().isdigit()
    ]


def listening(ports: list[int]) -> list[int]:
    """Which of the ports somebody listens on."""
    taken = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in read(table).splitlines()[1:]:
            fields = line.split()
            if len(fields) > 3 and fields[3] == b"0A":
                taken.add(int(fields[1].rpartition(b":")[2], 16))
    return sorted(taken & set(ports))


def look(asked: dict[str, Any], noted: list[str]) -> dict[str, Any]:
    """What is left right now."""
    mine = ours(asked)
    still_held = shared_memory(set(process_table()))
    gpu = gpu_processes()
    return {
        "gpu": [row for row in gpu if row["pid"] in mine],
        "gpu_of_others": [row for row in gpu if row["pid"] not in mine],
        "processes": [{"pid": pid, "name": title(pid)[:200]} for pid in sorted(mine) if of_the_run(pid, asked)],
        "ports": listening(asked["ports"]),
        "shm": [path for path in noted if Path(path).exists() and path not in still_held],
    }


def main() -> None:
    asked = json.loads(sys.argv[1])
    note = Path(asked["state"], NOTE)
    if asked["mode"] == "note":
        mine = {pid for pid in ours(asked) if of_the_run(pid, asked)}
        held = sorted(path for path in shared_memory(mine) if Path(path).exists())
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(json.dumps(held))
        print(json.dumps({"shm": held}))
        return
    noted = json.loads(read(note) or b"[]")
    end = time.monotonic() + asked["wait"]
    while True:
        left = look(asked, noted)
        if not (left["gpu"] or left["processes"] or left["ports"]) or time.monotonic() >= end:
            break
        time.sleep(0.3)
    print(json.dumps(left))


main()
