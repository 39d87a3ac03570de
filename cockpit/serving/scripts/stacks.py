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

from cockpit.runtime.scripts.processes import alive, descendants, read, table, title

LIMIT = 20.0
"""Seconds for one process."""

ALL = 60.0
"""Seconds for all of them."""

SHOWN = re.compile(r"VLLM::|ray::RayWorker|\S*python\S* \S*/vllm serve |vllm serve ")


def roots(units: "list[str]", processes: "dict[int, tuple[int, int]]") -> "set[int]":
    """The processes that the units' files name and that still are those very ones."""
    state = Path(os.environ["STATE"])
    found = set()
    for unit in units:
        for name in ("pid", "program"):
            found.add(alive(read(state / unit / name), processes))
    return found - {0}


def ranks(units: "list[str]") -> "list[tuple[int, str]]":
    """The API server, the engine and the ranks below the units: process id and title."""
    processes = table()
    found = descendants(processes, roots(units, processes))
    titles = {pid: title(pid) for pid in found}
    return [(pid, " ".join(titles[pid].split())[:120]) for pid in sorted(found) if SHOWN.match(titles[pid])]


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
    for pid, name in found if program else ():
        print(f"## process {pid} {name}")
        left = until - time.monotonic()
        if left < 1:
            print(f"## refused {pid} no time is left")
        else:
            sys.stdout.flush()
            dump(program, pid, min(LIMIT, left))


main(sys.argv[1:])
