"""Several logs as one, by time, as far as their times allow.

A line without a time stays with the line before it in its file. Within one file the order is never changed:
a line whose clock went back counts as being at the time of the line before. Lines of the same moment come in
the order of the files, one that comes late after those of its moment. An unfinished last line stands at the
very end until it is finished. The merged order costs 32 bytes of memory for each line.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Final

from cockpit.logs.lines import Place
from cockpit.logs.log import Log
from cockpit.logs.sieve import Sieve
from cockpit.logs.times import time_in, year_of

_SHIFT: Final = 56
_MASK: Final = (1 << _SHIFT) - 1
_LOOK: Final = 240
_CHUNK: Final = 256 * 1024
SLICE: Final = 20_000


class _Tape:
    """One log, read a chunk of lines at a time; ``time`` is that of the line at ``start``. With ``keep`` only the
    lines that the sieve holds come by; the others' times count all the same."""

    def __init__(self, log: Log, keep: Sieve | None) -> None:
        self.log = log
        self.year = year_of(log)
        self.start: int | None = None
        self.time = float("-inf")
        self.reached = 0
        """All that begins before this offset is merged, or left out."""
        self._next = 0
        """What begins before this offset has been read."""
        self.starts = array("Q")
        self.times = array("d")
        self._keep = keep
        self._ready: tuple[list[int], list[float]] = ([], [])
        """The lines that were read, of which those before ``_at`` are merged."""
        self._at = 0
        self._latest = float("-inf")

    def load(self) -> bool:
        """Have a line at hand; False where the file has no further whole line, or the sieve has not come to
        it. A last line without its ``\\n`` counts once it has been given its end."""
        while self.start is None:
            starts, times = self._ready
            if self._at < len(starts):
                self.reached = self.start = starts[self._at]
                self.time = times[self._at]
            elif not self._read():
                self.reached = self._next
                return False
        return True

    def take(self, before: tuple[float, int], number: int, most: int) -> tuple[list[int], list[float]]:
        """The line at hand, and those after it that are at hand too and come ``before`` another log's: that log's
        time and number. This log's is ``number``."""
        starts, times = self._ready
        time, other = before
        cut = bisect_right if number < other else bisect_left
        end = min(max(self._at + 1, cut(times, time, self._at)), self._at + most)
        run = starts[self._at : end], times[self._at : end]
        self._at, self.start = end, None
        self.starts.extend(run[0])
        self.times.extend(run[1])
        return run

    def _read(self) -> bool:
        """Read on; False where no whole line follows."""
        file, start = self.log.file, self._next
        end = file.size if self._keep is None or self._keep.complete else self._keep.scanned
        data = file.read(start, min(end, start + _CHUNK))
        size = data.rfind(b"\n") + 1
        if size:
            self._ready, self._at = self._parse(data, size, start), 0
            self._next = start + size
            return True
        stop = self.log.index.end_of_line(start) if start < end else end
        if stop >= end:
            return False
        self._ready, self._at = self._parse(data[:_LOOK] + b"\n", 1, start), 0
        self._next = stop + 1
        return True

    def _parse(self, data: bytes, size: int, base: int) -> tuple[list[int], list[float]]:
        """The lines that begin in the first ``size`` bytes of ``data``, each with its time."""
        starts, times = list[int](), list[float]()
        keep, year, latest, at = self._keep, self.year, self._latest, 0
        kept = keep.next(base) if keep is not None else None
        while at < size:
            end = data.find(b"\n", at)
            told = time_in(data, year, at, min(end, at + _LOOK))
            if told is not None and told > latest:
                latest = told
            if keep is None or kept == base + at:
                starts.append(base + at)
                times.append(latest)
                kept = keep.next(base + at + 1) if keep is not None else None
            at = end + 1
        self._latest = latest
        return starts, times

    @property
    def unfinished(self) -> int | None:
        """Where the unfinished last line begins, once all before it is merged."""
        return (
            self._next
            if self._at_last() and (self._keep is None or self._keep.next(self._next) is not None)
            else None
        )

    @property
    def left(self) -> int:
        """How many bytes are still to be merged: an unfinished last line is not."""
        return 0 if self._at_last() else max(0, self.log.file.size - self.reached)

    def _at_last(self) -> bool:
        size, start = self.log.file.size, self._next
        read = self.start is None and self.reached == start < size
        return read and self.log.index.end_of_line(start) >= size


