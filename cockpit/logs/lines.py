"""Which lines are shown, in which order: all of a file, those a sieve holds, or several files' by time.

A line's position is a number that means something to its ``Lines`` alone; ``place`` says where its bytes are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from cockpit.logs.log import Log
from cockpit.logs.sieve import Sieve


@dataclass(frozen=True, slots=True)
class Place:
    """The bytes of a line, without its ``\\n``."""

    log: Log
    start: int
    end: int

    @property
    def number(self) -> int | None:
        """The line's number in its file, None where the index has not come so far."""
        return self.log.index.number_at(self.start)


class Lines(Protocol):
    """A sequence of lines that may grow at its end."""

    @property
    def logs(self) -> tuple[Log, ...]:
        """The files they come from."""
        ...

    def first(self) -> int | None:
        """The position of the first line."""
        ...

    def last(self) -> int | None:
        """The position of the last line."""
        ...

    def next(self, position: int) -> int | None:
        """The position after this one."""
        ...

    def previous(self, position: int) -> int | None:
        """The position before this one."""
        ...

    def place(self, position: int) -> Place:
        """Where the line's bytes are."""
        ...

    def near(self, log: Log, offset: int) -> int | None:
        """The position of the line of ``log`` that holds ``offset``, or of the next one shown, or the last."""
        ...

    def after(self, log: Log, position: int) -> int:
        """The offset in ``log`` of its first line at or after ``position``; the file's end where none is."""
        ...

    def share(self, position: int) -> float:
        """How far down the position is, from 0 to 1."""
        ...


class FileLines:
    """All lines of one file; a position is the offset of a line's first byte."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.logs = (log,)
        self._last = (-1, -1)
        """The line asked for last, and its end: whoever wants it wants the next one too."""

    def first(self) -> int | None:
        """The first line, None in an empty file."""
        return 0 if self.log.file.size else None

    def last(self) -> int | None:
        """The last line; it may be unfinished."""
        return self.log.index.last_line()

    def next(self, position: int) -> int | None:
        """The line after this one."""
        following = self._end(position) + 1
        return following if following < self.log.file.size else None

    def previous(self, position: int) -> int | None:
        """The line before this one."""
        return self.log.index.previous_line(position)

    def place(self, position: int) -> Place:
        """Where the line is."""
        return Place(self.log, position, self._end(position))

    def _end(self, position: int) -> int:
        start, end = self._last
        if start != position or end >= self.log.file.size - 1:
            end = self.log.index.end_of_line(position)
            self._last = (position, end)
        return end

    def near(self, log: Log, offset: int) -> int | None:
        """The line that holds ``offset``."""
        size = self.log.file.size
        return self.log.index.start_of_line(max(0, min(offset, size - 1))) if size else None

    def after(self, log: Log, position: int) -> int:
        """The position itself."""
        return position

    def share(self, position: int) -> float:
        """By bytes."""
        return position / max(1, self.log.file.size)


class SievedLines:
    """The lines whose starts a sieve holds; a position is that offset."""

    def __init__(self, log: Log, sieve: Sieve) -> None:
        self.log = log
        self.logs = (log,)
        self.sieve = sieve

    def first(self) -> int | None:
        """The first line kept so far."""
        return self.sieve.nth(0)

    def last(self) -> int | None:
        """The last line kept so far."""
        return self.sieve.nth(len(self.sieve) - 1)

    def next(self, position: int) -> int | None:
        """The next line kept."""
        return self.sieve.next(position + 1)

    def previous(self, position: int) -> int | None:
        """The line kept before."""
        return self.sieve.previous(position)

    def place(self, position: int) -> Place:
        """Where the line is."""
        return Place(self.log, position, self.log.index.end_of_line(position))

    def near(self, log: Log, offset: int) -> int | None:
        """The line that holds ``offset`` where it is kept, else the next kept."""
        found = self.sieve.next(self.log.index.start_of_line(offset)) if self.log.file.size else None
        return found if found is not None else self.last()

    def after(self, log: Log, position: int) -> int:
        """The position itself."""
        return position

    def share(self, position: int) -> float:
        """By bytes of the whole file."""
        return position / max(1, self.log.file.size)
