"""Lines and records of a log: what stands before a message, taken apart.

A line of a serve log may carry several prefixes, one inside the other: a container tool's or a clock's, vLLM's
own ``(EngineCore pid=7)`` (vLLM <= 0.28 writes it on every line, later releases on logger records only), Ray's
``(RayWorkerProc pid=9, ip=10.0.0.2)`` with its colours, the worker's ``(Worker_TP1 pid=9)`` and the head of the
record itself. ``parse_line`` takes one line apart, whatever the nesting. Pure: text in, frozen records out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_REPEATED = re.compile(r" ?\[repeated (\d+)x across cluster\].*$")
_LEVELS = {
    "W": "WARNING",
    "I": "INFO",
    "E": "ERROR",
    "C": "CRITICAL",
    "D": "DEBUG",
    "F": "CRITICAL",
    "SUCC": "INFO",
}

_PROCESS = re.compile(
    r"\((?=[A-Za-z])(?:(?P<name>[\w.:-]+(?: \+\w+)?)[ ,]+)?"
    r"(?:pid=(?P<pid>[\w-]+)(?:, )?)?(?:ip=(?P<ip>[^\s)]+))?\) ?"
)
_BARE = re.compile(r"\((?P<name>raylet|autoscaler \+\w+)\) ?")
_VLLM = re.compile(
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) (?P<time>\d\d-\d\d \d\d:\d\d:\d\d) "
    r"(?:\[(?P<source>[^\]\s]+:\d+)\]|(?P<old>[\w./-]+:\d+)\]) ?"
)
_RAY = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+)\s"
    r"(?P<level>DEBUG|INFO|WARN|WARNING|ERROR|SUCC|VINFO|VWARN|ERR) "
    r"(?P<source>[\w./-]+:\d+) -- ?"
)
_RAY_CPP = re.compile(
    r"\[(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+) (?P<level>[DIWEFC]) (?P<pid>\d+) \d+\] "
    r"(?:\((?P<name>\w+)\) )?(?P<source>[\w./-]+:\d+): "
)
_TORCH_CPP = re.compile(
    r"\[(?P<level>[DIWEFC])(?P<time>\d{4} \d\d:\d\d:\d\d)[.\d]* (?P<source>[\w./-]+:\d+)\] ?(?:Warning: )?"
)
_NCCL_TIME = re.compile(r"\[(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\] (?=[^\s:]+:\d+:\d+ )")
_NCCL = re.compile(
    r"(?P<host>[\w.-]+):(?P<pid>\d+):\d+ \[\d+\] "
    r"(?:(?P<source>[\w./-]+:\d+) )?NCCL (?P<level>INFO|WARN|ERROR|TRACE) "
)
_UVICORN = re.compile(r"(?P<level>INFO|WARNING|ERROR|CRITICAL):     ?\s*")
_TQDM = re.compile(r"\[(?:\d+:)?\d\d:\d\d[<,][^\]]{0,60}/(?:s|it)\b")
_BAR_WITHIN = 1000
_RANK = re.compile(r"\[rank(?P<rank>\d+)\]: ?")
_OUTER = re.compile(
    r"(?:\[?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.,\d]*(?:Z|[+-]\d\d:?\d\d)?\]?(?: std(?:out|err) [FP])? "
    r"|\x00?[\w.-]+\s*\| )"
)


@dataclass(frozen=True, slots=True)
class Line:
    """One line taken apart.

    ``text`` is what is left without prefixes, colours and a trailing carriage return. ``process`` is the
    innermost process name ("Worker_TP0", "EngineCore", "RayWorkerProc", "raylet"), "" where none is given;
    ``chain`` holds all of them, outermost first. ``pid`` is the innermost, None where none or not a number;
    ``ip`` is Ray's ``ip=`` (only lines of another node than the driver's have it); ``host`` is NCCL's host
    name. ``time`` is as printed ("11-30 20:26:26"); ``source`` is ``file:line`` ("ray_utils.py:607").
    ``repeated`` is how often Ray says that other workers printed the same. ``prefix`` is the length of what
    was taken off, counted in the line without colours.
    """

    text: str
    process: str = ""
    pid: int | None = None
    ip: str = ""
    level: str = ""
    time: str = ""
    source: str = ""
    chain: tuple[str, ...] = ()
    host: str = ""
    rank: int | None = None
    repeated: int = 0
    prefix: int = 0

    @property
    def head(self) -> bool:
        """Whether the line begins a record by itself: it carries a level, a time or a source line."""
        return bool(self.level)


def strip_ansi(text: str) -> str:
    """The text without terminal control sequences."""
    return _ANSI.sub("", text) if "\x1b" in text else text


def is_bar(text: str) -> bool:
    """Whether the line, which tells no level, is a progress bar: one that goes back to its beginning, or that has
    tqdm's figures."""
    return "\r" in text.rstrip("\r\n") or ("[" in text and _TQDM.search(text, 0, _BAR_WITHIN) is not None)


