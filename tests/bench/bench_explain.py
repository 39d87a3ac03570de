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
from collections.abc import Iterator
from itertools import count, cycle, islice
from pathlib import Path

from cockpit.diagnosis.engine import explain
from cockpit.diagnosis.signatures import signatures
from cockpit.diagnosis.sources import SERVE, Source, collect

CAPTURES = Path(__file__).parent.parent / "data" / "captures"
LINES = 30_000


def lines_of(*names: str) -> list[bytes]:
    """The lines of some captures, one after the other."""
    return [line for name in names for line in (CAPTURES / name).read_bytes().split(b"\n")]


def repeated(lines: list[bytes], amount: int = LINES) -> bytes:
    """``amount`` lines, from the beginning again when they are used up."""
    return b"\n".join((lines * (amount // len(lines) + 1))[:amount]) + b"\n"


def requests(amount: int) -> bytes:
    """Lines of a server that answers."""
    made = random.Random(1)
    text = b'(APIServer pid=1) INFO:     10.0.0.%d:%d - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
    return b"".join(text % (made.randint(1, 250), made.randint(1024, 65535)) for _ in range(amount))


def words(amount: int) -> bytes:
    """Lines that never repeat."""
    made = random.Random(2)
    known = [bytes(made.choices(b"abcdefghijklmnopqrstuvwxyz", k=made.randint(2, 9))) for _ in range(5000)]
    return b"".join(b" ".join(made.choices(known, k=14)) + b"\n" for _ in range(amount))


def shuffled(data: bytes) -> bytes:
    """The lines in any order."""
    lines = data.split(b"\n")
    random.Random(3).shuffle(lines)
    return b"\n".join(lines)


_LETTERS = "abcdefghijklmnop"


def word(made: random.Random) -> str:
    """Six letters."""
    return "".join(made.choices(_LETTERS, k=6))


def tracebacks() -> Iterator[str]:
    """Nothing but tracebacks by a logger, each of another process and with other frames."""
    made = random.Random(5)
    for number in count():
        head = f"(Worker_TP{number % 2} pid={made.randint(1, 99999)}) ERROR 11-30 20:26:26 [worker.py:{number % 900}] "
        yield head + "Traceback (most recent call last):"
        for frame in range(made.randint(3, 9)):
            yield f'{head}  File "/a/{word(made)}.py", line {frame}, in {word(made)}'
            yield f"{head}    {word(made)}()"
        yield f"{head}{word(made)}.Error: no {word(made)}"


def prefixes() -> Iterator[str]:
    """Every known message in turn, each time from a process and a source that were not there before."""
    made = random.Random(6)
    examples = [one.example.split("\n")[0] for one in signatures()]
    for number in count():
        who = f"({word(made)} pid={made.randint(1, 10**6)}, ip=10.0.{made.randint(0, 255)}.{made.randint(0, 255)})"
        yield f"{who} ERROR 11-30 20:26:26 [{word(made)}.py:{number}] {examples[number % len(examples)]}"


def bars() -> Iterator[str]:
    """Progress bars of ten states a line."""
    for number in count():
        states = (
            f"\rCapturing CUDA graphs (mixed {number}): {10 * at}%|{'█' * at}| {at}/67" for at in range(10)
        )
        yield "(Worker_TP0 pid=3) " + "".join(states)


def stacks() -> Iterator[str]:
    """C++ stacks of a rank that has lost its store."""
    made = random.Random(7)
    for rank in count():
        yield f"[rank{rank % 2}]:[W1130 20:26:26.{made.randint(0, 10**9):09} TCPStore.cpp:106] [c10d] sendBytes failed"
        for frame in range(20):
            yield f"frame #{frame}: c10d::{word(made)}(int) + 0x{made.randint(0, 2**20):x} (0x7f in /a/libtorch_cpu.so)"


def interleaved() -> Iterator[str]:
    """Two processes' logs line by line, over and over."""
    sides = [lines_of(f"gpu/{name}.log") for name in ("fail_free_memory_remote", "ray_tp2_cold")]
    for pair in zip(*map(cycle, sides), strict=False):
        yield from (line.decode() for line in pair)


def long_lines() -> Iterator[str]:
    """Lines of 16 KiB, each full of one known text."""
    texts = [text.decode() for one in signatures() for text in one.find]
    for number in range(3 * len(texts)):
        text = texts[number % len(texts)]
        yield f"(Worker_TP0 pid={number}) ERROR 11-30 20:26:26 [a.py:1] " + f"{text} " * (
            (1 << 14) // (len(text) + 1)
        )


def made_of(lines: Iterator[str]) -> bytes:
    """The first ``LINES`` of ``lines``."""
    return ("\n".join(islice(lines, LINES)) + "\n").encode()


def tell(name: str, data: bytes) -> None:
    """Explains ``data`` three times and prints what it took at best."""
    times = []
    for _ in range(3):
        began = time.process_time()
        told = explain([Source(name, "", SERVE, data)])
        times.append(time.process_time() - began)
    took, lines = min(times), data.count(b"\n")
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
    tell("tracebacks only", made_of(tracebacks()))
    tell("every message, new prefixes", made_of(prefixes()))
    tell("progress bars only", made_of(bars()))
    tell("C++ stacks only", made_of(stacks()))
    tell("two processes, line by line", made_of(interleaved()))
    tell("long lines of known texts", made_of(long_lines()))
    tell("random bytes", random.Random(4).randbytes(4_000_000))
    big(arguments.big)


if __name__ == "__main__":
    main()
