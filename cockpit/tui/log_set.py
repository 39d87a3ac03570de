"""The logs of one view: one, or several by time; their lines as they are shown, and the work behind them.

The work (index, merged order, and the sieves for search, filter and errors) is done off the UI thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Final

from cockpit.logs.lines import FileLines, Lines, SievedLines
from cockpit.logs.log import Log
from cockpit.logs.merge import Merge, MergedLines
from cockpit.logs.search import Finder
from cockpit.logs.sieve import Sieve

FILTER: Final = "filter"
_SMALL: Final = 2 * 1024 * 1024
_MERGED: Final = 2_000


class LogSet:
    """``logs`` and what they are called; several are shown by time, each line with its log's label."""

    def __init__(self, logs: Sequence[Log], labels: Sequence[str] = ()) -> None:
        self.logs = tuple(logs)
        self.labels = tuple(labels) or tuple(log.name for log in logs)
        self.sieves: dict[str, tuple[Sieve, ...]] = {}
        self.merge: Merge | None = None
        self.lines: Lines = self._lines(None)
        self._lock = Lock()

    # What there is

    @property
    def several(self) -> bool:
        """Whether there is more than one log."""
        return len(self.logs) > 1

    @property
    def size(self) -> int:
        """Bytes of all logs, as last seen."""
        return sum(log.file.size for log in self.logs)

    @property
    def newlines(self) -> int:
        """How many ``\\n`` are known of."""
        return sum(log.index.newlines for log in self.logs)

    @property
    def complete(self) -> bool:
        """Whether every line is known: counted, and merged where there are several logs."""
        return all(log.index.complete for log in self.logs) and (self.merge is None or not self.merge.left)

    @property
    def done(self) -> float:
        """How much of that is done, from 0 to 1."""
        size = max(1, self.size)
        left = self.merge.left if self.merge is not None else size - sum(log.index.indexed for log in self.logs)
        return min(1.0, max(0.0, 1 - left / size))

    def refresh(self) -> bool:
        """Look for growth; whether there is any."""
        return sum(log.refresh() for log in self.logs) > 0

    def began_anew(self, *, look: bool) -> bool:
        """Whether a file became shorter; with ``look`` also whether a path names another file now."""
        return any(log.stale or (look and log.file.moved()) for log in self.logs)

    def reopened(self) -> LogSet:
        """The files that have the paths now. Raises ``OSError``."""
        return LogSet([log.reopen() for log in self.logs], self.labels)

    def close(self) -> None:
        """Close the files."""
        for log in self.logs:
            log.close()

    # Which lines are shown

    def _lines(self, sieves: Sequence[Sieve] | None) -> Lines:
        if self.several:
            self.merge = Merge(self.logs, sieves)
            return MergedLines(self.merge)
        return SievedLines(self.logs[0], sieves[0]) if sieves else FileLines(self.logs[0])

    def sift(self, finders: Sequence[Finder] | None) -> None:
        """Show only what ``finders``, one for each log, find; or everything."""
        self.sieves.pop(FILTER, None)
        if finders is not None:
            self.look_for(FILTER, finders)
        self.lines = self._lines(self.sieves.get(FILTER))

    def look_for(self, name: str, finders: Sequence[Finder]) -> None:
        """Begin to look through all logs."""
        self.sieves[name] = tuple(
            Sieve(log.file, finder) for log, finder in zip(self.logs, finders, strict=True)
        )

    def drop(self, name: str) -> bool:
        """Forget what was looked for; whether there was something."""
        return self.sieves.pop(name, None) is not None

    # Work

    @property
    def left(self) -> int:
        """How many bytes are still to be judged, at the most."""
        index = max(log.file.size - log.index.indexed for log in self.logs)
        sieves = [
            sieve.file.size - sieve.scanned for each in self.sieves.values() for sieve in each if not sieve.over
        ]
        return max(index, self.merge.left if self.merge is not None else 0, *sieves, 0)

    def catch_up(self) -> bool:
        """Do at once the little that the index, and the merged order, are behind; whether that was all."""
        behind = sum(max(0, log.file.size - log.index.indexed) for log in self.logs)
        if not 0 < behind <= _SMALL or not all(sieve.over for each in self.sieves.values() for sieve in each):
            return False
        if not self._lock.acquire(blocking=False):
            return False
        try:
            for log in self.logs:
                log.index.extend()
            if self.merge is not None:
                self.merge.extend(_MERGED)
        finally:
            self._lock.release()
        return not self.left

    def count_to(self, log: Log, line: int) -> None:
        """Count lines up to ``line`` at once, in step with the thread that works."""
        with self._lock:
            while log.index.offset_of(line) is None and log.index.extend():
                pass

    def run(self, cancelled: Callable[[], bool]) -> None:
        """Work until nothing is left or ``cancelled``; a slice of each in turn. One thread at a time works: one
        that was cancelled ends its slice first."""
        with self._lock:
            while not cancelled():
                busy = sum(log.index.extend() for log in self.logs) > 0
                for sieve in [sieve for each in list(self.sieves.values()) for sieve in each]:
                    if cancelled():
                        return
                    busy |= sieve.extend(1)
                if self.merge is not None:
                    busy |= self.merge.extend()
                if not busy:
                    return