class _Taking:
    """The parts gathered while prefixes are taken off one line."""

    __slots__ = ("at", "found", "names", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.names: list[str] = []
        self.found: dict[str, str] = {}

    def take(self, pattern: re.Pattern[str]) -> bool:
        """Takes ``pattern`` off where the line stands; False where it doesn't match."""
        match = pattern.match(self.text, self.at)
        if match is None or match.end() == self.at:
            return False
        for key, value in match.groupdict().items():
            if value is not None:
                if key == "name":
                    self.names.append(value)
                self.found["source" if key == "old" else key] = value
        self.at = match.end()
        return True


def _process(taking: _Taking) -> bool:
    """Takes a ``(Name pid=7, ip=10.0.0.2)`` off; plain words in brackets are no prefix."""
    match = _PROCESS.match(taking.text, taking.at)
    if match is None or (match["pid"] is None and match["ip"] is None):
        return taking.take(_BARE)
    return taking.take(_PROCESS)


_HEADS = {
    "(": (),
    "[": (_RANK, _TORCH_CPP, _RAY_CPP, _NCCL_TIME, _OUTER),
    "2": (_RAY, _OUTER, _NCCL),
    "I": (_VLLM, _UVICORN),
    "W": (_VLLM, _UVICORN),
    "E": (_VLLM, _UVICORN),
    "C": (_VLLM, _UVICORN),
    "D": (_VLLM, _UVICORN),
}
_MAX_PREFIXES = 10


def _take_prefixes(taking: _Taking) -> None:
    text = taking.text
    for _ in range(_MAX_PREFIXES):
        first = text[taking.at : taking.at + 1]
        if first == "\r":
            taking.at += 1
        elif first == "(":
            if not _process(taking):
                return
        elif not any(taking.take(pattern) for pattern in _HEADS.get(first, ())) and not _take_other(taking):
            return


def _take_other(taking: _Taking) -> bool:
    """Prefixes that may begin with any letter: a container tool's name, NCCL's host."""
    window = taking.text[taking.at : taking.at + 120]
    if taking.at == 0 and "| " in window and taking.take(_OUTER):
        return True
    return "] " in window and "NCCL " in window and taking.take(_NCCL)


def parse_line(text: str) -> Line:
    """``text`` (one line, without its ``\\n``) taken apart; never fails, whatever the text."""
    text = strip_ansi(text).rstrip("\r\n")
    repeated = 0
    if "x across cluster]" in text:
        match = _REPEATED.search(text)
        if match:
            repeated, text = min(int(match[1][:9]), 10**6), text[: match.start()]
    taking = _Taking(text)
    _take_prefixes(taking)
    found = taking.found
    level = found.get("level", "")
    level = _LEVELS.get(
        level, {"WARN": "WARNING", "ERR": "ERROR", "VINFO": "INFO", "VWARN": "WARNING"}.get(level, level)
    )
    pid, rank = found.get("pid", ""), found.get("rank", "")
    return Line(
        text=text[taking.at :],
        process=taking.names[-1] if taking.names else "",
        pid=int(pid) if pid.isdecimal() and len(pid) < 12 else None,
        ip=found.get("ip", ""),
        level=level,
        time=found.get("time", ""),
        source=found.get("source", ""),
        chain=tuple(taking.names),
        host=found.get("host", ""),
        rank=int(rank) if rank and len(rank) < 9 else None,
        repeated=repeated,
        prefix=taking.at,
    )


@dataclass(frozen=True, slots=True)
class Record:
    """One logical entry: ``line`` is the first line's number (from 1), ``count`` how many lines belong to it,
    ``head`` the first line taken apart, ``text`` the whole message joined by ``\\n``."""

    line: int
    count: int
    head: Line
    text: str


def stream_of(line: Line) -> tuple[str, int | None, str]:
    """The key of the stream that the line belongs to: process, pid and address."""
    return (line.process, line.pid, line.ip)


def _continues(head: Line, line: Line) -> bool:
    """Whether ``line`` continues the record that ``head`` began."""
    if not line.head:
        return stream_of(line) == stream_of(head) or not line.chain
    same = (line.level, line.time, line.source) == (head.level, head.time, head.source)
    return same and bool(head.source) and stream_of(line) == stream_of(head)


def records(lines: Iterator[str], start: int = 1) -> Iterator[Record]:
    """The records of consecutive lines; ``start`` is the first one's number.

    A record goes on over lines that repeat its head (vLLM's formatter does so for each line of a message)
    and over lines without a head of their own.
    """
    head: Line | None = None
    first, texts = start, list[str]()
    for number, raw in enumerate(lines, start):
        line = parse_line(raw)
        if head is not None and _continues(head, line):
            texts.append(line.text)
            continue
        if head is not None:
            yield Record(first, len(texts), head, "\n".join(texts))
        head, first, texts = line, number, [line.text]
    if head is not None:
        yield Record(first, len(texts), head, "\n".join(texts))
