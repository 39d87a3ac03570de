"""Several logs to read: one at a time, all by time as one, or side by side."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Final

from rich.segment import Segment
from rich.style import Style
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from cockpit.logs.layout import cells_of
from cockpit.logs.log import Log
from cockpit.logs.sanitise import steady
from cockpit.logs.times import time_at, time_near, year_of
from cockpit.tui.log_pane import LogPane
from cockpit.tui.log_set import LogSet
from cockpit.tui.log_view import LogView
from cockpit.tui.log_widget import LogWidget

MOST_BESIDE: Final = 4
NARROWEST: Final = 60
"""Below so many cells for each, logs stand one above the other instead of side by side."""
ONE, MERGED, BESIDE = "one", "merged", "beside"


class NamesLine(Widget):
    """One line with the names of the logs, and how they are shown. A click chooses."""

    DEFAULT_CSS = """
    NamesLine {
        height: 1; background: $surface; color: $foreground 60%;
        & > .names--chosen { background: $primary; color: $background; text-style: bold; }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"names--chosen"}

    class Chosen(Message):
        """The log of this number was clicked at."""

        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[tuple[str, bool]] = []
        self._modes: list[tuple[str, bool]] = []

    def tell(self, names: Sequence[str], chosen: Sequence[int], mode: str) -> None:
        """Show ``names``, those that are ``chosen`` in another look."""
        self._parts = [
            (f" {number} {steady(name)} ", number - 1 in chosen) for number, name in enumerate(names, 1)
        ]
        self._modes = [
            ("  [ ] turn", False),
            ("  M by time", mode == MERGED),
            ("  | side by side ", mode == BESIDE),
        ]
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """The names, and at the right the keys. Where the names are too many, they are cut off at the left up
        to the last chosen, and the keys are left out."""
        style, chosen = self.rich_style, self.get_component_rich_style("names--chosen")
        names = Strip([Segment(text, chosen if on_it else style) for text, on_it in self._parts])
        keys = Strip([Segment(text, style + Style(bold=on_it)) for text, on_it in self._modes])
        room = self.size.width - names.cell_length
        if room >= keys.cell_length:
            return Strip.join([names.adjust_cell_length(self.size.width - keys.cell_length, style), keys])
        reach = 0
        for at, (_, on_it) in enumerate(self._parts):
            if on_it:
                reach = sum(cells_of(text) for text, _ in self._parts[: at + 1])
        left = max(0, reach - self.size.width)
        return names.crop(left, left + self.size.width).adjust_cell_length(self.size.width, style)

    def on_click(self, event: events.Click) -> None:
        """Choose a log."""
        cell = 0
        for number, (text, _) in enumerate(self._parts):
            cell += cells_of(text)
            if event.x < cell:
                self.post_message(self.Chosen(number))
                return


