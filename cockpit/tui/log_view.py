"""The view of a log: any size, any bytes; only the rows on the screen are read and painted.

``LogView`` paints and moves; ``log_pane.LogPane`` puts the status line, the prompt and the detail pane round
it. Text reaches the terminal through ``cockpit.logs`` alone, which sanitises it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar, Final

from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget
from textual.worker import Worker, get_current_worker

from cockpit.logs.filters import Errors, Filter, Folding
from cockpit.logs.lines import FileLines, Place, SievedLines
from cockpit.logs.log import Log
from cockpit.logs.page import Anchor, Page, Row
from cockpit.logs.search import Query
from cockpit.logs.sieve import Sieve
from cockpit.tui.log_paint import LOOKS, Painter, gutter_width, looks_of
from cockpit.tui.log_work import LogWork

TICK: Final = 0.1
_LOOK_AGAIN: Final = 10
"""Every so many ticks the view looks whether the path still names the file."""


@dataclass(frozen=True, slots=True)
class Hunt:
    """A jump that waits for its sieve: to the next hit (or the previous) from ``offset``."""

    sieve: str
    forward: bool
    offset: int


class LogView(Widget, can_focus=True):
    """One log. ``follow`` keeps its end on the screen."""

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
        """What the view shows, or what is known of it, changed."""

    class Notice(Message):
        """Something to tell the user in one line."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, log: Log, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self.following = True
        self.wanted: Query | None = None
        self.filter: Filter | None = None
        self.folded = False
        self.marks: set[int] = set()
        self.cursor = 0
        self.top: Anchor | None = None
        self._hit: int | None = None
        self._hunt: Hunt | None = None
        self._return_to: int | None = None
        self._select: Anchor | None = None
        self._ticks = 0
        self._rows: list[Row] = []
        self._strips: list[Strip] = []
        self._looks: dict[str, Style] = {}
        self._worker: Worker[None] | None = None
        self._busy = False
        self._take(log)

    # The log

    def _take(self, log: Log) -> None:
        self.shown = log
        self._seen_size = log.file.size
        self.work = LogWork(log)
        self.page = Page(FileLines(log), 80)

    def show_log(self, log: Log, *, follow: bool = True) -> None:
        """Show another log, at its end; the query and the filter stay."""
        query, wanted = self.wanted, self.filter
        self._stop_work()
        wrap, raw = self.page.wrap, self.page.raw
        self._take(log)
        self.page.wrap, self.page.raw = wrap, raw
        self.marks = set()
        self.following, self.folded = follow, False
        self.top, self._hit, self._hunt, self.cursor = None, None, None, 0
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
        grown = self.shown.refresh()
        if self.shown.stale or (self._ticks % _LOOK_AGAIN == 0 and self.shown.file.moved()):
            self._reopen()
            return
        busy = self._work_on()
        hunted = self._follow_hunt()
        if grown or busy or hunted:
            self._paint()

    def _reopen(self) -> None:
        with suppress(OSError):
            log = self.shown.reopen()
            self._stop_work()
            self.shown.close()
            self.show_log(log, follow=self.following)
            self.post_message(self.Notice(f"{log.name} began anew: the file was truncated or replaced."))

    def _work_on(self) -> bool:
        """Keep the worker thread busy; whether there is, or just was, something to do."""
        before, caught_up = self._busy, False
        self._busy = self._worker is not None and not self._worker.is_finished
        if not self._busy and self.work.little():
            caught_up = self.shown.index.extend()
        elif not self._busy and self.work.left:
            self._busy = True
            self._worker = self.run_worker(
                self._work, thread=True, exclusive=True, group=f"log-{id(self)}", exit_on_error=False
            )
        return before or self._busy or caught_up

    def _work(self) -> None:
        worker = get_current_worker()
        self.work.run(lambda: worker.is_cancelled)

    def _stop_work(self) -> None:
        if self._worker is not None:
            self._worker.cancel()
            self._worker = None

    def _drop_sieve(self, name: str) -> None:
        """Forget a sieve; the thread that may be at it stops after its slice."""
        if self.work.sieves.pop(name, None) is not None:
            self._stop_work()

    # Painting

    @property
    def digits(self) -> int:
        """How many digits the line numbers have."""
        return max(5, len(str(self.shown.index.lines)))

    def _lay_out(self) -> None:
        self.page.width = max(2, self.size.width - gutter_width(self.digits))
        if self.top is not None:
            self.top = self.page.held(self.top)
        self._paint()

    def _paint(self) -> None:
        """Find the rows and draw them, once."""
        height = self.size.height
        if not height:
            return
        self.page.width = max(2, self.size.width - gutter_width(self.digits))
        self._restore_place()
        if self.following or self.top is None:
            self.top = self.page.bottom(height)
            self._seen_size = self.shown.file.size
        self._rows = self.page.rows(self.top, height)
        self._place_cursor()
        self._strips = []
        self.refresh()
        self.post_message(self.Changed())

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
            strips.append(
                painter.strip(
                    row, number=number, marked=row.start in self.marks, selected=selected, count=count
                )
            )
        return strips

    def _count(self, row: Row, number: int | None) -> int:
        """How many lines a folded row stands for."""
        following = self.page.lines.next(row.anchor.position)
        after = self.shown.index.number_at(following) if following is not None else self.shown.index.lines + 1
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
        return self.page.lines.place(self._rows[max(0, min(self.cursor, len(self._rows) - 1))].anchor.position)

    @property
    def new_bytes(self) -> int:
        """How many bytes came since the end was last on the screen."""
        return 0 if self.following else max(0, self.shown.file.size - self._seen_size)

    @property
    def new_lines(self) -> int | None:
        """How many lines came since; None while they are not counted."""
        index = self.shown.index
        if self.following:
            return 0
        before = index.number_at(self._seen_size)
        return index.newlines + 1 - before if before is not None and index.complete else None

    def go_to(self, offset: int) -> None:
        """Show the line that holds ``offset``, a third down the screen, and select it."""
        target = self.page.show(self.shown, offset)
        if target is None:
            return
        self.following = False
        self.top = self.page.move(target, -(self.size.height // 3))
        self._select = target
        self._hold_bottom()
        self._paint()

    def go_to_line(self, number: int) -> bool:
        """Show line ``number``; False where there is none (yet)."""
        offset = self.shown.index.offset_of(number)
        if offset is not None:
            self.go_to(offset)
        return offset is not None

    def _hold_bottom(self) -> None:
        """Don't scroll past the end."""
        bottom = self.page.bottom(self.size.height)
        if bottom is not None and self.top is not None and self.top > bottom:
            self.top = bottom

    def _scroll(self, rows: int) -> None:
        if self.top is None:
            return
        self.following = False
        self.top = self.page.move(self.top, rows)
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
        self.page.left = 0
        self._paint()

    def action_end(self) -> None:
        """The last line, and what comes."""
        self.following = True
        self._paint()

    def action_follow(self) -> None:
        """Follow, or stop where the view is."""
        self.following = not self.following
        self._seen_size = self.shown.file.size
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
            self.go_to(place.start)
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
        self._sift("filter", Sieve(self.shown.file, Folding()) if self.folded else None)

    def action_mark(self) -> None:
        """Mark the line, or take its mark away."""
        if (place := self.current) is not None:
            self.marks ^= {place.start}
            self._paint()

    def action_next_mark(self) -> None:
        """The next mark below, from the top again after the last."""
        place = self.current
        if place is None or not self.marks:
            self.post_message(self.Notice("No line is marked: m marks one."))
            return
        self.go_to(min((at for at in self.marks if at > place.start), default=min(self.marks)))

    # Finding

    def set_filter(self, wanted: Filter | None) -> None:
        """Show the lines that ``wanted`` lets through, or all. Raises ``PatternError``."""
        if wanted is not None and wanted.empty:
            wanted = None
        finder = wanted.finder() if wanted else None
        if wanted is None and self.filter is None:
            return
        self.filter, self.folded = wanted, False
        self._sift("filter", Sieve(self.shown.file, finder) if finder else None)

    def _sift(self, name: str, sieve: Sieve | None) -> None:
        place = self.current
        self._drop_sieve(name)
        if sieve is None:
            self.page.lines = FileLines(self.shown)
        else:
            self.work.sieves[name] = sieve
            self.page.lines = SievedLines(self.shown, sieve)
        self._return_to = place.start if place is not None and not self.following else None
        self.top = None
        self._work_on()
        self._paint()

    def _restore_place(self) -> None:
        """After a change of lines: go back to where the reader was, as soon as that has been judged."""
        if self._return_to is None:
            return
        sieve = self.work.sieves.get("filter")
        if sieve is not None and sieve.scanned <= self._return_to and not sieve.complete:
            self.top = None
            return
        offset, self._return_to = self._return_to, None
        target = self.page.show(self.shown, offset)
        self.top = self.page.move(target, -(self.size.height // 3)) if target else None
        self._select = target
        self._hold_bottom()

    def set_query(self, query: Query | None, *, forward: bool = True, jump: bool = True) -> None:
        """Search for ``query``: hits are counted and marked, and the next one is gone to. Raises
        ``PatternError``."""
        finder = query.finder() if query else None
        self.page.highlight(query)
        self.wanted, self._hit, self._hunt = query, None, None
        self._drop_sieve("search")
        if finder is not None:
            self.work.sieves["search"] = Sieve(self.shown.file, finder)
            if jump:
                self._hunt_for("search", forward)
        self._paint()

    def action_hit(self, forward: bool) -> None:
        """The next or previous hit of the search."""
        if self.wanted is None:
            self.post_message(self.Notice("Nothing is searched for: / begins a search."))
        else:
            self._hunt_for("search", forward)

    def action_error(self, forward: bool) -> None:
        """The next or previous error."""
        if "errors" not in self.work.sieves:
            self.work.sieves["errors"] = Sieve(self.shown.file, Errors())
        self._hunt_for("errors", forward)

    def _hunt_for(self, name: str, forward: bool) -> None:
        place = self.current
        offset = 0
        if place is not None:
            within = self._hit is not None and place.start <= self._hit <= place.end
            if within and self._hit is not None:
                offset = self._hit + forward
            else:
                offset = place.start if name == "search" and forward else place.start + forward
        self._hunt = Hunt(name, forward, offset)
        self._work_on()
        if self._follow_hunt():
            self._paint()

    def _follow_hunt(self) -> bool:
        """Jump when the sieve has come far enough; whether anything was decided."""
        hunt = self._hunt
        sieve = self.work.sieves.get(hunt.sieve) if hunt else None
        if hunt is None or sieve is None:
            return False
        if hunt.forward:
            found = sieve.next(hunt.offset)
        else:
            found = sieve.previous(hunt.offset) if sieve.scanned >= hunt.offset or sieve.complete else None
        if found is None and not sieve.complete:
            return False
        self._hunt = None
        if found is None:
            way = "further down" if hunt.forward else "further up"
            what = "error" if hunt.sieve == "errors" else "hit"
            self.post_message(self.Notice(f"No {what} {way}."))
            return True
        self._hit = found
        self.go_to(found)
        return True

    def found_so_far(self) -> tuple[int, int, bool] | None:
        """Of the search: which hit is shown (0: none yet), how many there are, and whether all are counted."""
        sieve = self.work.sieves.get("search")
        if sieve is None:
            return None
        at = sieve.before(self._hit) + 1 if self._hit is not None else 0
        return at, len(sieve), sieve.complete
