"""Prints the Python stacks of a run's processes on one host, by the py-spy that its environment has.

Runs where the ranks run, with the standard library of Python 3.10. Arguments: the units below $STATE whose
descendants are looked at. Reads only; py-spy holds each process still for the milliseconds it takes to look.
Every line that begins with "## " is ours: ``## process PID TITLE``, ``## missing TEXT``, ``## refused PID TEXT``.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

LIMIT = 20.0
"""Seconds for one process."""

ALL = 60.0
"""Seconds for all of them."""

RANKS = re.compile(r"VLLM::|ray::RayWorker|\S*python\S* \S*/vllm serve |vllm serve ")


def read(path: "str | Path") -> bytes:
    """A file, empty where it can't be read."""
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def table() -> "dict[int, tuple[int, int]]":
    """Parent and start time of every living process."""
    found = {}
    for folder in Path("/proc").iterdir():
        fields = read(folder / "stat").rpartition(b") ")[2].split() if folder.name.isdigit() else []
        if len(fields) > 19 and fields[0] != b"Z":
            found[int(folder.name)] = (int(fields[1]), int(fields[19]))
    return found


def roots(units: "list[str]", processes: "dict[int, tuple[int, int]]") -> "set[int]":
    """The processes that the units' files name and that still are those very ones."""
    state = Path(os.environ["STATE"])
    found = set()
    for unit in units:
        for name in ("pid", "program"):
            words = read(state / unit / name).split()[:2]
            if len(words) == 2 and all(word.isdigit() for word in words):
                pid, began = int(words[0]), int(words[1])
                if processes.get(pid, (0, -1))[1] == began:
                    found.add(pid)
    return found


def ranks(units: "list[str]") -> "list[tuple[int, str]]":
    """The API server, the engine and the ranks below the units: process id and title."""
    processes = table()
    found = roots(units, processes)
    more = set(found)
    while more:
        more = {pid for pid, (parent, _) in processes.items() if parent in found} - found
        found |= more
    titles = {
        pid: read(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode("utf-8", "replace") for pid in found
    }
    return [(pid, " ".join(titles[pid].split())[:120]) for pid in sorted(found) if RANKS.match(titles[pid])]


def spy() -> str:
    """The py-spy of the environment, "" without one."""
    beside = Path(os.environ.get("VIRTUAL_ENV", "")) / "bin" / "py-spy"
    return str(beside) if os.environ.get("VIRTUAL_ENV") and beside.exists() else shutil.which("py-spy") or ""


def dump(program: str, pid: int, limit: float) -> None:
    """The stacks of one process."""
    try:
        done = subprocess.run(
            [program, "dump", "--pid", str(pid)], capture_output=True, timeout=limit, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        print(f"## refused {pid} py-spy did not end within {limit:.0f} s")
        return
    if done.returncode:
        text = " ".join((done.stderr or done.stdout).decode("utf-8", "replace").split())
        print(f"## refused {pid} {text[:300]}")
    else:
        sys.stdout.write(done.stdout.decode("utf-8", "replace").rstrip() + "\n")


def main(units: "list[str]") -> None:
    """Prints what there is."""
    until = time.monotonic() + ALL
    program, found = spy(), ranks(units)
    if not found:
        print("## missing no process of the run is here")
    elif not program:
        print("## missing py-spy is not in the environment that vLLM runs in")
    for pid, title in found if program else ():
        print(f"## process {pid} {title}")
        left = until - time.monotonic()
        if left < 1:
            print(f"## refused {pid} no time is left")
        else:
            sys.stdout.flush()
            dump(program, pid, min(LIMIT, left))


main(sys.argv[1:])
