"""Finders that know what a log line is: filters by process, rank, level and address; errors; folding."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from cockpit.logs.records import Line, is_bar, parse_line, stream_of
from cockpit.logs.search import Buffer, Characters, Query, text_lines

Stream = tuple[str, int | None, str]
LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_TAKEN: Final = 4096
"""How many characters of a line are looked at for its prefixes."""
_COLOUR: Final = r"(?:\x1b\[[\d;]*m)*"
_VLLM: Final = re.compile(
    rf"({_COLOUR}(?:\([^()]*\){_COLOUR} ?)*)(DEBUG|INFO|WARNING|ERROR|CRITICAL) "
    r"\d\d-\d\d \d\d:\d\d:\d\d \[[^\]\s]+:\d+\] ?+(?![(\[2\r\x1b]|DEBUG|INFO|WARNING|ERROR|CRITICAL)"
)
"""The head of vLLM's own lines, where no further prefix follows: what ``records`` takes off, in one look."""
TRACEBACK: Final = "Traceback (most recent call last):"
_RANK: Final = re.compile(r"_(?:TP|DP|PP)?(\d+)")


def rank_of(line: Line) -> int | None:
    """The rank that wrote the line: ``[rank1]:``, or the number in ``Worker_TP1``."""
    if line.rank is not None:
        return line.rank
    match = _RANK.search(line.process)
    return int(match[1][:6]) if match else None


@dataclass(frozen=True, slots=True)
class Filter:
    """Which lines stay; every condition that is set must hold.

    ``level`` is the least that stays ("WARNING"). A line without a level has that of the last one its process
    wrote; continuation lines without any prefix belong to the line before. A traceback is an error, whatever
    came before it; a progress bar is INFO, belongs to the process before it alone and never to a line before,
    but for a record that was written into its unfinished line.
    ``address`` is Ray's ``ip=``, "head" for the lines without one. ``invert`` turns ``query`` alone round.
    """

    query: Query | None = None
    invert: bool = False
    processes: frozenset[str] = frozenset()
    ranks: frozenset[int] = frozenset()
    level: str = ""
    address: str = ""

    @property
    def empty(self) -> bool:
        """Whether every line stays."""
        return self.query is None and not (self.processes or self.ranks or self.level or self.address)

    def finder(self) -> LineFilter:
        """A finder of the lines that stay. Raises ``PatternError``."""
        return LineFilter(self)

    def words(self) -> str:
        """The filter in words, for the screen."""
        parts = [f"{'not ' if self.invert else ''}“{self.query.pattern}”"] if self.query else []
        parts += [" or ".join(sorted(self.processes))] if self.processes else []
        parts += [f"rank {' or '.join(str(rank) for rank in sorted(self.ranks))}"] if self.ranks else []
        parts += [f"{self.level} and above"] if self.level else []
        parts += [f"host {self.address}"] if self.address else []
        return ", ".join(parts)


class Nothing:
    """Finds no line."""

    def offsets(self, data: Buffer, start: int, end: int, provisional: bool = False) -> list[int]:
        """None."""
        return []