class LogDesk(Vertical):
    """``logs`` to read. They are opened anew for the merged view: each view does its own work on them."""

    DEFAULT_CSS = """
    LogDesk {
        & > Container { height: 1fr; layout: horizontal; }
        & > Container > LogPane { width: 1fr; height: 1fr; }
        &.-stacked > Container { layout: vertical; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left_square_bracket", "turn(-1)", "Previous log", show=False),
        Binding("right_square_bracket", "turn(1)", "Next log", show=False),
        Binding("M", "merge", "By time", show=False),
        Binding("vertical_line", "beside", "Side by side", show=False),
    ]

    def __init__(self, logs: Sequence[Log]) -> None:
        super().__init__()
        self.logs = tuple(logs)
        self.mode = ONE
        self.active = 0
        self._panes: dict[int, LogPane] = {}
        self._merged: LogPane | None = None
        self._merged_logs: LogSet | None = None
        self._went_to: tuple[int, int] | None = None

    def compose(self) -> ComposeResult:
        """The names, and the panes as they come to be looked at."""
        yield NamesLine()
        yield Container()

    async def on_mount(self) -> None:
        """Show the first log."""
        await self._show()

    def on_unmount(self) -> None:
        """The merged view's own files are closed."""
        if self._merged_logs is not None:
            with suppress(OSError):
                self._merged_logs.close()

    @property
    def pane(self) -> LogPane | None:
        """The pane that has the keys, or had them last."""
        return self._merged if self.mode == MERGED else self._panes.get(self.active)

    def _wanted(self) -> list[int]:
        """The numbers of the logs that are shown."""
        if self.mode == BESIDE:
            first = max(0, min(self.active, len(self.logs) - MOST_BESIDE))
            return list(range(len(self.logs)))[first : first + MOST_BESIDE]
        return [self.active]

    async def _show(self) -> None:
        wanted = self._wanted() if self.mode != MERGED else []
        box = self.query_one(Container)
        for number in wanted:
            if number not in self._panes:
                self._panes[number] = pane = LogPane(self.logs[number])
                later = min((other for other in self._panes if other > number), default=None)
                await box.mount(pane, before=self._panes[later] if later is not None else None)
        if self.mode == MERGED and self._merged is None:
            self._merged_logs = LogSet(*_opened_again(self.logs))
            self._merged = LogPane(self._merged_logs)
            await box.mount(self._merged)
        for number, pane in self._panes.items():
            pane.display = number in wanted
        if self._merged is not None:
            self._merged.display = self.mode == MERGED
        self._arrange()
        chosen = range(len(self.logs)) if self.mode == MERGED else [self.active]
        self.query_one(NamesLine).tell([log.name for log in self.logs], list(chosen), self.mode)
        if (pane_now := self.pane) is not None:
            pane_now.view.focus()

    def _arrange(self) -> None:
        self.set_class(self.mode == BESIDE and self.size.width < NARROWEST * len(self._wanted()), "-stacked")

    def on_resize(self, event: events.Resize) -> None:
        """Side by side needs room."""
        self._arrange()

    async def action_turn(self, step: int) -> None:
        """The next log, or the one before."""
        if self.mode == MERGED:
            self.mode = ONE
        else:
            self.active = (self.active + step) % len(self.logs)
        await self._show()

    @on(NamesLine.Chosen)
    async def _chosen(self, event: NamesLine.Chosen) -> None:
        if event.number < len(self.logs):
            self.active = event.number
            self.mode = ONE if self.mode == MERGED else self.mode
            await self._show()

    async def action_merge(self) -> None:
        """All logs as one, by time, or back to one."""
        if len(self.logs) > 1:
            self.mode = ONE if self.mode == MERGED else MERGED
            await self._show()

    async def action_beside(self) -> None:
        """Side by side, or back to one."""
        if len(self.logs) > 1:
            self.mode = ONE if self.mode == BESIDE else BESIDE
            await self._show()

    # Side by side

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """The pane that is clicked at has the keys."""
        for number, pane in self._panes.items():
            if event.widget in pane.walk_children() and number != self.active:
                self.active = number
                self.query_one(NamesLine).tell([log.name for log in self.logs], [number], self.mode)

    @on(LogWidget.Changed)
    def _moved(self, event: LogWidget.Changed) -> None:
        """Where the reader goes to another time, the logs beside go too."""
        view = event.view
        if self.mode != BESIDE or not view.has_focus:
            return
        others = [pane.view for pane in self._panes.values() if pane.display and pane.view is not view]
        place = view.current
        if view.following or place is None:
            for other in others:
                if view.following and not other.following:
                    other.action_end()
            self._went_to = None
            return
        if self._went_to != (self.active, place.start):
            self._went_to = (self.active, place.start)
            time = time_near(place.log, place.start, year_of(place.log))
            for other in others:
                _go(other, time)


def _go(view: LogView, time: float | None) -> None:
    """Go to ``time``, where the log tells times at all."""
    log = view.shown
    if time is not None and time_at(log, 0, year_of(log)) is not None:
        view.go_to_time(time)


def _opened_again(logs: Sequence[Log]) -> tuple[list[Log], list[str]]:
    """The same files once more, and short names for them."""
    return [log.reopen() for log in logs], short_names([log.name for log in logs])


def short_names(names: Sequence[str]) -> list[str]:
    """Names without what all end with: ``a/serve.log`` and ``b/serve.log`` become ``a`` and ``b``."""
    parts = [Path(name).parts for name in names]
    while all(len(each) > 1 for each in parts) and len({each[-1] for each in parts}) == 1:
        parts = [each[:-1] for each in parts]
    while all(len(each) > 1 for each in parts) and len({each[0] for each in parts}) == 1:
        parts = [each[1:] for each in parts]
    return [str(Path(*each)) for each in parts]
