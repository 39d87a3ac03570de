"""Logs in other dresses: as other tools keep them, of other hosts and versions, with more ranks and cut short.

A mutation takes the lines of a log (bytes, without the line feed) and gives the new lines with, for each old line, its
new number (from 0; None where it is gone).
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass

Lines = list[bytes]


@dataclass(frozen=True, slots=True)
class Mutated:
    """The new lines, where each old one is now, and how texts (addresses) were renamed."""

    lines: Lines
    places: list[int | None]
    renamed: tuple[tuple[str, str], ...] = ()

    def data(self, end: bytes = b"\n") -> bytes:
        """The log's bytes."""
        return end.join(self.lines)


Mutation = Callable[[Lines, random.Random], Mutated]


def _each(change: Callable[[int, bytes], bytes]) -> Mutation:
    def mutate(lines: Lines, _chance: random.Random) -> Mutated:
        kept = lines[:-1] if lines and not lines[-1] else lines
        changed = [change(number, line) for number, line in enumerate(kept)]
        return Mutated([*changed, *lines[len(kept) :]], list(range(len(lines))))

    return mutate


def _clock(number: int) -> tuple[int, int]:
    return 30 + number // 3000 % 30, number // 50 % 60


def _iso(number: int) -> bytes:
    minute, second = _clock(number)
    return b"2026-12-01T02:%02d:%02d.%09dZ" % (minute, second, number * 7919 % 10**9)


def _syslog(number: int) -> bytes:
    minute, second = _clock(number)
    return b"Dec  1 02:%02d:%02d" % (minute, second)


def _docker_json(number: int, line: bytes) -> bytes:
    text = line.decode("utf-8", "replace") + "\n"
    return json.dumps(
        {"log": text, "stream": "stderr", "time": _iso(number).decode()}, separators=(",", ":")
    ).encode()


def _prefixed(line: bytes) -> bool:
    return (
        re.match(rb"\((?:APIServer|EngineCore|Worker|RayWorker|MainProcess|raylet|autoscaler|pid=)", line)
        is not None
    )


def _old_prefix(lines: Lines, _chance: random.Random) -> Mutated:
    """vLLM <= 0.28 writes its prefix on every line of a process, in colour at a terminal."""
    changed = [line if _prefixed(line) or not line else b"(APIServer pid=1) " + line for line in lines]
    return Mutated(changed, list(range(len(lines))))


def _colours(number: int, line: bytes) -> bytes:
    line = re.sub(rb"^(\([A-Za-z_0-9]+ pid=\d+[^)]*\))", b"\x1b[0;36m\\1\x1b[0m", line)
    return re.sub(rb"\b(ERROR|WARNING|INFO)(?= \d\d-\d\d )", b"\x1b[31m\\1\x1b[0m", line)


def _dress(line: bytes) -> bytes:
    return b"\x1b[36m" + line + b"\x1b[0m" if line else line


def _repeated(number: int, line: bytes) -> bytes:
    if b"RayWorker" in line and b"across cluster" not in line and number % 2:
        return line.rstrip(b"\r") + b"\x1b[32m [repeated %dx across cluster]\x1b[0m" % (2 + number % 5)
    return line


_ADDRESSES = re.compile(
    rb"(?<![\w.])(10\.77\.\d+|127\.0\.(?:6\d|7\d|8\d|9\d|1\d\d)|10\.\d+\.\d+|192\.168\.\d+)\.(\d{1,3})(?![\w]|\.\d)"
)


def _addresses(lines: Lines, _chance: random.Random) -> Mutated:
    """Other addresses."""
    renamed: dict[bytes, bytes] = {}

    def other(match: re.Match[bytes]) -> bytes:
        return renamed.setdefault(match[0], b"192.168.77.%d" % (11 + len(renamed)))

    changed = [_ADDRESSES.sub(other, line) for line in lines]
    return Mutated(
        changed, list(range(len(lines))), tuple((a.decode(), b.decode()) for a, b in renamed.items())
    )


def _ranks(number: int, line: bytes) -> bytes:
    """More ranks: the second is the fourth."""
    line = (
        line.replace(b"Worker_TP1", b"Worker_TP3")
        .replace(b"rank=1 ", b"rank=3 ")
        .replace(b"rank=[1]", b"rank=[3]")
    )
    return line.replace(b"world_size=2", b"world_size=4").replace(b"world size 2", b"world size 4")


