"""A load's progress, read from the serve log as it grows. Pure: bytes in, ``Progress`` out."""

from __future__ import annotations

import re
from dataclasses import replace

from cockpit.logs.records import Line, parse_line
from cockpit.model.progress import ORDER, Phase, Progress
from cockpit.serving.phase_rules import BAR, HINTS, RULES

SEGMENT_LIMIT = 16 * 1024
"""Bytes of a line, or of one state of a bar, that are looked at; what decides stands far before that."""

_TERMINATOR = re.compile(rb"[\r\n]")
_WORKER = re.compile(r"Worker(?:_DP0)?_(?:TP|PP)(?P<rank>\d+)(?:_(?:DCP|EP)\d+)*$")


class LoadReader:
    """Reads one serve log. Feed it every byte from the log's start, in any pieces: the pieces don't matter.

    A rank never goes backwards: what Ray forwards late, or prints again, is passed over. Bars without a
    process are rank 0's, as vLLM draws them on rank 0 only.
    """

    def __init__(self) -> None:
        self._pending = b""
        self._line = 1
        self._head: str | None = None
        self._owner = Line("")
        self._ranks: dict[tuple[int, str], int] = {}
        self._last: dict[int | None, Progress] = {}
        self._bars: dict[tuple[int | None, Phase], _Bars] = {}

    @property
    def lines(self) -> int:
        """How many whole lines were read."""
        return self._line - 1

    def feed(self, data: bytes) -> list[Progress]:
        """What the next bytes of the log tell."""
        found: list[Progress] = []
        if data and not self._last:
            found += self._advance(Progress(Phase.STARTING, 1))
        at = 0
        for match in _TERMINATOR.finditer(data):
            segment = (self._pending + data[at : match.start()])[:SEGMENT_LIMIT]
            self._pending, at = b"", match.end()
            found += self._segment(segment.decode("utf-8", "replace"))
            if match[0] == b"\n":
                self._line += 1
                self._head = None
        self._pending = (self._pending + data[at:])[:SEGMENT_LIMIT]
        return found

    def _segment(self, text: str) -> list[Progress]:
        """One line, or one of the states that a line's carriage returns part. All states of a line belong to
        the process that its first part names."""
        first = self._head is None
        if first:
            self._head = text
        if HINTS.search(text) is None:
            return []
        line = parse_line(text)
        self._owner = line if first or line.process else parse_line(self._head or "")
        self._learn(self._owner)
        return self._read(line.text)

    def _read(self, text: str) -> list[Progress]:
        bars = list(BAR.finditer(text))
        if bars:
            return [step for bar in bars for step in self._bar(bar)]
        for rule in RULES:
            match = rule.pattern.search(text)
            if match is None:
                continue
            groups = match.groupdict()
            rank = None if rule.engine else self._rank(groups.get("rank"), rule.rank)
            said = groups.get("detail") or ""
            detail = rule.detail.format(said) if said or "{}" not in rule.detail else ""
            ip = "" if rule.engine else self._owner.ip
            return self._advance(Progress(rule.phase, self._line, rank, ip, detail=detail))
        return []

    def _bar(self, bar: re.Match[str]) -> list[Progress]:
        weights = bar["weights"] is not None
        phase, unit = (Phase.WEIGHTS, "shards") if weights else (Phase.GRAPHS, "graphs")
        rank, name = self._rank(None, 0), bar["weights"] or bar["graphs"] or ""
        done, total = int(bar["done"]), int(bar["total"])
        if not self._bars.setdefault((rank, phase), _Bars()).forward(name, done):
            return []
        detail = "" if weights else name
        return self._advance(Progress(phase, self._line, rank, self._owner.ip, done, total, unit, detail))

    def _rank(self, said: str | None, default: int | None) -> int | None:
        """The rank that the line names, else that of the process that printed it, else ``default``."""
        pid, ip = self._owner.pid, self._owner.ip
        if said is None:
            return default if pid is None else self._ranks.get((pid, ip), default)
        if pid is not None:
            self._ranks[pid, ip] = int(said)
        return int(said)

    def _learn(self, line: Line) -> None:
        """A worker's name tells its rank where there is one kind of parallelism only."""
        match = _WORKER.match(line.process)
        if match and line.pid is not None:
            self._ranks.setdefault((line.pid, line.ip), int(match["rank"]))

    def _advance(self, step: Progress) -> list[Progress]:
        """``step`` where it is one forward for its rank, else nothing."""
        last = self._last.get(step.rank)
        if last is not None:
            if ORDER[step.phase] < ORDER[last.phase]:
                return []
            if step.phase is last.phase and step.done is None:
                if not step.detail:
                    return []
                step = replace(step, done=last.done, total=last.total, unit=last.unit)
            if replace(step, line=last.line, ip=last.ip) == last:
                return []
        self._last[step.rank] = step
        return [step]


class _Bars:
    """The bars of one rank and phase: one after the other, each goes up."""

    __slots__ = ("_done", "_name", "_past")

    def __init__(self) -> None:
        self._past: set[str] = set()
        self._name = ""
        self._done = -1

    def forward(self, name: str, done: int) -> bool:
        """Whether the bar ``name`` at ``done`` is news."""
        if name == self._name and self._done >= 0:
            if done <= self._done:
                return False
        elif name in self._past:
            return False
        self._past.add(name)
        self._name, self._done = name, done
        return True
