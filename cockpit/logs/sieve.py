"""The lines of a log that match: found off the UI thread, kept in two bytes each.

A sieve holds, for every hit, its place within its 64 KiB block, and for every block how many hits there are
up to its end. It serves search (the first hit of each line), filters (each line that stays), errors and
folding alike. It is extended in slices, so that a worker thread can be cancelled between two of them, while
the UI reads what has been found so far.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from threading import Lock
from typing import Final

from cockpit.logs.blocks import BLOCK, LogFile
from cockpit.logs.pattern import PatternTooSlow
from cockpit.logs.search import Finder

WINDOW: Final = 512 * 1024
OVERLAP: Final = 64 * 1024
SLICE: Final = 8 * 1024 * 1024


class Sieve:
    """What ``finder`` finds in ``file``, as far as ``scanned``. One thread extends, others read.

    A line of more than ``window`` bytes is judged in windows that overlap: one hit for each, and a match
    longer than ``overlap`` may be missed there. The unfinished last line is judged too, and once more when it
    has grown.
    """

    def __init__(self, file: LogFile, finder: Finder, *, window: int = WINDOW, overlap: int = OVERLAP) -> None:
        self.file = file
        self.scanned = 0
        self.failed = ""
        """Why the finder gave up after ``scanned``, "" when it did not."""
        self._finder = finder
        self._low = array("H")
        self._ends = array("Q")
        self._lock = Lock()
        self._buffer = bytearray(window)
        self._overlap = overlap
        self._next = 0
        """Where the next window begins."""
        self._resume = 0
        """Where in it a hit may stand: what comes before was judged with the window before."""
        self._settled = 0
        """How many hits are certain; those after it stand in the unfinished last line."""

    def __len__(self) -> int:
        return len(self._low)

    @property
    def complete(self) -> bool:
        """Whether the whole file, as last seen, has been judged."""
        return self.scanned >= self.file.size

    @property
    def over(self) -> bool:
        """Whether nothing more is judged at present: all is, or the finder gave up."""
        return bool(self.failed) or self.complete

    def extend(self, limit: int = SLICE) -> bool:
        """Judge about ``limit`` more bytes (a window at least); False when there was nothing left."""
        before, size = self.scanned, self.file.size
        stop = before + limit
        if before >= size or self.failed:
            return False
        self._drop_unsettled()
        try:
            while self.scanned < min(stop, size):
                got = self.file.read_into(self._buffer, self._next)
                if not got:
                    break
                self._judge(min(got, size - self._next), size)
        except PatternTooSlow as error:
            self.failed = error.message
        return self.scanned > before

    def _judge(self, got: int, size: int) -> None:
        """Judge the window's first ``got`` bytes."""
        buffer, base = self._buffer, self._next
        start = max(0, self._resume - base)
        if base + got >= size:
            cut = buffer.rfind(b"\n", 0, got) + 1
            self._add(base, self._finder.offsets(buffer, min(start, cut), cut) if cut > start else [])
            self._settled = len(self._low)
            tail = max(start, cut)
            self._add(base, self._finder.offsets(buffer, tail, got, provisional=True))
            self._next, self._resume = base + cut, max(base + cut, self._resume)
            self.scanned = size
            return
        cut = buffer.rfind(b"\n", 0, got) + 1
        if cut > start:
            self._add(base, self._finder.offsets(buffer, start, cut))
            self._next = self._resume = self.scanned = base + cut
        else:
            self._judge_part(base, start, got)
        self._settled = len(self._low)

    def _judge_part(self, base: int, start: int, got: int) -> None:
        """Judge a window within a line that is longer than it."""
        hits = self._finder.offsets(self._buffer, start, got)
        self._add(base, hits)
        self._next = base + max(1, got - self._overlap)
        self._resume = max(self._next, base + hits[-1] + 1) if hits else self._next
        self.scanned = base + got

    def _add(self, base: int, hits: list[int]) -> None:
        with self._lock:
            low, ends = self._low, self._ends
            for hit in hits:
                block, within = divmod(base + hit, BLOCK)
                while len(ends) < block:
                    ends.append(len(low))
                low.append(within)

    def _drop_unsettled(self) -> None:
        with self._lock:
            del self._low[self._settled :]
            while self._ends and self._ends[-1] > self._settled:
                self._ends.pop()

    def _at(self, number: int) -> int:
        """The offset of hit ``number``, from 0."""
        return bisect_right(self._ends, number) * BLOCK + self._low[number]

    def before(self, offset: int) -> int:
        """How many hits stand before ``offset``."""
        with self._lock:
            return self._rank(offset)

    def _rank(self, offset: int) -> int:
        block, within = divmod(max(0, offset), BLOCK)
        ends, low = self._ends, self._low
        first = (ends[block - 1] if block <= len(ends) else len(low)) if block else 0
        last = ends[block] if block < len(ends) else len(low)
        return bisect_left(low, within, first, last)

    def nth(self, number: int) -> int | None:
        """The offset of hit ``number``, from 0; None where there is none such."""
        with self._lock:
            return self._at(number) if 0 <= number < len(self._low) else None

    def next(self, offset: int) -> int | None:
        """The first hit at or after ``offset``."""
        with self._lock:
            rank = self._rank(offset)
            return self._at(rank) if rank < len(self._low) else None

    def previous(self, offset: int) -> int | None:
        """The last hit before ``offset``."""
        with self._lock:
            rank = self._rank(offset)
            return self._at(rank - 1) if rank else None
