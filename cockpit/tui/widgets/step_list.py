"""The steps: a column of buttons, or where there is less room one line of symbols."""

from __future__ import annotations

from textwrap import wrap
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from cockpit.bringup.names import StepName, StepState
from cockpit.logs.sanitise import clean
from cockpit.tui import reach, words
from cockpit.tui.state import State, StepView

PASSED = frozenset({StepState.DONE, StepState.NOT_NEEDED})


LOUD = frozenset({StepState.FAILED, StepState.REFUSED, StepState.UNKNOWN})


def phase_words(state: State) -> str:
    """How far the load is, in a few words."""
    run = state.run
    if run is None or not run.running or run.ready:
        return ""
    text = run.phase.value
    bars = [rank for host in state.hosts for rank in host.ranks if rank.phase is run.phase and rank.total]
    if bars:
        text = f"{run.phase.value} {bars[0].done}/{bars[0].total}"
    return text


def note(step: StepView, state: State) -> str:
    """What stands beside a step's name."""
    if step.state is StepState.RUNNING:
        spent = words.coarse(state.now - step.began) if step.began is not None else ""
        phase = phase_words(state) if step.name is StepName.LOAD else ""
        return " · ".join(part for part in (phase, spent) if part) or "running"
    if step.state is StepState.DONE:
        return words.span(step.took) if step.took is not None and step.took >= 0.05 else "done"
    if step.name is StepName.LOAD and state.loading and step.state is StepState.READY_TO_RUN:
        return phase_words(state) or "loading"
    if step.state is StepState.WAITING:
        return f"waiting {clean(step.reason)}" if step.reason and len(step.reason) < 18 else "waiting"
    if step.state is None and reach.stuck(state):
        return "can't be asked"
    return words.STATE_WORDS[step.state]


class StepList(Widget, can_focus=True):
    """The steps, one of them selected."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,left,k", "move(-1)", "Previous step", show=False),
        Binding("down,right,j", "move(1)", "Next step", show=False),
        Binding("home", "move(-99)", "First step", show=False),
        Binding("end", "move(99)", "Last step", show=False),
    ]
    state: reactive[State] = reactive(State(), repaint=False)
    selected: reactive[StepName] = reactive(StepName.CONNECT)
    column: reactive[bool] = reactive(True)

    class Selected(Message):
        """Another step was selected."""

        def __init__(self, step: StepName) -> None:
            super().__init__()
            self.step = step

    class Opened(Message):
        """A step was clicked that was selected already."""

        def __init__(self, step: StepName) -> None:
            super().__init__()
            self.step = step

    def __init__(self) -> None:
        super().__init__(id="steps")
        self.border_title = "Bring-up"
        self._shown = Content("")
        self._followed: StepName | None = None

    def watch_state(self, state: State) -> None:
        """Draw anew only when it reads differently; go along with the step that runs."""
        running = next((step.name for step in state.steps if step.state is StepState.RUNNING), None)
        if running is not None and running is not self._followed:
            self.selected = running
        self._followed = running
        self._tell_age(state)
        content = self._content()
        if not content.is_same(self._shown):
            self.refresh()

    def _tell_age(self, state: State) -> None:
        """How old the steps' states are, while nobody answers for them."""
        age = reach.age(state)
        subtitle = f"as of {age} ago" if age else ""
        if subtitle != (self.border_subtitle or ""):
            self.border_subtitle = subtitle

    def watch_selected(self, step: StepName) -> None:
        """Tell who shows details."""
        self.post_message(self.Selected(step))

    def action_move(self, by: int) -> None:
        """Select another step."""
        names = [step.name for step in self.state.steps]
        if names:
            at = names.index(self.selected) + by
            self.selected = names[max(0, min(len(names) - 1, at))]

    def on_click(self, event: events.Click) -> None:
        """Select the step under the mouse; a second click opens it."""
        self.focus()
        names = [step.name for step in self.state.steps]
        if self.column:
            at = event.y - self.gutter.top
            if 0 <= at < len(names):
                again = names[at] is self.selected
                self.selected = names[at]
                if again:
                    self.post_message(self.Opened(names[at]))

    def render(self) -> Content:
        """The column or the line."""
        self._shown = self._content()
        return self._shown

    def _content(self) -> Content:
        if self.column:
            return Content("\n").join([*(self._row(step) for step in self.state.steps), *self._reason()])
        return self._line()

    def _reason(self) -> list[Content]:
        """Below the column, as far as there is room: why the selected step is as it is."""
        step = next((step for step in self.state.steps if step.name is self.selected), None)
        room = self.content_size.height - len(self.state.steps) - 1
        width = max(20, self.content_size.width) - 2
        if step is None or not step.reason or room < 1:
            return []
        where = f"{step.host}: " if step.host and not step.reason.startswith(step.host) else ""
        text = clean(f"{where}{step.reason}", multiline=True)
        lines = [part for line in text.split("\n") for part in wrap(line, width) or [""]]
        if len(lines) > room:
            lines = [*lines[: room - 1], "… d shows the rest"]
        style = words.COLOURS[step.state] if step.state in LOUD else "$muted"
        return [Content(""), *(Content.styled(f" {line}", style) for line in lines)]

    def _row(self, step: StepView) -> Content:
        width = max(20, self.content_size.width)
        here = step.name is self.selected
        told = note(step, self.state)
        room = width - len(step.title) - 6
        if len(told) > room:
            told = told[: max(0, room - 1)] + "…"
        name_style = "bold" if here else ""
        gap = " " * max(1, width - len(step.title) - len(told) - 5)
        colour = words.COLOURS[step.state]
        row = Content.assemble(
            ("▸" if here else " ", "bold"),
            (f"{words.MARKS[step.state]} ", f"bold {colour}"),
            (step.title, name_style),
            gap,
            (told, colour if step.state is not StepState.DONE else "$muted"),
            " ",
        )
        return row.stylize("reverse") if here and self.has_focus else row

    def _line(self) -> Content:
        """All names where there is room, else without those of steps that are done, else the selected one's."""
        width, steps = max(20, self.content_size.width), self.state.steps
        passed = {step.name for step in steps if step.state in PASSED} - {self.selected}
        others = {step.name for step in steps} - {self.selected}
        none: set[StepName] = set()
        line = Content("")
        for short in (none, passed, others):
            line = Content("")
            for step in steps:
                gap = "" if step.name in short else " "
                line = Content.assemble(line, gap, self._item(step, long=step.name not in short))
            if age := reach.age(self.state):
                line = Content.assemble(line, (f"  as of {age} ago", "$text-warning"))
            if line.cell_length <= width:
                break
        return line.truncate(width, ellipsis=True)

    def _item(self, step: StepView, *, long: bool) -> Content:
        colour = words.COLOURS[step.state]
        mark = (words.MARKS[step.state], f"bold {colour}")
        if not long:
            return Content.assemble(mark)
        here = step.name is self.selected
        parts = [mark, (f" {step.title}", "bold underline" if here else "")]
        narrow = self.content_size.width < 110
        if step.state is StepState.RUNNING or (here and narrow):
            parts.append((f" {note(step, self.state)}", colour))
        item = Content.assemble(*parts)
        if here and narrow:
            item = Content.assemble(" ", item, " ")
        return item.stylize("reverse") if here and self.has_focus else item
