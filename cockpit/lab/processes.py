"""The processes of one of the lab's hosts, told apart from everything else on this machine.

A host's server is the reaper of every process that was started through it (``PR_SET_CHILD_SUBREAPER``), so
they are its descendants, whatever they do to their session, their environment or their title. Where the
server is gone, the mark in their environment is left, and the sessions and groups of those that bear it.
Standard library only: the nvidia-smi stand-in starts from here once a second.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path

MARK = "SPARK_COCKPIT_LAB_HOST"
"""Set in every session of a host to the host's folder."""

_PROC = Path("/proc")
_SHARED = re.compile(r" (/dev/shm/[^\n]*?)$(?<! \(deleted\))", re.MULTILINE)
_RAY_FOLDER = re.compile(rb"/tmp/spark-cockpit-[0-9a-f]{8}(?=[/\0])")


@dataclass(frozen=True, slots=True)
class Process:
    """A process: ids of its parent and session; ``started`` in clock ticks since boot, ``ticks`` of CPU."""

    pid: int
    parent: int
    session: int
    started: int
    ticks: int
    zombie: bool


def read(pid: int) -> Process | None:
    """What ``/proc/PID/stat`` tells (proc(5)), or None if there is no such process."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The name stands in parentheses and may hold any character, so the fields are counted from its end.
    fields = text[text.rindex(")") + 2 :].split()
    return Process(
        pid,
        int(fields[1]),
        int(fields[3]),
        int(fields[19]),
        int(fields[11]) + int(fields[12]),
        fields[0] in "ZX",
    )


def everything() -> dict[int, Process]:
    """All processes this user can see, by id."""
    found = (read(int(entry.name)) for entry in _PROC.iterdir() if entry.name.isdigit())
    return {process.pid: process for process in found if process}


def _marked(pid: int, mark: bytes) -> bool:
    try:
        return mark in (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def of_host(folder: Path) -> set[int]:
    """The ids of the processes of the host in ``folder``, without its server and without zombies."""
    table = everything()
    server = server_pid(folder)
    mark = f"{MARK}={folder}".encode()
    ours = {pid for pid in table if pid != server and _marked(pid, mark)}
    sessions = {table[pid].session for pid in ours}
    if server is not None:
        sessions.discard(table[server].session if server in table else 0)
    ours |= {pid for pid, process in table.items() if process.session in sessions and pid != server}
    roots = ours | ({server} if server is not None else set())
    ours |= _descendants(table, roots)
    return {pid for pid in ours if not table[pid].zombie and pid != os.getpid()}


def _descendants(table: dict[int, Process], roots: set[int]) -> set[int]:
    children: dict[int, list[int]] = {}
    for process in table.values():
        children.setdefault(process.parent, []).append(process.pid)
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in found:
                found.add(child)
                waiting.append(child)
    return found


def server_pid(folder: Path) -> int | None:
    """The id of the host's running server, None where none runs: an id used anew by another isn't it."""
    try:
        record = json.loads((folder / "server.pid").read_text())
        pid, started = int(record["pid"]), int(record["started"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    process = read(pid)
    return pid if process and process.started == started and not process.zombie else None


def write_server_pid(folder: Path) -> None:
    """Record this process as the host's server."""
    me = read(os.getpid())
    assert me is not None
    fresh = folder / "server.pid.new"
    fresh.write_text(json.dumps({"pid": me.pid, "started": me.started}) + "\n")
    fresh.replace(folder / "server.pid")


def memory(pid: int) -> int:
    """A process's memory in bytes: its proportional share (PSS), or what is resident where PSS isn't told."""
    for file, key in (("smaps_rollup", "Pss:"), ("status", "VmRSS:")):
        try:
            lines = (_PROC / str(pid) / file).read_text(errors="replace").splitlines()
        except OSError:
            continue
        for line in lines:
            if line.startswith(key):
                return int(line.split()[1]) * 1024
    return 0


def cpu_ticks(pid: int) -> int:
    """The CPU time a process has used, in clock ticks; 0 if it is gone."""
    process = read(pid)
    return process.ticks if process else 0


def title(pid: int) -> str:
    """What the process calls itself: its command line's first word, as nvidia-smi shows it."""
    try:
        words = (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return words[0].decode("utf-8", "replace").strip()


def leftovers(pids: set[int]) -> set[Path]:
    """The files that these processes would leave behind when killed: what they have mapped in ``/dev/shm``, and
    the folders for temporary files that the cockpit gave to their Ray."""
    found: set[Path] = set()
    for pid in pids:
        try:
            maps = (_PROC / str(pid) / "maps").read_text(errors="replace")
            words = (_PROC / str(pid) / "cmdline").read_bytes()
        except OSError:
            continue
        found |= {Path(match) for match in _SHARED.findall(maps)}
        found |= {Path(match.decode()) for match in _RAY_FOLDER.findall(words)}
    return found


def remove(found: set[Path]) -> None:
    """Remove ``leftovers`` whose processes have ended."""
    for path in found:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def send(pids: set[int], number: signal.Signals) -> None:
    """Send a signal to each of them that still lives."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
