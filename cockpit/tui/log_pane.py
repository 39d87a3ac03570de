"""The log view with what belongs to it: a status line, a prompt, the detail of the selected record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Final

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Input, Static

from cockpit.logs.detail import whole_record
from cockpit.logs.filters import Filter
from cockpit.logs.layout import cells_of
from cockpit.logs.lines import Place
from cockpit.logs.log import Log
from cockpit.logs.pattern import PatternError
from cockpit.logs.sanitise import clean, steady
from cockpit.logs.times import last_time, time_at, time_near, year_of
from cockpit.logs.typed import read_time
from cockpit.tui.log_set import FILTER, LogSet
from cockpit.tui.log_status import Part, StatusLine, clipped, part
from cockpit.tui.log_typed import read_filter, read_query
from cockpit.tui.log_view import LogView

MOST_COPIED: Final = 1024 * 1024
_ASKS: Final = {"slash": "search", "ampersand": "filter", "colon": "goto", "s": "save"}
_PROMPTS: Final = {
    "search": ("/", "text, or /regex/; capitals make case count; nothing ends the search"),
    "filter": (
        "&",
        "text, /regex/, !not, level:WARNING, process:NAME, rank:N, host:NAME; nothing shows all",
    ),
    "goto": (":", "a line number, or a time: 20:26, 11-30 20:26:26, yesterday, 10m before the end"),
    "save": ("save to ", "a file's path; it gets the exact bytes"),
}


class LogPane(Vertical):
    """A log to read. ``title`` is what the status line begins with."""

    DEFAULT_CSS = """
    LogPane {
        & > Horizontal { height: 1; display: none; background: $surface; }
        & > Horizontal > Static { width: auto; padding: 0 1; color: $text-accent; text-style: bold; }
        & > Horizontal > Input { width: 1fr; }
        & > VerticalScroll {
            height: auto; max-height: 40%; border-top: solid $border; display: none; &.open { display: block; }
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "ask('search')", "Search"),
        Binding("ampersand", "ask('filter')", "Filter"),
        Binding("colon", "ask('goto')", "Go to"),
        Binding("s", "ask('save')", "Save", show=False),
        Binding("c", "copy", "Copy", show=False),
        Binding("enter", "detail", "Record"),
        Binding("escape", "back", "Back", show=False),
    ]

    def __init__(self, logs: Log | LogSet, *, title: str = "", id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._first = logs if isinstance(logs, LogSet) else LogSet([logs])
        self.title = title or (
            f"{len(self._first.logs)} logs by time" if self._first.several else self._first.logs[0].name
        )
        self.hosts: Mapping[str, str] = {}
        """What the lines of a host carry (Ray's ``ip=``, or ``head`` for those without one), by its name."""
        self._asking = ""
        self._ahead = 0
        """How much of the prompt's text did not reach it by itself."""
        self._notice = ""
        self._detailed: Place | None = None

    def compose(self) -> ComposeResult:
        """The view, the detail, the prompt, the status line."""
        yield LogView(self._first)
        with VerticalScroll(can_focus=True):
            yield Static(markup=False)
        with Horizontal():
            yield Static(markup=False)
            yield Input(select_on_focus=False, compact=True)
        yield StatusLine()

    @property
    def view(self) -> LogView:
        """The view itself."""
        return self.query_one(LogView)

    def show_log(self, log: Log, *, title: str = "") -> None:
        """Show another log."""
        self.title = title or log.name
        self.view.show_log(log)

    def show_logs(self, logs: LogSet, *, title: str = "") -> None:
        """Show other logs, several by time."""
        self.title = title
        self.view.show_logs(logs)

    # The status line

    @on(LogView.Changed)
    def _changed(self) -> None:
        self._tell()
        if self.query_one(VerticalScroll).has_class("open"):
            self._show_detail()

    @on(LogView.Notice)
    def _noticed(self, event: LogView.Notice) -> None:
        self._notice = event.text
        self._tell()

    def _tell(self) -> None:
        self.query_one(StatusLine).tell(tuple(self._status()))

    def _status(self) -> Iterator[Part]:
        view = self.view
        log, logs = view.shown, view.logs
        yield part(20, self.title, clipped(self.title, 24), clipped(self.title, 10))
        yield part(100, self._notice)
        yield from (part(60, *each.intake.words()) for each in logs.logs if each.intake is not None)
        place = view.current
        if place is not None and place.number is not None:
            more = "" if log.index.complete else "+"
            name = f"{logs.labels[logs.logs.index(log)]}: " if logs.several else ""
            at, last = f"{place.number:,}", f"{log.index.lines:,}{more}"
            yield part(
                80, f"{name}line {at} of {last}", f"{clipped(name, 12)}{at} of {last}", f"{at}/{last}", at
            )
        if not logs.complete:
            done = f"{100 * logs.done:.0f} %"
            yield part(40, f"{'merging' if logs.several else 'counting'} {done}", done)
        yield from self._following()
        yield from self._sought()
        column = f"from column {view.page.left + 1}" if view.page.left and not view.page.wrap else ""
        yield part(12, "wrapped" if view.page.wrap else column, f"→{view.page.left + 1}" if column else "")
        yield part(11, "raw" if view.page.raw else "")
        yield part(11, "folded" if view.folded else "")
        gaps = sum(len(each.marks) for each in logs.logs)
        yield part(30, f"{gaps} gap{'s' if gaps > 1 else ''}" if gaps else "")

    def _following(self) -> Iterator[Part]:
        view = self.view
        if view.following:
            yield part(10, "following")
        elif view.new_bytes:
            count, size = view.new_lines, f"{view.new_bytes:,}"
            new = f"{size} new bytes" if count is None else f"{count:,} new lines"
            yield part(50, f"paused, {new}", f"+{size} bytes" if count is None else f"+{count:,}")

    def _sought(self) -> Iterator[Part]:
        """How the filter and the search stand."""
        view = self.view
        if view.filter is not None:
            kept = view.logs.sieves.get(FILTER, ())
            words, lines = view.filter.words(), f"{sum(len(sieve) for sieve in kept):,} lines"
            yield part(70, f"only {words}: {lines}", f"only {clipped(words, 20)}: {lines}", f"only {lines}")
            yield part(90, next((sieve.failed for sieve in kept if sieve.failed), ""))
        found = view.found_so_far()
        if view.wanted is not None and found is not None:
            at = f"{found.at:,} of " if found.at else ""
            hits = f"{at}{found.hits:,}{'' if found.complete else '+'}"
            pattern = view.wanted.pattern
            yield part(85, f"“{pattern}”: {hits}", f"“{clipped(pattern, 16)}”: {hits}", f"hit {hits}")
            yield part(90, found.failed)

    # The prompt

    def on_key(self, event: events.Key) -> None:
        """Open the prompt at its key, and take what is typed right after it: a terminal may hand over several
        keys at once, and the focus moves only later. What still comes this way was typed before all that has
        reached the prompt itself."""
        if self._asking:
            if event.is_printable and event.character:
                event.stop()
                self._type_ahead(event.character)
            elif event.key == "enter":
                event.stop()
                self._answer()
        elif event.key in _ASKS and self.view.has_focus:
            event.stop()
            self.action_ask(_ASKS[event.key])

    def _type_ahead(self, text: str) -> None:
        prompt, at = self.query_one(Input), self._ahead
        cursor = prompt.cursor_position
        prompt.value = prompt.value[:at] + text + prompt.value[at:]
        prompt.cursor_position = cursor + len(text)
        self._ahead = at + len(text)

    def action_ask(self, what: str) -> None:
        """Open the prompt."""
        self._asking, self._notice, self._ahead = what, "", 0
        sign, hint = _PROMPTS[what]
        prompt = self.query_one(Input)
        prompt.value = ""
        prompt.placeholder = hint
        line = self.query_one(Horizontal)
        line.query_one(Static).update(sign)
        line.display = True
        self.screen.set_focus(prompt)

    def action_back(self) -> None:
        """Close what is open: the prompt, the detail; else end the search, then the filter."""
        detail = self.query_one(VerticalScroll)
        if self._asking:
            self._close_prompt()
        elif detail.has_class("open"):
            detail.remove_class("open")
            self.view.focus()
        elif self.view.wanted is not None:
            self.view.set_query(None)
        else:
            self.view.set_filter(None)

    def _close_prompt(self) -> None:
        self._asking = ""
        self.screen.set_focus(self.view)
        self.query_one(Horizontal).display = False
        self._tell()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._answer()

    def _answer(self) -> None:
        """Do what was asked for, once: the key, and what the prompt makes of it, both come here."""
        if not self._asking:
            return
        asked, text = self._asking, self.query_one(Input).value
        self._close_prompt()
        try:
            if asked == "search":
                self.view.set_query(read_query(text) if text else None)
            elif asked == "filter":
                self.view.set_filter(self._of_hosts(read_filter(text)) if text else None)
            elif asked == "goto" and text:
                self._go_to(text.strip())
            elif asked == "save" and text:
                self._save(Path(text).expanduser())
        except PatternError as error:
            self._notice = error.message
        self._tell()

    def _of_hosts(self, wanted: Filter) -> Filter:
        """The filter with a host's name as its lines have it, where they do not stand in a log of its own."""
        labelled = self.view.logs.several and wanted.address in self.view.logs.labels
        return wanted if labelled else replace(wanted, address=self.hosts.get(wanted.address, wanted.address))

    def _go_to(self, text: str) -> None:
        view = self.view
        if text.replace(",", "").isdecimal():
            if not view.go_to_line(int(text.replace(",", "")[:18])):
                self._notice = f"There is no line {text}."
            return
        year = year_of(view.shown)
        place = view.current
        near = time_near(view.shown, place.start if place else 0, year) or time_at(view.shown, 0, year)
        typed, last = read_time(text), last_time(view.shown, year)
        if typed is None:
            self._notice = f"“{text}” is neither a line number nor a time."
        elif near is None or last is None:
            self._notice = "No line of this log tells a time."
        else:
            view.go_to_time(typed.at(near, last))

    # Copying and saving

    def _stretch(self) -> tuple[int, int] | None:
        """What is copied or saved: from the nearest mark to the selected line, or the line alone."""
        view = self.view
        place = view.current
        if place is None:
            return None
        own = view.logs.logs.index(place.log)
        others = [at for log, at in view.marks if log == own and at != place.start]
        start, end = place.start, place.end
        if others:
            nearest = min(others, key=lambda at: abs(at - place.start))
            start, end = min(start, nearest), max(end, place.log.index.end_of_line(nearest))
        return start, min(end + 1, place.log.file.size)

    def action_copy(self) -> None:
        """Copy the selected line, or all from the nearest mark to it, through the terminal (OSC 52)."""
        stretch = self._stretch()
        if stretch is None:
            return
        start, end = stretch
        if end - start > MOST_COPIED:
            self._notice = f"{end - start:,} bytes are too many for the clipboard: save them with s."
        else:
            data = self.view.shown.file.read(start, end)
            text = data.decode("utf-8", "replace")
            self.app.copy_to_clipboard(text)
            exact = text.encode() == data
            self._notice = f"copied {len(data):,} bytes" + ("" if exact else "; what is no UTF-8 became U+FFFD")
        self._tell()

    def _save(self, path: Path) -> None:
        """Save the exact bytes: from the nearest mark to the selected line where there are marks, else all."""
        view = self.view
        stretch = self._stretch() if view.marks else None
        start, end = stretch or (0, view.shown.file.size)
        try:
            with path.open("xb") as file:
                for piece in view.shown.file.pieces(start, end):
                    file.write(piece)
        except OSError as error:
            self._notice = f"{path}: {error.strerror}"
        else:
            self._notice = f"saved {end - start:,} bytes to {path}"

    # The detail

    def action_detail(self) -> None:
        """Open the whole selected record, or close it."""
        self.query_one(VerticalScroll).toggle_class("open")
        self._detailed = None
        self.call_after_refresh(self._show_detail)

    def _show_detail(self) -> None:
        place = self.view.current
        if place is None or place == self._detailed:
            return
        self._detailed = place
        record = whole_record(place.log, place.start)
        text = "\n".join(steady(row) for row in clean(record.text, multiline=True).split("\n"))
        if record.cut:
            text += f"\n… {record.end - record.start:,} bytes in all: save them with s."
        box = self.query_one(VerticalScroll)
        first, last = (place.log.index.number_at(at) for at in (record.start, record.end))
        box.border_title = Content(f"lines {first:,} to {last:,}" if first and last and last > first else "")
        box.query_one(Static).update(Text(text, overflow="fold"))
        width = max(1, box.scrollable_content_region.width)
        before = clean(record.text[: record.selected], multiline=True).split("\n")[:-1]
        row = sum(max(1, -(-cells_of(line) // width)) for line in before)
        self.call_after_refresh(box.scroll_to, y=max(0, row - 2), animate=False)
