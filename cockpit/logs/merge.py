"""Several logs as one, by time, as far as their times allow.

A line without a time stays with the line before it in its file. Within one file the order is never changed:
a line whose clock went back counts as being at the time of the line before. Lines of the same moment come in
the order of the files. The merged order costs sixteen bytes of memory for each line.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

from cockpit.logs.lines import Place
from cockpit.logs.log import Log
from cockpit.logs.times import time_of, year_of

_SHIFT: Final = 56
_MASK: Final = (1 << _SHIFT) - 1
_LOOK: Final = 240
SLICE: Final = 20_000


class _Tape:
    """One log, read line by line; ``time`` is that of the line at ``start``."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.year = year_of(log)
        self.start: int | None = None
        self.time = float("-inf")
        self._next = 0

    def load(self) -> bool:
        """Have a line at hand; False where the file has no further whole line. A last line without its
        ``\\n`` counts once it has been given its end."""
        if self.start is not None:
            return True
        file = self.log.file
        end = self.log.index.end_of_line(self._next) if self._next < file.size else file.size
        if end >= file.size:
            return False
        self.start = self._next
        head = file.read(self.start, min(end, self.start + _LOOK)).decode("utf-8", "replace")
        found = time_of(head, self.year)
        if found is not None:
            self.time = max(self.time, found)
        self._next = end + 1
        return True


class Merge:
    """The merged order of ``logs``. One thread extends, others read."""

    def __init__(self, logs: Sequence[Log]) -> None:
        self.logs = tuple(logs)
        self._tapes = [_Tape(log) for log in logs]
        self._keys = array("Q")
        self._times = array("d")

    def __len__(self) -> int:
        return len(self._keys)

    def extend(self, lines: int = SLICE) -> bool:
        """Merge about ``lines`` more lines; False when there were none."""
        for done in range(lines):
            loaded = [number for number, tape in enumerate(self._tapes) if tape.load()]
            if not loaded:
                return done > 0
            number = min(loaded, key=lambda each: (self._tapes[each].time, each))
            tape = self._tapes[number]
            self._insert(tape.time, number << _SHIFT | (tape.start or 0))
            tape.start = None
        return True

    def _insert(self, time: float, key: int) -> None:
        """At the end, or, when a slower log's line comes late, before what is later than it."""
        if not self._times or time >= self._times[-1]:
            self._keys.append(key)
            self._times.append(time)
        else:
            at = bisect_right(self._times, time)
            self._keys.insert(at, key)
            self._times.insert(at, time)

    def at(self, number: int) -> tuple[int, int]:
        """Which log line ``number`` (from 0) of the merged order is of, and where it starts there."""
        key = self._keys[number]
        return key >> _SHIFT, key & _MASK

    def since(self, time: float) -> int:
        """The first line at ``time`` or later."""
        return bisect_left(self._times, time)


class MergedLines:
    """A ``Merge`` as ``lines.Lines``; a position is the number in the merged order, from 0."""

    def __init__(self, merge: Merge) -> None:
        self.merge = merge
        self.logs = merge.logs

    def first(self) -> int | None:
        """The first line."""
        return 0 if len(self.merge) else None

    def last(self) -> int | None:
        """The last line merged so far."""
        return len(self.merge) - 1 if len(self.merge) else None

    def next(self, position: int) -> int | None:
        """The line after this one."""
        return position + 1 if position + 1 < len(self.merge) else None

    def previous(self, position: int) -> int | None:
        """The line before this one."""
        return position - 1 if position else None

    def place(self, position: int) -> Place:
        """Where the line is."""
        number, start = self.merge.at(position)
        log = self.logs[number]
        return Place(log, start, log.index.end_of_line(start))

    def near(self, log: Log, offset: int) -> int | None:
        """The line of ``log`` that holds ``offset``, or the next of it, or the last: lines of one log stand in
        its own order, so that halving finds it."""
        wanted = self.logs.index(log)
        low, high = 0, len(self.merge)
        start = log.index.start_of_line(offset) if log.file.size else 0
        while low < high:
            middle = (low + high) // 2
            probe = middle
            while probe < high and self.merge.at(probe)[0] != wanted:
                probe += 1
            if probe == high or self.merge.at(probe)[1] >= start:
                high = middle
            else:
                low = probe + 1
        while low < len(self.merge) and self.merge.at(low)[0] != wanted:
            low += 1
        return low if low < len(self.merge) else self.last()

    def share(self, position: int) -> float:
        """By lines."""
        return position / max(1, len(self.merge))


def merged_lines(logs: Sequence[Log], since: float | None = None) -> Iterator[Place]:
    """The lines of ``logs`` by time, from ``since`` on; what the files hold at present."""
    merge = Merge(logs)
    while merge.extend():
        pass
    lines = MergedLines(merge)
    for number in range(merge.since(since) if since is not None else 0, len(merge)):
        yield lines.place(number)
