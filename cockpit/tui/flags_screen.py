"""The editor of the profile's flags: a list, one flag's help, an entry, and vLLM's verdict as one types."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from cockpit.bringup.flag_draft import Draft, save
from cockpit.logs.sanitise import clean
from cockpit.model.errors import CockpitError
from cockpit.model.finding import Problem
from cockpit.serving.schema import Schema
from cockpit.tui import flag_edit_text as text
from cockpit.tui.dialogs import Confirm, Help
from cockpit.tui.flag_desk import FlagDesk
from cockpit.tui.flag_edit import EditView, split_entry
from cockpit.tui.flag_judging import Judged, Judging
from cockpit.tui.flag_keys import Mode, bindings, usable
from cockpit.tui.screen import HEIGHTS, WIDTHS
from cockpit.tui.themes import shipped_folder
from cockpit.tui.widgets.bars import Footer
from cockpit.tui.widgets.lines import Lines

TURNS: Final = ("findings", "command", "differences")
"""What the lower part shows in turn, where there is no room for all."""


class FlagList(OptionList):
    """The flags, or what may be meant."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "screen.take", "change", key_display="⏎")]


class Entry(Input):
    """Where a name or a value is typed."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "screen.take", "take it", key_display="⏎")]


class FlagsScreen(Screen[Path | None]):
    """Gives the path of the profile where it was saved, else None. ``view`` is all that is shown."""

    AUTO_FOCUS = "#flag-list"
    CSS_PATH = str(shipped_folder() / "flags.tcss")
    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(),
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
    ]

    def __init__(
        self, draft: Draft, schema: Schema, desk: FlagDesk, *, clock: Callable[[], float] = monotonic
    ) -> None:
        super().__init__()
        self.view = EditView(draft, schema)
        self._clock = clock
        self._desk = desk
        self._judging = Judging(desk, self._asked, self._judged, self._refused, clock)
        self._saved: Path | None = None
        self._turn = 0
        self._rows: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        """The verdict, the entry, the list beside one flag, and what was found."""
        yield Lines(id="flag-head")
        with Horizontal(id="flag-entry"):
            yield Lines(id="flag-label")
            yield Entry(id="flag-input", disabled=True, select_on_focus=False)
        yield Lines(id="flag-hint")
        with Horizontal(id="flag-main"):
            yield FlagList(id="flag-list", markup=False)
            with VerticalScroll(id="flag-about"):
                yield Lines()
        with Horizontal(id="flag-below"):
            for name in TURNS:
                with VerticalScroll(id=f"flag-{name}", classes="part"):
                    yield Lines()
        yield Footer()

    def on_mount(self) -> None:
        """Show the flags, and have them judged."""
        for name in TURNS:
            self.query_one(f"#flag-{name}").border_title = Content(name.title())
        self.run_worker(self._judging.run(), name="judge", group="judge", exit_on_error=False)
        self.set_interval(0.5, self._tick)
        self._judging.want(self.view.trial, pause=0)
        self._show()
        self._turn_to(0)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys that do nothing in this mode are not shown."""
        return usable(action, self.view.mode)

    # Showing

    @property
    def list(self) -> FlagList:
        """The list."""
        return self.query_one(FlagList)

    @property
    def entry(self) -> Entry:
        """Where a name or a value is typed."""
        return self.query_one(Entry)

    @property
    def at_hand(self) -> str:
        """The flag that the help is of: what is being typed, else what is marked."""
        if self.view.mode is Mode.VALUE:
            return self.view.key
        rows = self.view.rows()
        marked = self.list.highlighted
        return rows[marked].key if marked is not None and marked < len(rows) else ""

    def _show(self, *, keep: str | None = None) -> None:
        """Bring everything up to date; ``keep`` is the flag that stays marked."""
        view = self.view
        label = {Mode.FLAGS: "", Mode.NAME: " flag ❯ ", Mode.VALUE: f" {clean(view.key)} ❯ "}[view.mode]
        self.query_one("#flag-label", Lines).show(Content.styled(label, "bold $text-accent"))
        self.query_one("#flag-entry").set_class(view.mode is not Mode.FLAGS, "-typing")
        self.query_one("#flag-hint", Lines).show(text.entry_hint(view))
        self._show_rows(keep)
        self._show_parts()

    def _show_rows(self, keep: str | None) -> None:
        view, rows = self.view, self.view.rows()
        width = max(20, self.list.size.width - 3)
        shown = (view.mode, rows, width)
        if shown != self._rows:
            self._rows = shown
            marked = self.list.highlighted or 0
            self.list.clear_options()
            gap = text.name_width(rows, width)
            self.list.add_options([Option(text.row_content(row, view.mode, width, gap)) for row in rows])
            if not rows:
                self.list.add_option(Option(text.no_rows(view), disabled=True))
            self.list.highlighted = min(marked, len(rows) - 1) if rows else None
        wanted = keep if keep is not None else view.text if view.mode is Mode.VALUE else None
        found = [number for number, row in enumerate(rows) if row.key == wanted]
        if found:
            self.list.highlighted = found[0]

    def _show_parts(self) -> None:
        view, key = self.view, self.at_hand
        self.query_one("#flag-head", Lines).show(text.head(view, self._clock()))
        self.query_one("#flag-about Lines", Lines).show(text.flag_content(view, key))
        self.query_one("#flag-findings Lines", Lines).show(text.findings_content(view))
        self.query_one("#flag-command Lines", Lines).show(text.command_content(view, key))
        self.query_one("#flag-differences Lines", Lines).show(text.differences_content(view))

    def _tick(self) -> None:
        if self.view.judging is not None:
            self.query_one("#flag-head", Lines).show(text.head(self.view, self._clock()))

    def on_resize(self) -> None:
        """Rows are cut to the list's width."""
        self.call_after_refresh(self._show)

    @on(OptionList.OptionHighlighted)
    def _marked(self) -> None:
        self._show_parts()

    # Judging

    def _asked(self) -> None:
        self._change(judging=self._clock(), resting=self._desk.resting)

    def _judged(self, answer: Judged) -> None:
        check = answer.check
        self._change(
            judging=None,
            error=answer.error,
            refused="",
            took=answer.seconds,
            check=check,
            judged=answer.draft.data,
            schema=check.schema or self.view.schema,
        )

    def _change(self, **changes: object) -> None:
        from dataclasses import replace

        self.view = replace(self.view, **changes)  # type: ignore[arg-type]
        if self.is_mounted:
            self._show()

    def _to(self, view: EditView, *, keep: str | None = None) -> None:
        """The state after a key: the keys go where one types, and vLLM is asked about what is new."""
        before, self.view = self.view, view
        typing = view.mode is not Mode.FLAGS
        self.entry.disabled = not typing
        if before.mode is not view.mode or before.key != view.key:
            self.entry.value = view.text
            self.entry.cursor_position = len(view.text)
            (self.entry if typing else self.list).focus()
            self.refresh_bindings()
        self._show(keep=keep)
        self._want()

    def _want(self) -> None:
        self._judging.want(self.view.trial)

    def _refused(self, error: str) -> None:
        """What is typed makes no profile."""
        self._change(judging=None, refused=error)

    # Typing

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if self.view.mode is not Mode.FLAGS and event.value != self.view.text:
            self.view = self.view.typing(event.value)
            self._show(keep=None if self.view.mode is Mode.VALUE else "")
            if self.view.mode is Mode.NAME:
                self.list.highlighted = 0 if self.list.option_count else None
            self._want()

    def action_move(self, step: int) -> None:
        """Mark another line while the keys are in the entry."""
        if step > 0:
            self.list.action_cursor_down()
        else:
            self.list.action_cursor_up()

    def action_complete(self) -> None:
        """Type what is marked."""
        rows, marked = self.view.rows(), self.list.highlighted
        if marked is not None and marked < len(rows):
            self.entry.value = rows[marked].key
            self.entry.cursor_position = len(self.entry.value)

    def action_take(self) -> None:
        """Change the marked flag, go on to a named flag's value, or take a value."""
        view = self.view if self.view.mode is Mode.FLAGS else self.view.typing(self.entry.value)
        if view.mode is Mode.VALUE:
            self._try(view.taken, keep=view.key)
            return
        if view.mode is Mode.FLAGS:
            if self.at_hand:
                self._to(view.valuing(self.at_hand))
            return
        name, value = split_entry(view.text)
        if value is not None:
            given = view.valuing(name).typing(value)
            self._try(given.taken, keep=given.key)
        elif self.at_hand or name:
            exact = view.schema.find(name) is not None and "." in name
            self._to(view.valuing(name if exact or not self.at_hand else self.at_hand))

    def action_find(self) -> None:
        """Name another flag."""
        self._to(self.view.naming())

    def action_back(self) -> None:
        """Nothing is taken; from the list, leave."""
        if self.view.mode is not Mode.FLAGS:
            self._to(self.view.listing(), keep=self.view.key)
        elif self.view.draft.dirty:
            question = Content("The profile's file stays as it was.")
            self.app.push_screen(Confirm("Leave without saving?", question, "leave"), self._leave)
        else:
            self.dismiss(self._saved)

    def _leave(self, yes: bool | None) -> None:
        if yes:
            self.dismiss(self._saved)

    # Changing

    def _try(self, change: Callable[[], EditView], *, keep: str | None = None) -> None:
        try:
            self._to(change(), keep=keep)
        except CockpitError as error:
            self.notify(clean(str(error), multiline=True), title="Not changed", severity="error", markup=False)

    def action_drop(self) -> None:
        """Take the marked flag out."""
        if self.at_hand:
            self._try(lambda: self.view.edited(self.view.draft.without_flag(self.at_hand)))

    def action_undo(self) -> None:
        """The draft before the last change."""
        self._to(self.view.undone())

    def action_mend(self) -> None:
        """Apply the flag's own change, else the first there is."""
        self._mend(self.view.next_fix(self.at_hand))

    def action_mend_all(self) -> None:
        """Apply every change."""
        self._mend(self.view.problems)

    def _mend(self, problems: tuple[Problem, ...]) -> None:
        before = self.view.draft
        self._try(lambda: self.view.mended(problems))
        if self.view.draft == before:
            self.notify("No finding has a change of the profile to apply.", severity="warning", markup=False)

    def action_turn(self) -> None:
        """Findings, command line and differences in turn."""
        self._turn_to((self._turn + 1) % len(TURNS))

    def _turn_to(self, turn: int) -> None:
        self._turn = turn
        for number, name in enumerate(TURNS):
            self.query_one(f"#flag-{name}").set_class(number == turn, "-turned")

    def action_again(self) -> None:
        """Ask hosts and vLLM anew."""
        self._judging.forget()
        self._want()

    def action_help(self) -> None:
        """All keys."""
        self.app.push_screen(Help())

    def action_save(self) -> None:
        """Write the file; the editor stays open."""
        if not self.view.draft.dirty:
            self.notify("Nothing to save.", timeout=2, markup=False)
            return
        try:
            path = save(self.view.draft)
        except (CockpitError, OSError) as error:
            self.notify(clean(str(error), multiline=True), title="Not saved", severity="error", markup=False)
            return
        self._saved = path
        self._to(self.view.saved(path))
        self.notify(clean(f"Saved {path}."), markup=False)