class LineFilter:
    """The starts of the lines that a ``Filter`` lets through."""

    def __init__(self, wanted: Filter) -> None:
        self._wanted = wanted
        self._pattern = wanted.query.compiled() if wanted.query else None
        self._parsing = bool(wanted.processes or wanted.ranks or wanted.level or wanted.address)
        self._hits = wanted.query.finder() if wanted.query and not wanted.invert and not self._parsing else None
        self._heads: dict[str, tuple[Line, Stream, bool]] = {}
        """By how a head is written: its line, its stream, and whether all but its level holds."""
        self._least = LEVELS.index(wanted.level) if wanted.level else 0
        self._last = Line("")
        self._levels: dict[Stream, str] = {}

    def offsets(self, data: Buffer, start: int, end: int, provisional: bool = False) -> list[int]:
        """The start of each line that stays."""
        if self._hits is not None:
            hits = self._hits.offsets(data, start, end, provisional)
            return [max(start, data.rfind(b"\n", start, hit) + 1) for hit in hits]
        if self._pattern is not None or not self._parsing:
            return [at for at, line in text_lines(data, start, end) if self._stays(line, provisional)]
        return self._by_heads(data, start, end, provisional)

    def _by_heads(self, data: Buffer, start: int, end: int, provisional: bool) -> list[int]:
        """As ``_stays`` judges, for filters without a query. vLLM's own lines differ in little but their message:
        what stands before their level is judged once, and is found again by how it is written."""
        found: list[int] = []
        heads, levels, least = self._heads, self._levels, self._least
        for at, text in text_lines(data, start, end):
            match = _VLLM.match(text)
            head = heads.get(match[1]) if match is not None and "NCCL " not in text else None
            if match is None or head is None:
                if self._stays(text, provisional):
                    found.append(at)
                continue
            line, stream, holds = head
            level = match[2]
            if not provisional:
                self._last = line
                levels[stream] = level
            if holds and LEVELS.index(level) >= least:
                found.append(at)
        return found

    def _stays(self, text: str, provisional: bool) -> bool:
        found = self._pattern is None or self._pattern.span(text) is not None
        if self._pattern is not None and found is self._wanted.invert and not self._parsing:
            return False
        if not self._parsing:
            return True
        line, told = self._taken(text)
        if not told and is_bar(text):
            line, level = self._in_bar(line, text)
        else:
            told = told or ("ERROR" if TRACEBACK in text else "")
            line, level = self._owner(line, told, provisional)
        return (self._pattern is None or found is not self._wanted.invert) and self._holds(line, level)

    def _taken(self, text: str) -> tuple[Line, str]:
        """The line without its message, and the level it tells."""
        match = _VLLM.match(text)
        if match is None or "NCCL " in text:
            line = parse_line(text[:_TAKEN])
            return line, line.level
        head = self._heads.get(match[1])
        line = head[0] if head is not None else parse_line(match[0])
        if head is None and line.level and len(self._heads) < 1000:
            self._heads[match[1]] = (line, stream_of(line), self._of_head(line))
        return line, match[2] if line.level else ""

    def _in_bar(self, bar: Line, text: str) -> tuple[Line, str]:
        """A progress bar's own prefixes, or those of the last record written into its line."""
        written = list(_VLLM.finditer(text[-_TAKEN:]))
        return (parse_line(written[-1][0]), written[-1][2]) if written else (bar, "INFO")

    def _owner(self, line: Line, told: str, provisional: bool) -> tuple[Line, str]:
        """The line whose prefixes count for ``line`` (itself, or the one it continues), and its level."""
        if not told and not line.head and not line.chain and line.rank is None:
            return self._last, self._levels.get(stream_of(self._last), "")
        stream = stream_of(line)
        level = told or self._levels.get(stream, "")
        if not provisional:
            self._last = line
            if len(self._levels) > 1000:
                self._levels.clear()
            self._levels[stream] = level
        return line, level

    def _holds(self, line: Line, level: str) -> bool:
        wanted = self._wanted
        return self._of_head(line) and (
            not wanted.level or (level in LEVELS and LEVELS.index(level) >= self._least)
        )

    def _of_head(self, line: Line) -> bool:
        """Whether everything but the level holds."""
        wanted = self._wanted
        return (
            (not wanted.processes or bool(wanted.processes.intersection((line.process, *line.chain))))
            and (not wanted.ranks or rank_of(line) in wanted.ranks)
            and (not wanted.address or (line.ip or "head") == wanted.address)
        )


_RAISED: Final = b"Error: "
_RAISES: Final = re.compile(rb"(?:\x1b\[[0-9;]*m|\([^()]{1,80}\) ?|\[rank\d+\]: ?)*[\w.]*Error: ")


class Errors:
    """The first line of each run of lines that tell of an error, wherever they come from."""

    _SIGNS: Final = (
        b"ERROR",
        b"CRITICAL",
        b"FATAL",
        b"Traceback (most recent call last)",
        _RAISED,
        b"NVRM: Xid",
        b"Out of memory: Killed",
        b"oom-kill:",
        b"Segmentation fault",
        b"segfault at",
        b"core dumped",
    )

    def __init__(self) -> None:
        self._running = False
        self._characters = {sign: Characters(sign) for sign in self._SIGNS}

    def offsets(self, data: Buffer, start: int, end: int, provisional: bool = False) -> list[int]:
        """The starts of those lines."""
        told = [sign for sign, characters in self._characters.items() if not characters.lack(data, start, end)]
        lines = sorted({hit for sign in told for hit in _line_starts(data, start, end, sign)})
        found: list[int] = []
        expected = start if self._running else -1
        for line in lines:
            if line != expected:
                found.append(line)
            line_end = data.find(b"\n", line, end)
            expected = line_end + 1 if line_end >= 0 else end
        if not provisional and end > start:
            self._running = bool(lines) and expected == end
        return found


def _line_starts(data: Buffer, start: int, end: int, sign: bytes) -> list[int]:
    found: list[int] = []
    at = data.find(sign, start, end)
    while at >= 0:
        line = max(start, data.rfind(b"\n", start, at) + 1)
        if sign is not _RAISED or _RAISES.match(data, line, at + len(sign)):
            found.append(line)
        line_end = data.find(b"\n", at, end)
        if line_end < 0:
            break
        at = data.find(sign, line_end + 1, end)
    return found


class Folding:
    """The first line of each run of lines that say the same, times and process numbers apart."""

    def __init__(self) -> None:
        self._key: tuple[str, str] | None = None

    def offsets(self, data: Buffer, start: int, end: int, provisional: bool = False) -> list[int]:
        """The starts of the lines that differ from the one before."""
        found: list[int] = []
        key = self._key
        for at, text in text_lines(data, start, end):
            line = parse_line(text) if len(text) <= _TAKEN else Line(text)
            this = (line.process, line.text)
            if this != key:
                found.append(at)
            key = this
        if not provisional:
            self._key = key
        return found