def _renamed_processes(number: int, line: bytes) -> bytes:
    """vLLM 0.11 and data parallelism."""
    return re.sub(rb"\(EngineCore pid=", b"(EngineCore_DP0 pid=", line)


def _big_pids(number: int, line: bytes) -> bytes:
    return re.sub(rb"\bpid=(\d+)", rb"pid=2\1", line)


def _noise(lines: Lines, chance: random.Random) -> Mutated:
    """Lines of others between: access logs, statistics, health checks."""
    talk = (
        b'INFO:     10.1.2.3:40112 - "GET /health HTTP/1.1" 503 Service Unavailable',
        b"(APIServer pid=99) INFO 12-01 02:33:01 [loggers.py:283] Engine 000: Avg prompt throughput: 0.0 tokens/s, "
        b"Avg generation throughput: 0.0 tokens/s, Running: 1 reqs",
        b"W1201 02:33:01.000000 77 torch/_library/triton.py:53] Triton not available, find_triton_kernels = []",
        b"2026-12-01 02:33:01,111\tWARNING utils.py:100 -- The object store has little room.",
        b"",
    )
    out: Lines = []
    places: list[int | None] = []
    for line in lines:
        if chance.random() < 0.15:
            out.append(talk[chance.randrange(len(talk))])
        places.append(len(out))
        out.append(line)
    return Mutated(out, places)


def _start_cut(lines: Lines, chance: random.Random) -> Mutated:
    """A ``tail`` of the log: the first fifth is gone."""
    cut = len(lines) // 5
    return Mutated(lines[cut:], [None] * cut + list(range(len(lines) - cut)))


def _restarted(lines: Lines, _chance: random.Random) -> Mutated:
    """The same failure three times, as a restart policy makes it; the last one counts."""
    kept = lines[:-1] if lines and not lines[-1] else lines
    places: list[int | None] = [2 * len(kept) + number for number in range(len(kept))]
    return Mutated([*kept, *kept, *kept, b""], places + [3 * len(kept)] * (len(lines) - len(kept)))


MUTATIONS: dict[str, Mutation] = {
    "crlf": _each(lambda _n, line: line.rstrip(b"\r") + b"\r"),
    "docker-timestamps": _each(lambda n, line: _iso(n) + b" " + line),
    "cri": _each(lambda n, line: _iso(n) + b" stderr F " + line),
    "docker-json": _each(_docker_json),
    "compose": _each(lambda _n, line: b"vllm-head-1  | " + line),
    "compose-timestamps": _each(lambda n, line: b"vllm-head-1  | " + _iso(n) + b" " + line),
    "journald": _each(lambda n, line: _syslog(n) + b" spark-a vllm[4711]: " + line),
    "journald-iso": _each(
        lambda n, line: b"2026-12-01T02:%02d:%02d+0000 spark-a vllm-serve.sh[4711]: " % _clock(n) + line
    ),
    "kubectl": _each(lambda _n, line: b"[pod/vllm-head-7d9f/vllm] " + line),
    "kubectl-timestamps": _each(lambda n, line: b"[pod/vllm-head-7d9f/vllm] " + _iso(n) + b" " + line),
    "stern": _each(lambda _n, line: b"vllm-head-7d9f vllm " + line),
    "ts": _each(lambda n, line: _syslog(n) + b" " + line),
    "clock": _each(lambda n, line: b"[02:%02d:%02d] " % _clock(n) + line),
    "srun": _each(lambda _n, line: b"0: " + line),
    "ansible": _each(lambda _n, line: b"spark-a | " + line),
    "pasted": _each(lambda _n, line: b"    " + line),
    "quoted": _each(lambda _n, line: b"> " + line),
    "numbered": _each(lambda n, line: b"%6d\t" % (n + 1) + line),
    "grep": _each(lambda n, line: b"serve.log:%d:" % (n + 1) + line),
    "old-prefix": _old_prefix,
    "colours": _each(_colours),
    "coloured-lines": _each(lambda _n, line: _dress(line)),
    "repeated": _each(_repeated),
    "addresses": _addresses,
    "ranks": _each(_ranks),
    "engine-dp0": _each(_renamed_processes),
    "big-pids": _each(_big_pids),
    "noise": _noise,
    "start-cut": _start_cut,
    "restarted": _restarted,
}
