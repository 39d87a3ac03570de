"""The view of a log: any size, any bytes; searched, filtered, folded, marked.

``log_pane.LogPane`` puts the status line, the prompt and the detail pane round it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import ClassVar

from textual.binding import Binding, BindingType

from cockpit.logs.filters import Filter, Folding, Nothing
from cockpit.logs.log import Log
from cockpit.logs.search import Finder, Query
from cockpit.tui.log_find import ERRORS, SEARCH, Count
from cockpit.tui.log_moving import MovingLog
from cockpit.tui.log_set import LogSet


class LogView(MovingLog):
    """One log, or several by time, with all its keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "cursor(-1)", "Up", show=False),
        Binding("down,j", "cursor(1)", "Down", show=False),
        Binding("pageup,b", "page(-1)", "Page up", show=False),
        Binding("pagedown,space", "page(1)", "Page down", show=False),
        Binding("home,g", "start", "Start", show=False),
        Binding("end,G", "end", "End", show=False),
        Binding("left,h", "sideways(-1)", "Left", show=False),
        Binding("right,l", "sideways(1)", "Right", show=False),
        Binding("F,p", "follow", "Follow"),
        Binding("n", "hit(True)", "Next hit", show=False),
        Binding("N", "hit(False)", "Previous hit", show=False),
        Binding("e", "error(True)", "Error"),
        Binding("E", "error(False)", "Previous error", show=False),
        Binding("w", "wrap", "Wrap"),
        Binding("r", "raw", "Raw", show=False),
        Binding("z", "fold", "Fold", show=False),
        Binding("m", "mark", "Mark", show=False),
        Binding("apostrophe", "next_mark", "Next mark", show=False),
    ]

    # The logs

    def show_log(self, log: Log, *, follow: bool = True) -> None:
        """Show another log, at its end; the query and the filter stay."""
        self.show_logs(LogSet([log]), follow=follow)

    def show_logs(self, logs: LogSet, *, follow: bool = True) -> None:
        """Show other logs, at their end; the query and the filter stay."""
        query, wanted = self.wanted, self.filter
        self._stop_work()
        wrap, raw = self.page.wrap, self.page.raw
        self._take(logs)
        self.page.wrap, self.page.raw = wrap, raw
        self.marks = set()
        self.following, self.folded = follow, False
        self.top, self._top_place, self.cursor, self.filter = None, None, 0, None
        self._lay_out()
        if query:
            self.set_query(query, jump=False)
        self.set_filter(wanted)

    def _reopen(self) -> None:
        with suppress(OSError):
            logs = self.logs.reopened()
            self._stop_work()
            self.logs.close()
            self.show_logs(logs, follow=self.following)
            names = ", ".join(logs.labels)
            self.post_message(self.Notice(f"{names} began anew: truncated, replaced, or left by a full disk."))

    # How it is shown

    def action_wrap(self) -> None:
        """Wrap long lines, or scroll sideways."""
        place = self.current
        self.page.wrap, self.page.left = not self.page.wrap, 0
        if place is not None and not self.following:
            self.go_to(place.start, place.log)
        else:
            self._lay_out()

    def action_raw(self) -> None:
        """Show carriage returns, or the last state of progress bars."""
        self.page.raw = not self.page.raw
        self._lay_out()

    def action_fold(self) -> None:
        """Fold equal lines that follow each other into one with a count, or unfold them."""
        if not self.folded:
            self.set_filter(None)
        self.folded = not self.folded
        self._sift([Folding() for _ in self.logs.logs] if self.folded else None)

    def action_mark(self) -> None:
        """Mark the line, or take its mark away."""
        if (place := self.current) is not None:
            self.marks ^= {self._key(place.log, place.start)}
            self._paint()

    def action_next_mark(self) -> None:
        """The next mark below, from the top again after the last."""
        place = self.current
        if place is None or not self.marks:
            self.post_message(self.Notice("No line is marked: m marks one."))
            return
        marks = sorted(self.marks, key=self._order)
        here = self._order(self._key(place.log, place.start))
        number, start = next((mark for mark in marks if self._order(mark) > here), marks[0])
        self.go_to(start, self.logs.logs[number])

    def _order(self, mark: tuple[int, int]) -> int:
        number, start = mark
        position = self.page.lines.near(self.logs.logs[number], start) if self.logs.several else start
        return position or 0

    # Filters

    def set_filter(self, wanted: Filter | None) -> None:
        """Show the lines that ``wanted`` lets through, or all. Raises ``PatternError``."""
        if wanted is not None and wanted.empty:
            wanted = None
        if wanted is None and self.filter is None:
            return
        finders = self._filters(wanted) if wanted else None
        self.filter, self.folded = wanted, False
        self._sift(finders)

    def _filters(self, wanted: Filter) -> Sequence[Finder]:
        """One for each log; an address that is a log's label means the lines of that log."""
        host = wanted.address.casefold()
        named = [bool(host) and _begins_with(label.casefold(), host) for label in self.logs.labels]
        if not self.logs.several or not any(named):
            return [wanted.finder() for _ in self.logs.logs]
        rest = replace(wanted, address="")
        return [rest.finder() if chosen else Nothing() for chosen in named]

    def _sift(self, finders: Sequence[Finder] | None) -> None:
        place = self.current
        self._stop_work()
        self.logs.sift(finders)
        self.page.lines = self.logs.lines
        self._return_to = (place.log, place.start) if place is not None and not self.following else None
        self.top, self._top_place = None, None
        self._work_on()
        self._paint()

    # Search and errors

    @property
    def wanted(self) -> Query | None:
        """What is searched for."""
        return self.finding.wanted

    def set_query(self, query: Query | None, *, forward: bool = True, jump: bool = True) -> None:
        """Search for ``query``: hits are counted and marked, and the next one is gone to; the last before, where
        none follows or the end is followed. Raises ``PatternError``."""
        self.finding.search(query)
        self.page.highlight(query)
        self._stop_work()
        if query and jump:
            self._hunt_for(SEARCH, forward and not self.following, anywhere=True)
        self._paint()

    def action_hit(self, forward: bool) -> None:
        """The next or previous hit of the search."""
        if self.wanted is None:
            self.post_message(self.Notice("Nothing is searched for: / begins a search."))
        else:
            self._hunt_for(SEARCH, forward)

    def action_error(self, forward: bool) -> None:
        """The next or previous error."""
        self._hunt_for(ERRORS, forward)

    def _hunt_for(self, name: str, forward: bool, *, anywhere: bool = False) -> None:
        chosen = bool(self._rows) and (forward or not self.following)
        position = self._rows[self._selected].anchor.position if chosen else None
        self.finding.begin(name, forward, position, self.current if chosen else None, anywhere=anywhere)
        self._work_on()
        if self._follow_hunt():
            self._paint()

    def _follow_hunt(self) -> bool:
        """Jump when the sieves have come far enough; whether anything was decided."""
        hunt = self.finding.hunt
        decided, hit = self.finding.decide()
        if hunt is None or not decided:
            return False
        if hit is None:
            way = "" if hunt.anywhere else (" further down" if hunt.forward else " further up")
            what = "error" if hunt.name == ERRORS else "hit"
            self.post_message(self.Notice(f"No {what}{way}."))
        else:
            number, offset = hit
            self.go_to(offset, self.logs.logs[number])
        return True

    def found_so_far(self) -> Count | None:
        """How the search stands; None where nothing is searched for."""
        return self.finding.count()


def _begins_with(label: str, name: str) -> bool:
    """Whether ``label`` is ``name``, or goes on after it with what is no part of a name: spark-1 is not spark-10."""
    return label.startswith(name) and not label[len(name) : len(name) + 1].isalnum()
