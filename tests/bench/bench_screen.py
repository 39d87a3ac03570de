"""The screen's budgets: first paint beside a minimal Textual app; CPU, memory and bytes to the terminal beside htop.

    python tests/bench/bench_screen.py [--quick]

Every program runs in a real pseudo-terminal of 200x50. Idle is two real hosts (the lab's SSH servers, with nothing
started on them) asked once a second, charts shown. The load is the recorded one of ``tests/data/gpu`` at its own
pace. Prints what was measured beside the budget.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.bench.bench_logs import BARE  # noqa: E402 - the path to it is set above
from tests.bench.terminal import Terminal  # noqa: E402

PROFILE = """\
name: bench
hosts:
  - {name: spark-1, role: head, address: 127.0.0.1, port: 9, fabric: {address: 127.0.2.1}}
  - {name: spark-2, role: worker, address: 127.0.0.1, port: 9, fabric: {address: 127.0.2.2}}
runtime: {kind: native, venv: /opt/vllm}
serve: {model: /models/none, flags: {tensor-parallel-size: 2, distributed-executor-backend: ray}}
"""
WEIGHTS = 76.0
"""Seconds of the recording at which the weights begin."""


@dataclass(frozen=True)
class Cost:
    """What a program took over a while: share of a core in percent, resident MB, kB a second to the terminal."""

    cpu: float
    memory: float
    written: float

    def __str__(self) -> str:
        return f"{self.cpu:5.1f} % of a core   {self.memory:5.0f} MB   {self.written:6.1f} kB/s"


def resident(pid: int) -> float:
    """MB a process holds now."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def cost(terminal: Terminal, seconds: float) -> Cost:
    """The cost over the next ``seconds``."""
    before, bytes_before, began = terminal.usage().cpu, terminal.bytes, time.perf_counter()
    terminal.settle(seconds)
    took = time.perf_counter() - began
    cpu = 100 * (terminal.usage().cpu - before) / took
    return Cost(cpu, resident(terminal.pid), (terminal.bytes - bytes_before) / took / 1000)


def paint(argv: list[str], text: bytes) -> float:
    """Seconds until ``text`` is on its way to the screen."""
    terminal = Terminal(argv)
    try:
        return terminal.until(text, 30)
    finally:
        terminal.close()


def first_paint(folder: Path, runs: int) -> None:
    """The cockpit and a minimal app in turns; the first of each fills the caches and does not count."""
    profile = folder / "bench.yaml"
    profile.write_text(PROFILE)
    cockpit = [*settings(folder), sys.executable, "-m", "cockpit", str(profile)]
    bare = [sys.executable, "-c", BARE]
    pairs = [(paint(cockpit, b"Bring-up"), paint(bare, b"HERE")) for _ in range(runs + 1)]
    ours, theirs = median(one for one, _ in pairs[1:]), median(one for _, one in pairs[1:])
    print(f"first paint              {ours:.3f} s   (at most 0.35)")
    print(f"  a minimal Textual app  {theirs:.3f} s   ratio {ours / theirs:.2f}")


def settings(folder: Path) -> list[str]:
    """What goes before a command, for folders of the bench's own; the caches stay the user's."""
    return ["env", *(f"XDG_{name}_HOME={folder / name.lower()}" for name in ("CONFIG", "STATE"))]


def idle(folder: Path, seconds: float) -> None:
    """Two hosts of the lab, nothing runs."""
    os.environ["XDG_DATA_HOME"] = str(folder / "data")
    os.environ["SPARK_COCKPIT_LAB"] = f"bench-{os.getpid()}"
    from cockpit.lab import lab

    info = lab.up(lambda *_: None)
    terminal = Terminal([*settings(folder), sys.executable, "-m", "cockpit", str(info.profile)])
    try:
        if isnan(terminal.until(b"memory, GiB", 60)):
            raise SystemExit("the charts never came")
        terminal.settle(15)
        print(f"idle, two hosts at 1 Hz  {cost(terminal, seconds)}   (at most 3 %, 90 MB, 10 kB/s)")
    finally:
        terminal.close()
        lab.down()


def htop(seconds: float) -> None:
    """The peer, once a second too."""
    found = shutil.which("htop")
    if found is None:
        print("  htop                   not installed")
        return
    terminal = Terminal([found, "-d", "10"])
    try:
        terminal.settle(5)
        print(f"  htop                   {cost(terminal, seconds)}")
    finally:
        terminal.close()


def load(seconds: float) -> None:
    """The recorded load, from where the weights begin."""
    recording = str(ROOT / "tests" / "data" / "gpu")
    terminal = Terminal([sys.executable, "-m", "cockpit.tui.replay", recording, "ray_tp2_cold"])
    try:
        terminal.settle(WEIGHTS)
        print(f"while a load is watched  {cost(terminal, seconds)}")
    finally:
        terminal.close()


def main() -> None:
    """All of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="shorter, less steady")
    quick = parser.parse_args().quick
    print(f"load average before: {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory(prefix="spark-cockpit-bench-") as folder:
        first_paint(Path(folder), 3 if quick else 9)
        idle(Path(folder), 20 if quick else 60)
        htop(20 if quick else 60)
        load(20 if quick else 60)


if __name__ == "__main__":
    main()
