"""A log on the screen: what stands in the viewport, painted, and the work behind it kept going.

Only the rows on the screen are read and painted. Text reaches the terminal through ``cockpit.logs`` alone, which
sanitises it. ``log_view.LogView`` is the whole view, with its keys.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Final

from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget
from textual.worker import Worker, get_current_worker

from cockpit.logs.filters import Filter
from cockpit.logs.lines import Place
from cockpit.logs.log import Log
from cockpit.logs.page import Anchor, Page, Row
from cockpit.tui.log_find import Finding
from cockpit.tui.log_paint import LOOKS, Label, Painter, gutter_width, looks_of
from cockpit.tui.log_set import FILTER, LogSet

TICK: Final = 0.1
_LABEL: Final = 14
"""The most cells of a log's label before its lines."""
_LOOK_AGAIN: Final = 10
"""Every so many ticks the view looks whether the path still names the file."""


class LogWidget(Widget, can_focus=True):
    """One log, or several by time. ``following`` keeps the end on the screen."""

    DEFAULT_CSS = """
    LogWidget {
        background: $background;
        color: $foreground;
        height: 1fr;
        & > .log--gutter { color: $foreground 45%; }
        & > .log--marked { color: $warning; text-style: bold; }
        & > .log--hit { background: $warning; color: $background; }
        & > .log--cursor { background: $surface-lighten-1; }
        & > .log--error { color: $text-error; text-style: bold; }
        & > .log--warning { color: $text-warning; }
        & > .log--prefix { color: $foreground 55%; }
        & > .log--gap { color: $warning; text-style: italic; }
        & > .log--label-0 { color: $text-primary; }
        & > .log--label-1 { color: $text-accent; }
        & > .log--label-2 { color: $text-success; }
        & > .log--label-3 { color: $text-secondary; }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"log--{look}" for look in LOOKS}

    class Changed(Message):
        """What ``view`` shows, or what is known of it, changed."""

        def __init__(self, view: LogWidget) -> None:
            super().__init__()
            self.view = view

    class Notice(Message):
        """Something to tell the user in one line."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, logs: Log | LogSet, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self.following = True
        self.filter: Filter | None = None
        self.folded = False
        self.marks: set[tuple[int, int]] = set()
        """Marked lines: which log of the set, and where the line begins in it."""
        self.cursor = 0
        self.top: Anchor | None = None
        self._top_place: Place | None = None
        self._return_to: tuple[Log, int] | None = None
        self._select: Anchor | None = None
        self._ticks = 0
        self._rushing = self._due = False
        """Whether more came than the screen holds: then every other tick is left out, and a paint may be due."""
        self._painted = Size()
        """The size that was painted last."""
        self._rows: list[Row] = []
        self._strips: list[Strip] = []
        self._looks: dict[str, Style] = {}
        self._worker: Worker[None] | None = None
        self._busy = False
        self._take(logs if isinstance(logs, LogSet) else LogSet([logs]))

    def _take(self, logs: LogSet) -> None:
        self.logs = logs
        self.finding = Finding(logs)
        self._seen_size, self._seen_lines = logs.size, 0
        self.page = Page(logs.lines, 80)
        widest = max(len(label) for label in logs.labels) if logs.several else 0
        self._label_width = min(_LABEL, widest)
        self._labels = {
            id(log): Label(label, f"label-{number % 4}", self._label_width)
            for number, (log, label) in enumerate(zip(logs.logs, logs.labels, strict=True))
            if logs.several
        }

    @property
    def shown(self) -> Log:
        """The log of the selected line; the only one there is, mostly."""
        place = self.current if self.logs.several else None
        return place.log if place is not None else self.logs.logs[0]

    def on_mount(self) -> None:
        """Begin to look for growth."""
        self.set_interval(TICK, self._tick)
        self.call_after_refresh(self._tick)

    def on_unmount(self) -> None:
        """Nothing goes on without the view."""
        self._stop_work()

    def on_resize(self, event: events.Resize) -> None:
        """Keep the place at another width."""
        self._lay_out()

    def notify_style_update(self) -> None:
        """Another theme, or the focus: styles are computed again."""
        super().notify_style_update()
        self._looks = {}
        self._strips = []

    # The work

    def _tick(self) -> None:
        if not self.is_attached or not self.size.height or not self.display:
            return
        if self.size != self._painted:
            # Textual sends no Resize where someone asked for a region before the layout was done.
            self._lay_out()
        self._ticks += 1
        grown = self.logs.refresh()
        if self.logs.began_anew(look=self._ticks % _LOOK_AGAIN == 0):
            self._reopen()
            return
        busy = self._work_on()
        hunted = self._follow_hunt()
        if self._rushing and not hunted:
            self._rushing = False
            self._due |= grown or busy
        elif grown or busy or hunted or self._due:
            self._paint()

    def _reopen(self) -> None:
        """A file began anew: show it as it is now."""
        raise NotImplementedError

    def _follow_hunt(self) -> bool:
        """Jump to what is looked for, once it is found; whether anything was decided."""
        raise NotImplementedError

    def _work_on(self) -> bool:
        """Keep the worker thread busy; whether there is, or just was, something to do."""
        before, caught_up = self._busy, False
        self._busy = self._worker is not None and not self._worker.is_finished
        if not self._busy:
            caught_up = self.logs.catch_up()
        if not self._busy and not caught_up and self.logs.left:
            self._busy = True
            self._worker = self.run_worker(
                self._work, thread=True, exclusive=True, group=f"log-{id(self)}", exit_on_error=False
            )
        return before or self._busy or caught_up

    def _work(self) -> None:
        worker = get_current_worker()
        self.logs.run(lambda: worker.is_cancelled)

    def _stop_work(self) -> None:
        """Cancel the work; the thread that is at it stops after its slice."""
        if self._worker is not None:
            self._worker.cancel()
            self._worker = None

    # Painting

    @property
    def digits(self) -> int:
        """How many digits the line numbers have."""
        return max(5, len(str(max(log.index.lines for log in self.logs.logs))))

    @property
    def _beside(self) -> int:
        """The cells beside a line's text."""
        return gutter_width(self.digits, self._label_width)

    def _lay_out(self) -> None:
        """Another size, or another way of showing: the selected line stays on the screen."""
        self.page.width = max(2, self.size.width - self._beside)
        if self.top is not None and self.size.height:
            self.top = self.page.held(self.top)
            if self._rows and not self.following:
                self._keep_selected(self.page.held(self._rows[self._selected].anchor))
        self._paint()

    def _keep_selected(self, selected: Anchor) -> None:
        self._select = selected
        rows = self.page.rows(self.top, self.size.height)
        if rows and not rows[0].anchor <= selected <= rows[-1].anchor:
            self.top, self._top_place = self.page.move(selected, -(self.size.height // 3)), None

    def _paint(self) -> None:
        """Find the rows and draw them, once."""
        height = self.size.height
        if not height:
            return
        self._painted = self.size
        self.page.width = max(2, self.size.width - self._beside)
        self._restore_place()
        self._hold_top()
        if self.following or self.top is None:
            self.top = self.page.bottom(height)
            self._seen_size, self._seen_lines = self.logs.size, self.logs.newlines
        last = self._rows[-1].anchor if self._rows else None
        self._rows = self.page.rows(self.top, height)
        self._due = False
        self._rushing = self.following and last is not None and self.top is not None and self.top > last
        self._place_cursor()
        if self._rows and self.logs.several:
            self._top_place = Place(self._rows[0].log, self._rows[0].start, self._rows[0].start)
        self._strips = []
        self.refresh()
        self.post_message(self.Changed(self))

    def _restore_place(self) -> None:
        """After a change of lines: go back to where the reader was, as soon as that has been judged."""
        if self._return_to is None:
            return
        log, offset = self._return_to
        sieves = self.logs.sieves.get(FILTER)
        sieve = sieves[self.logs.logs.index(log)] if sieves else None
        judged = sieve is None or sieve.scanned > offset or sieve.over
        if not judged or (self.logs.merge is not None and self.logs.merge.left):
            self.top = None
            return
        self._return_to = None
        target = self.page.show(log, offset)
        self.top = self.page.move(target, -(self.size.height // 3)) if target else None
        self._select = target
        self._hold_bottom()

    def _hold_top(self) -> None:
        """A line that came late to the merged order moves those after it: stay with the one at the top."""
        before = self._top_place
        if before is None or self.top is None or self.following:
            return
        now = self.page.lines.place(self.top.position)
        if (now.log, now.start) != (before.log, before.start):
            position = self.page.lines.near(before.log, before.start)
            if position is not None:
                self.top = replace(self.top, position=position)

    def _hold_bottom(self) -> None:
        """Don't scroll past the end."""
        bottom = self.page.bottom(self.size.height)
        if bottom is not None and self.top is not None and self.top > bottom:
            self.top = bottom

    def _place_cursor(self) -> None:
        """Select the row that was gone to, or keep to the screen."""
        target, self._select = self._select, None
        last = len(self._rows) - 1
        if target is not None:
            self.cursor = next((at for at, row in enumerate(self._rows) if row.anchor == target), self.cursor)
        self.cursor = last if self.following else max(0, min(self.cursor, last))

    def _styles(self) -> dict[str, Style]:
        if not self._looks:
            styles = {look: self.get_component_rich_style(f"log--{look}") for look in LOOKS}
            self._looks = looks_of(self.rich_style, styles)
        return self._looks

    def _draw(self) -> list[Strip]:
        painter = Painter(self._styles(), self.size.width, self.digits)
        strips: list[Strip] = []
        for at, row in enumerate(self._rows):
            number = row.log.index.number_at(row.start) if row.head else None
            count = self._count(row, number) if self.folded and row.head else 0
            selected = at == self.cursor and not self.following
            marked = bool(self.marks) and self._key(row.log, row.start) in self.marks
            label = self._labels.get(id(row.log))
            strips.append(
                painter.strip(row, number=number, marked=marked, selected=selected, count=count, label=label)
            )
        return strips

    def _count(self, row: Row, number: int | None) -> int:
        """How many lines a folded row stands for."""
        index = row.log.index
        sieve = self.logs.sieves[FILTER][self.logs.logs.index(row.log)]
        following = sieve.next(row.start + 1)
        after = index.number_at(following) if following is not None else index.lines + 1
        return after - number if number is not None and after is not None else 0

    def render_line(self, y: int) -> Strip:
        """One row of the screen."""
        if not self._strips:
            self._strips = self._draw()
        if y < len(self._strips):
            return self._strips[y]
        return Strip.blank(self.size.width, self._styles()["base"])

    # Where the reader is

    @property
    def current(self) -> Place | None:
        """The selected line."""
        if not self._rows:
            return None
        row = self._rows[self._selected]
        return Place(row.log, row.start, row.log.index.end_of_line(row.start))

    @property
    def _selected(self) -> int:
        """Which row is selected."""
        return max(0, min(self.cursor, len(self._rows) - 1))

    @property
    def new_bytes(self) -> int:
        """How many bytes came since the end was last on the screen."""
        return 0 if self.following else max(0, self.logs.size - self._seen_size)

    @property
    def new_lines(self) -> int | None:
        """How many lines came since; None while they are not counted."""
        if self.following:
            return 0
        counted = self.logs.complete and self._seen_lines > 0
        return max(0, self.logs.newlines - self._seen_lines) if counted else None

    def _key(self, log: Log, start: int) -> tuple[int, int]:
        """A line as it is marked."""
        return self.logs.logs.index(log), start
