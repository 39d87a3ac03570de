"""How long explaining takes and how much memory: prints figures, asserts nothing.

python tests/bench/bench_explain.py [--big MEGABYTES]
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import tempfile
import time
from pathlib import Path

from cockpit.diagnosis.engine import explain
from cockpit.diagnosis.sources import SERVE, Source, collect

CAPTURES = Path(__file__).parent.parent / "data" / "captures"
LINES = 30_000


def lines_of(*names: str) -> list[bytes]:
    """The lines of some captures, one after the other."""
    return [line for name in names for line in (CAPTURES / name).read_bytes().split(b"\n")]


def repeated(lines: list[bytes], count: int = LINES) -> bytes:
    """``count`` lines, from the beginning again when they are used up."""
    return b"\n".join((lines * (count // len(lines) + 1))[:count]) + b"\n"


def requests(count: int) -> bytes:
    """Lines of a server that answers."""
    made = random.Random(1)
    text = b'(APIServer pid=1) INFO:     10.0.0.%d:%d - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
    return b"".join(text % (made.randint(1, 250), made.randint(1024, 65535)) for _ in range(count))


def words(count: int) -> bytes:
    """Lines that never repeat."""
    made = random.Random(2)
    known = [bytes(made.choices(b"abcdefghijklmnopqrstuvwxyz", k=made.randint(2, 9))) for _ in range(5000)]
    return b"".join(b" ".join(made.choices(known, k=14)) + b"\n" for _ in range(count))


def shuffled(data: bytes) -> bytes:
    """The lines in any order."""
    lines = data.split(b"\n")
    random.Random(3).shuffle(lines)
    return b"\n".join(lines)


def tell(name: str, data: bytes) -> None:
    """Explains ``data`` and prints what it took."""
    began = time.process_time()
    told = explain([Source(name, "", SERVE, data)])
    took, lines = time.process_time() - began, data.count(b"\n")
    print(f"{name:32} {lines:8} lines {len(data) / 1e6:7.1f} MB {took:7.3f} s  {told.status}")


def big(megabytes: int) -> None:
    """A log of that size, mapped: time and growth of memory."""
    with tempfile.NamedTemporaryFile(suffix=".log") as file:
        piece = requests(LINES)
        file.write((CAPTURES / "gpu" / "ray_tp2_cold.log").read_bytes()[:20_000])
        while file.tell() < megabytes * 1_000_000:
            file.write(piece)
        file.flush()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began = time.process_time()
        told = explain(collect([file.name]))
        took = time.process_time() - began
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        print(f"{megabytes} MB mapped: {took:.2f} s, peak memory +{grown:.0f} MB, {told.status}")


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--big", type=int, default=1000)
    arguments = parser.parse_args()
    began = time.process_time()
    explain([Source("first", "", SERVE, b"one line\n")])
    print(
        f"signatures read and compiled: {time.process_time() - began:.3f} s (Python {sys.version.split()[0]})"
    )
    failing = repeated(lines_of("gpu/fail_free_memory_remote.log"))
    tell("one load", (CAPTURES / "gpu" / "ray_tp2_cold.log").read_bytes())
    tell("a load again and again", repeated(lines_of("gpu/ray_tp2_cold.log")))
    tell("a failure again and again", failing)
    tell("a failure, shuffled", shuffled(failing))
    everything = repeated(
        [line for path in sorted(CAPTURES.rglob("*.log")) for line in path.read_bytes().split(b"\n")]
    )
    tell("every capture", everything)
    tell("every capture, shuffled", shuffled(everything))
    tell("answered requests", requests(LINES))
    tell("lines that never repeat", words(LINES))
    tell("random bytes", random.Random(4).randbytes(4_000_000))
    big(arguments.big)


if __name__ == "__main__":
    main()
