"""The view of a log: any size, any bytes; only the rows on the screen are read and painted.

``LogView`` paints and moves; ``log_pane.LogPane`` puts the status line, the prompt and the detail pane round
it. Text reaches the terminal through ``cockpit.logs`` alone, which sanitises it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import ClassVar, Final

from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget
from textual.worker import Worker, get_current_worker

from cockpit.logs.filters import Filter, Folding, Nothing
from cockpit.logs.lines import Place
from cockpit.logs.log import Log
from cockpit.logs.merge import MergedLines
from cockpit.logs.page import Anchor, Page, Row
from cockpit.logs.search import Finder, Query
from cockpit.logs.times import find_time, year_of
from cockpit.tui.log_find import ERRORS, SEARCH, Count, Finding
from cockpit.tui.log_paint import LOOKS, Label, Painter, gutter_width, looks_of
from cockpit.tui.log_set import FILTER, LogSet

TICK: Final = 0.1
_LABEL: Final = 14
"""The most cells of a log's label before its lines."""
_LOOK_AGAIN: Final = 10
"""Every so many ticks the view looks whether the path still names the file."""


class LogView(Widget, can_focus=True):
    """One log, or several by time. ``following`` keeps the end on the screen."""

    DEFAULT_CSS = """
    LogView {
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
        Binding("e", "error(True)", "Next error"),
        Binding("E", "error(False)", "Previous error", show=False),
        Binding("w", "wrap", "Wrap"),
        Binding("r", "raw", "Raw", show=False),
        Binding("z", "fold", "Fold", show=False),
        Binding("m", "mark", "Mark"),
        Binding("apostrophe", "next_mark", "Next mark", show=False),
    ]

    class Changed(Message):
        """What ``view`` shows, or what is known of it, changed."""

        def __init__(self, view: LogView) -> None:
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
        self._rows: list[Row] = []
        self._strips: list[Strip] = []
        self._looks: dict[str, Style] = {}
        self._worker: Worker[None] | None = None
        self._busy = False
        self._take(logs if isinstance(logs, LogSet) else LogSet([logs]))

    # The logs

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

    @property
    def wanted(self) -> Query | None:
        """What is searched for."""
        return self.finding.wanted

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

    def on_mount(self) -> None:
        """Begin to look for growth."""
        self.set_interval(TICK, self._tick)

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

    def _tick(self) -> None:
        if not self.is_attached or not self.size.height or not self.display:
            return
        self._ticks += 1
        grown = self.logs.refresh()
        if self.logs.began_anew(look=self._ticks % _LOOK_AGAIN == 0):
            self._reopen()
            return
        busy = self._work_on()
        hunted = self._follow_hunt()
        if grown or busy or hunted:
            self._paint()

    def _reopen(self) -> None:
        with suppress(OSError):
            logs = self.logs.reopened()
            self._stop_work()
            self.logs.close()
            self.show_logs(logs, follow=self.following)
            names = ", ".join(logs.labels)
            self.post_message(self.Notice(f"{names} began anew: truncated, replaced, or left by a full disk."))

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
        self.page.width = max(2, self.size.width - self._beside)
        if self.top is not None:
            self.top = self.page.held(self.top)
        self._paint()

    def _paint(self) -> None:
        """Find the rows and draw them, once."""
        height = self.size.height
        if not height:
            return
        self.page.width = max(2, self.size.width - self._beside)
        self._restore_place()
        self._hold_top()
        if self.following or self.top is None:
            self.top = self.page.bottom(height)
            self._seen_size, self._seen_lines = self.logs.size, self.logs.newlines
        self._rows = self.page.rows(self.top, height)
        self._place_cursor()
        if self._rows and self.logs.several:
            self._top_place = Place(self._rows[0].log, self._rows[0].start, self._rows[0].start)
        self._strips = []
        self.refresh()
        self.post_message(self.Changed(self))

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

    def go_to(self, offset: int, log: Log | None = None) -> None:
        """Show the line of ``log`` (the shown one, where none is given) that holds ``offset``, a third down the
        screen, and select it."""
        self._go(self.page.show(log or self.shown, offset))

    def go_to_position(self, position: int) -> None:
        """Show and select the line at ``position`` of the lines shown."""
        place = self.page.lines.place(position)
        self.go_to(place.start, place.log)

    def _go(self, target: Anchor | None) -> None:
        if target is None:
            return
        self.following = False
        self.top, self._top_place = self.page.move(target, -(self.size.height // 3)), None
        self._select = target
        self._hold_bottom()
        self._paint()

    def go_to_line(self, number: int) -> bool:
        """Show line ``number`` of the shown log; False where there is none (yet)."""
        offset = self.shown.index.offset_of(number)
        if offset is not None:
            self.go_to(offset)
        return offset is not None

    def go_to_time(self, time: float) -> None:
        """Show the first line at ``time`` or later; the last, where none is."""
        lines = self.page.lines
        if isinstance(lines, MergedLines):
            last = lines.last()
            if last is not None:
                self.go_to_position(min(lines.merge.since(time), last))
        else:
            log = self.logs.logs[0]
            self.go_to(find_time(log, time, year_of(log)), log)

    def _hold_bottom(self) -> None:
        """Don't scroll past the end."""
        bottom = self.page.bottom(self.size.height)
        if bottom is not None and self.top is not None and self.top > bottom:
            self.top = bottom

    def _scroll(self, rows: int) -> None:
        if self.top is None:
            return
        self.following = False
        self._hold_top()
        self.top, self._top_place = self.page.move(self.top, rows), None
        self._hold_bottom()

    def action_cursor(self, rows: int) -> None:
        """Select the row above or below."""
        self.following = False
        wanted = self.cursor + rows
        if wanted < 0 or wanted >= len(self._rows):
            self._scroll(rows)
        else:
            self.cursor = wanted
        self._paint()

    def action_page(self, direction: int) -> None:
        """A screen up or down."""
        before = self.top
        self._scroll(direction * max(1, self.size.height - 1))
        if self.top == before:
            self.cursor = 0 if direction < 0 else len(self._rows) - 1
        self._paint()

    def action_start(self) -> None:
        """The first line."""
        self.following, self.top, self.cursor = False, self.page.top(), 0
        self._top_place, self.page.left = None, 0
        self._paint()

    def action_end(self) -> None:
        """The last line, and what comes."""
        self.following = True
        self._paint()

    def action_follow(self) -> None:
        """Follow, or stop where the view is."""
        self.following = not self.following
        self._seen_size, self._seen_lines = self.logs.size, self.logs.newlines
        self._paint()

    def action_sideways(self, direction: int) -> None:
        """Half a screen left or right, where lines are not wrapped."""
        if not self.page.wrap:
            self.page.left = max(0, self.page.left + direction * max(1, self.page.width // 2))
            self._paint()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Three rows down."""
        event.stop()
        self._scroll(3)
        self._paint()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Three rows up."""
        event.stop()
        self._scroll(-3)
        self._paint()

    def on_click(self, event: events.Click) -> None:
        """Select a row."""
        if 0 <= event.y < len(self._rows):
            self.following, self.cursor = False, event.y
            self._paint()

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

    # Finding

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
        named = [bool(host) and label.casefold().startswith(host) for label in self.logs.labels]
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

    def set_query(self, query: Query | None, *, forward: bool = True, jump: bool = True) -> None:
        """Search for ``query``: hits are counted and marked, and the next one is gone to. Raises
        ``PatternError``."""
        self.finding.search(query)
        self.page.highlight(query)
        self._stop_work()
        if query and jump:
            self._hunt_for(SEARCH, forward)
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

    def _hunt_for(self, name: str, forward: bool) -> None:
        position = self._rows[self._selected].anchor.position if self._rows else None
        self.finding.begin(name, forward, position, self.current)
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
            way = "further down" if hunt.forward else "further up"
            what = "error" if hunt.name == ERRORS else "hit"
            self.post_message(self.Notice(f"No {what} {way}."))
        else:
            number, offset = hit
            self.go_to(offset, self.logs.logs[number])
        return True

    def found_so_far(self) -> Count | None:
        """How the search stands; None where nothing is searched for."""
        return self.finding.count()
