"""What a log view has done off the UI thread: the index, and the sieves for search, filter and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cockpit.logs.log import Log
from cockpit.logs.sieve import Sieve

_SMALL: Final = 2 * 1024 * 1024


class LogWork:
    """The work on one log. One thread at a time calls ``run``; the UI thread reads the results."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.sieves: dict[str, Sieve] = {}

    @property
    def left(self) -> int:
        """How many bytes are still to be judged, the longest of all."""
        size = self.log.file.size
        return max(size - self.log.index.indexed, *(size - sieve.scanned for sieve in self.sieves.values()), 0)

    def little(self) -> bool:
        """Whether the index alone is behind, by so little that it may be done at once."""
        index = self.log.index
        behind = self.log.file.size - index.indexed
        return 0 < behind <= _SMALL and all(sieve.complete for sieve in self.sieves.values())

    def run(self, cancelled: Callable[[], bool]) -> None:
        """Work until nothing is left or ``cancelled``; a slice of each in turn."""
        while not cancelled():
            sieves = list(self.sieves.values())
            busy = self.log.index.extend()
            for sieve in sieves:
                if cancelled():
                    return
                busy |= sieve.extend(1)
            if not busy:
                return
