"""Going from hit to hit: of the search, and from error to error. No widget, so that it can be read apart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from cockpit.logs.filters import Errors
from cockpit.logs.lines import Place
from cockpit.logs.search import Query
from cockpit.logs.sieve import Sieve
from cockpit.tui.log_set import FILTER, LogSet

SEARCH: Final = "search"
ERRORS: Final = "errors"
_TRIES: Final = 20_000

Hit = tuple[int, int]
"""Which log of the set, and the offset in it."""


@dataclass(frozen=True, slots=True)
class Hunt:
    """A jump that waits for its sieves: to the next hit (or the previous) from these offsets, one a log.
    ``anywhere`` takes one of the other direction where there is none in this."""

    name: str
    forward: bool
    offsets: tuple[int, ...]
    anywhere: bool = False


@dataclass(frozen=True, slots=True)
class Count:
    """Of the search: which hit is shown (0: none yet), how many there are, whether all are counted, and why the
    search was given up ("" when it was not)."""

    at: int
    hits: int
    complete: bool
    failed: str = ""


class Finding:
    """What is looked for in a set of logs, and where the reader is among the hits."""

    def __init__(self, logs: LogSet) -> None:
        self.logs = logs
        self.wanted: Query | None = None
        self.hit: Hit | None = None
        self.hunt: Hunt | None = None

    def search(self, query: Query | None) -> None:
        """Look for ``query``, or for nothing. Raises ``PatternError``."""
        finders = [query.finder() for _ in self.logs.logs] if query else None
        self.wanted, self.hit, self.hunt = query, None, None
        self.logs.drop(SEARCH)
        if finders is not None:
            self.logs.look_for(SEARCH, finders)

    def begin(
        self, name: str, forward: bool, position: int | None, place: Place | None, *, anywhere: bool = False
    ) -> None:
        """Begin to go to the next hit, or the previous, from the line at ``position``; from the first, or the
        last, where none is selected."""
        if name == ERRORS and ERRORS not in self.logs.sieves:
            self.logs.look_for(ERRORS, [Errors() for _ in self.logs.logs])
        offsets = [0 if forward else log.file.size for log in self.logs.logs]
        if place is not None and position is not None:
            for number, log in enumerate(self.logs.logs):
                if log is place.log:
                    offsets[number] = self._from_line(name, forward, number, place)
                else:
                    offsets[number] = self.logs.lines.after(log, position + forward)
        self.hunt = Hunt(name, forward, tuple(offsets), anywhere)

    def _from_line(self, name: str, forward: bool, number: int, place: Place) -> int:
        if self.hit is not None and self.hit[0] == number and place.start <= self.hit[1] <= place.end:
            return self.hit[1] + forward
        return place.start if name == SEARCH and forward else place.start + forward

    def decide(self) -> tuple[bool, Hit | None]:
        """Whether the hunt has come to its end, and the hit then; None where there is none."""
        hunt = self.hunt
        sieves = self.logs.sieves.get(hunt.name) if hunt else None
        if hunt is None or sieves is None or self._order_unknown():
            return False, None
        found: list[Hit] = []
        for number, (sieve, offset) in enumerate(zip(sieves, hunt.offsets, strict=True)):
            hit = self._shown(number, sieve, offset, hunt.forward)
            enough = sieve.over or (hit is not None if hunt.forward else sieve.scanned >= offset)
            if not enough:
                return False, None
            if hit is not None:
                found.append((number, hit))
        self.hunt = None
        if not found and hunt.anywhere:
            self.hunt = replace(hunt, forward=not hunt.forward, anywhere=False)
            return self.decide()
        if not found:
            return True, None
        choose = min if hunt.forward else max
        self.hit = found[0] if len(found) == 1 else choose(found, key=self._order)
        return True, self.hit

    def _order_unknown(self) -> bool:
        """Whether it is still being found out which lines are shown, and in which order."""
        judging = any(not sieve.over for sieve in self.logs.sieves.get(FILTER, ()))
        return judging or (self.logs.merge is not None and self.logs.merge.left > 0)

    def _order(self, hit: Hit) -> int:
        number, offset = hit
        return self.logs.lines.near(self.logs.logs[number], offset) or 0

    def _shown(self, number: int, sieve: Sieve, offset: int, forward: bool) -> int | None:
        """The next hit, or the previous, in a line that the filter lets through."""
        hit = sieve.next(offset) if forward else sieve.previous(offset)
        if FILTER not in self.logs.sieves:
            return hit
        log, lines = self.logs.logs[number], self.logs.lines
        for _ in range(_TRIES):
            if hit is None:
                return None
            position = lines.near(log, hit)
            place = lines.place(position) if position is not None else None
            if place is not None and place.log is log and place.start <= hit <= place.end:
                return hit
            hit = sieve.next(hit + 1) if forward else sieve.previous(hit)
        return hit

    def count(self) -> Count | None:
        """How the search stands; None where nothing is searched for."""
        sieves = self.logs.sieves.get(SEARCH)
        if sieves is None:
            return None
        at = 0
        if self.hit is not None:
            chosen, offset = self.hit
            position = self._order(self.hit) if self.logs.several else 0
            for number, (log, sieve) in enumerate(zip(self.logs.logs, sieves, strict=True)):
                at += (
                    sieve.before(offset) + 1
                    if number == chosen
                    else sieve.before(self.logs.lines.after(log, position))
                )
        return Count(
            at,
            sum(len(sieve) for sieve in sieves),
            all(sieve.complete for sieve in sieves),
            next((sieve.failed for sieve in sieves if sieve.failed), ""),
        )
