"""Moving about in a log: by rows and screens, to a line, a time, the end."""

from __future__ import annotations

from textual import events

from cockpit.logs.log import Log
from cockpit.logs.merge import MergedLines
from cockpit.logs.page import Anchor
from cockpit.logs.times import find_time, year_of
from cockpit.tui.log_widget import LogWidget


class MovingLog(LogWidget):
    """A log that can be moved about in."""

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