class Merge:
    """The merged order of ``logs``; with ``keeps``, a sieve for each, only of the lines that these hold. One
    thread extends, others read."""

    def __init__(self, logs: Sequence[Log], keeps: Sequence[Sieve] | None = None) -> None:
        self.logs = tuple(logs)
        self._tapes = [_Tape(log, keeps[number] if keeps else None) for number, log in enumerate(logs)]
        self._keys = array("Q")
        self._times = array("d")
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def left(self) -> int:
        """How many bytes are still to be merged."""
        return sum(tape.left for tape in self._tapes)

    def extend(self, lines: int = SLICE) -> bool:
        """Merge about ``lines`` more lines; False when there were none."""
        done = 0
        while done < lines:
            loaded = sorted((tape.time, number) for number, tape in enumerate(self._tapes) if tape.load())
            if not loaded:
                break
            number = loaded[0][1]
            before = loaded[1] if len(loaded) > 1 else (float("inf"), number + 1)
            with self._lock:
                starts, times = self._tapes[number].take(before, number, lines - done)
                self._insert(number << _SHIFT, starts, times)
            done += len(starts)
        return done > 0

    def _insert(self, mark: int, starts: list[int], times: list[float]) -> None:
        """At the end, or, when a slower log's lines come late, before what is later than they are."""
        late = 0
        while late < len(times) and self._times and times[late] < self._times[-1]:
            at = bisect_right(self._times, times[late])
            self._keys.insert(at, mark | starts[late])
            self._times.insert(at, times[late])
            late += 1
        self._keys.extend([mark | start for start in starts[late:]])
        self._times.extend(times[late:])

    def at(self, number: int) -> tuple[int, int]:
        """Which log line ``number`` (from 0) of the merged order is of, and where it starts there."""
        key = self._keys[number]
        return key >> _SHIFT, key & _MASK

    def since(self, time: float) -> int:
        """The first line at ``time`` or later."""
        return bisect_left(self._times, time)

    def tails(self) -> list[tuple[int, int]]:
        """The unfinished last lines: which log, and where it starts there."""
        found = [(number, tape.unfinished) for number, tape in enumerate(self._tapes)]
        return [(number, start) for number, start in found if start is not None]

    def place_of(self, log: int, line: int) -> int:
        """Where in the merged order line ``line`` (from 0, of those merged) of a log stands."""
        with self._lock:
            tape = self._tapes[log]
            key, time = log << _SHIFT | tape.starts[line], tape.times[line]
            low = bisect_left(self._times, time)
            return self._keys.index(key, low, bisect_right(self._times, time, low))

    def line_at(self, log: int, start: int) -> int:
        """How many of a log's merged lines begin before ``start``."""
        return bisect_left(self._tapes[log].starts, start)

    def merged(self, log: int) -> int:
        """How many lines of a log are merged."""
        return len(self._tapes[log].starts)

    def start_of(self, log: int, line: int) -> int:
        """Where line ``line`` (from 0, of those merged) of a log begins in its file."""
        return self._tapes[log].starts[line]

    def passed(self, log: int, number: int) -> int:
        """How many of a log's merged lines stand before number ``number`` of the merged order."""
        low, high = 0, self.merged(log)
        while low < high:
            middle = (low + high) // 2
            if self.place_of(log, middle) < number:
                low = middle + 1
            else:
                high = middle
        return low


class MergedLines:
    """A ``Merge`` as ``lines.Lines``; a position is the number in the merged order, from 0. The unfinished last
    lines have the numbers after the last."""

    def __init__(self, merge: Merge) -> None:
        self.merge = merge
        self.logs = merge.logs

    def first(self) -> int | None:
        """The first line."""
        return 0 if self.last() is not None else None

    def last(self) -> int | None:
        """The last line there is so far."""
        count = len(self.merge) + len(self.merge.tails())
        return count - 1 if count else None

    def next(self, position: int) -> int | None:
        """The line after this one."""
        last = self.last()
        return position + 1 if last is not None and position < last else None

    def previous(self, position: int) -> int | None:
        """The line before this one."""
        return position - 1 if position else None

    def place(self, position: int) -> Place:
        """Where the line is."""
        if position < len(self.merge):
            number, start = self.merge.at(position)
        else:
            tails = self.merge.tails()
            number, start = (
                tails[min(position - len(self.merge), len(tails) - 1)] if tails else self.merge.at(-1)
            )
        log = self.logs[number]
        return Place(log, start, log.index.end_of_line(start))

    def near(self, log: Log, offset: int) -> int | None:
        """The line of ``log`` that holds ``offset``, or the next of it, or the last of all."""
        number = self.logs.index(log)
        start = log.index.start_of_line(offset) if log.file.size else 0
        line = self.merge.line_at(number, start)
        if line < self.merge.merged(number):
            return self.merge.place_of(number, line)
        tails = [tail for tail, _ in self.merge.tails()]
        return len(self.merge) + tails.index(number) if number in tails else self.last()

    def after(self, log: Log, position: int) -> int:
        """The offset in ``log`` of its first line at or after ``position``; the file's end where none is."""
        number = self.logs.index(log)
        line = self.merge.passed(number, position)
        if line < self.merge.merged(number):
            return self.merge.start_of(number, line)
        for at, (tail, start) in enumerate(self.merge.tails(), len(self.merge)):
            if tail == number and at >= position:
                return start
        return log.file.size

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
