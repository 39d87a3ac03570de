"""A stand-in for the size of a DGX Spark's memory: keeps a /proc/meminfo whose figures follow this host.

    memory.py FILE      FILE holds a copy of the machine's /proc/meminfo and is kept up to date

The total is a Spark's 119.7 GiB, or the limit of the host's control group where one is set. What is in use
is what the host's control group really uses: anonymous and shared memory, page cache apart.
"""

import os
import sys
import time
from pathlib import Path

TOTAL = 125_513_136  # kB; what a DGX Spark's kernel reports
BASE = 3_500_000  # kB; what an idle Spark's own system uses, which the containers of a rig's host don't
ROOTS = (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup"))


def group() -> Path:
    """The control group of the whole host."""
    return next(root for root in ROOTS if (root / "memory.stat").exists())


def usage(root: Path) -> tuple[int | None, int, int, int]:
    """(limit, in use, page cache, shared) of the host in kB; limit is None when there is none."""
    stat = dict(line.split() for line in (root / "memory.stat").read_text().splitlines())
    if "total_rss" in stat:  # version 1
        anonymous, cache, shared = (int(stat[key]) for key in ("total_rss", "total_cache", "total_shmem"))
        limit = (root / "memory.limit_in_bytes").read_text()
    else:
        anonymous, cache, shared = (int(stat[key]) for key in ("anon", "file", "shmem"))
        limit = (root / "memory.max").read_text()
    bytes_ = TOTAL * 1024 if limit.strip() == "max" else int(limit)
    total = bytes_ // 1024 if bytes_ < TOTAL * 1024 else None
    return total, (anonymous + shared) // 1024, max(0, cache - shared) // 1024, shared // 1024


def figures(root: Path) -> dict[str, int]:
    """The lines that differ from the machine's."""
    limit, used, cache, shared = usage(root)
    total = limit or TOTAL
    used += 0 if limit else BASE
    available = max(0, total - used)
    return {
        "MemTotal": total,
        "MemFree": max(0, available - cache),
        "MemAvailable": available,
        "Buffers": 0,
        "Cached": cache + shared,
        "SwapCached": 0,
        "Shmem": shared,
        "SwapTotal": 0,
        "SwapFree": 0,
        "CmaTotal": 0,
        "CmaFree": 0,
    }


def text(lines: list[str], values: dict[str, int]) -> bytes:
    """The file's text; every figure has the same width, so that it can be written in one place at once."""
    values = dict(values)
    out = []
    for line in lines:
        name, rest = line.split(":", 1)
        out.append(f"{name + ':':<15} {values.pop(name):>9} kB" if name in values else f"{name}:{rest}")
    out += [f"{name + ':':<15} {value:>9} kB" for name, value in values.items()]
    return ("\n".join(out) + "\n").encode()


def main(file: str) -> None:
    """Keep ``file`` up to date, four times a second."""
    root = group()
    lines = Path(file).read_text().splitlines()
    out = os.open(file, os.O_WRONLY)
    while True:
        os.pwrite(out, text(lines, figures(root)), 0)
        Path("/run/rig/memory-ready").touch()
        time.sleep(0.25)


if __name__ == "__main__":
    main(sys.argv[1])
