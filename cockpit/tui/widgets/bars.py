"""The first line and the last: what this is about, and what can be done."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Input

from cockpit.logs.sanitise import clean
from cockpit.tui import reach, words
from cockpit.tui.ending import ended, last_seen
from cockpit.tui.state import RUN, State
from cockpit.tui.widgets.step_list import StepList

if TYPE_CHECKING:
    from textual.binding import ActiveBinding

    from cockpit.tui.actions import Context
    from cockpit.tui.app import CockpitApp


def header(state: State, width: int) -> Content:
    """Name, profile, runtime and versions, and how the run stands."""
    left = Content.assemble((" Spark Cockpit ", "bold $text-primary"), " ", (clean(state.name), "bold"))
    if state.read_only:
        left = Content.assemble(left, ("  read only", "$text-warning"))
    right = Content.assemble(_run(state, named=width >= 100), " ")
    middle = _versions(state)
    room = width - left.cell_length - right.cell_length
    if middle.cell_length + 4 > room:
        middle = Content("")
    gap = max(1, (room - middle.cell_length) // 2)
    rest = max(1, width - left.cell_length - gap - middle.cell_length - right.cell_length)
    return Content.assemble(left, " " * gap, middle, " " * rest, right).truncate(width, ellipsis=True)


def _versions(state: State) -> Content:
    profile = state.profile
    if profile is None:
        return Content("")
    from cockpit.model.profile import DockerRuntime

    parts = ["docker" if isinstance(profile.runtime, DockerRuntime) else "native"]
    parts += [f"vLLM {clean(state.vllm_version)}"] if state.vllm_version else []
    parts += [f"Ray {clean(state.ray_version)}"] if state.ray_version else []
    return Content.styled(" · ".join(parts), "$muted")


def _run(state: State, *, named: bool) -> Content:
    run, activity = state.run, state.activity
    if away := reach.who(state):
        return _away(state, away)
    doing = f"{activity.verb} {words.coarse(state.now - activity.began)}" if activity.busy else ""
    if state.profile_error:
        return Content.styled("✗ no profile", "$text-error")
    if run is None:
        asked = "no run yet" if state.looked_at else "asking the hosts …"
        asked = "? run not known" if reach.unasked(state, RUN) else asked
        return Content.assemble((doing or asked, "$text-accent" if doing else "$muted"))
    name = f"run {clean(words.run_name(run.id))} · " if named else ""
    if run.ready:
        return Content.assemble(name, ("✓ ready", "bold $text-success"), f" · {doing}" if doing else "")
    if run.running:
        spent = words.coarse(state.now - run.began) if run.began else ""
        left = state.left
        spent += f", ~{words.about(left)} left" if left else ""
        told = " · ".join(part for part in ("◐ loading", spent) if part)
        return Content.assemble(name, (told, "bold $text-accent"))
    ending = ended(state)
    end = (f"{ending.mark} {ending.words}", ending.style)
    return Content.assemble(name, end, " · ", (doing, "$text-accent")) if doing else Content.assemble(name, end)


def _away(state: State, who: str) -> Content:
    """Who does not answer; what was known of the run is told as that."""
    run, age = state.run, reach.age(state)
    known = ""
    if run is not None:
        known = f"run {clean(words.run_name(run.id))} {last_seen(state)} · "
    elif age:
        known = f"asked {age} ago · "
    return Content.assemble((known, "$text-warning"), (f"✗ {clean(who)}", "bold $text-error"))


class Header(Widget):
    """The first line."""

    DEFAULT_CSS = "Header { height: 1; dock: top; }"
    state: reactive[State] = reactive(State(), repaint=False)

    def __init__(self) -> None:
        super().__init__()
        self._shown = Content("")

    def watch_state(self) -> None:
        """Draw anew only when it reads differently."""
        if not header(self.state, self.size.width).is_same(self._shown):
            self.refresh()

    def render(self) -> Content:
        """The line."""
        self._shown = header(self.state, self.size.width)
        return self._shown


class Footer(Widget):
    """The last line: the keys that do something where the focus is, those that can't be used greyed."""

    DEFAULT_CSS = "Footer { height: 1; dock: bottom; }"

    def compose(self) -> ComposeResult:
        """Nothing: it is one line of text."""
        yield from ()

    def on_mount(self) -> None:
        """Follow the focus."""
        self.screen.bindings_updated_signal.subscribe(self, lambda _screen: self.refresh())

    @property
    def _usage(self) -> Context:
        return cast("CockpitApp", self.app).usage

    def _hint(self, active: ActiveBinding, context: Context) -> tuple[int, Hint] | None:
        """A key with its place among the others; None where it is not offered."""
        from cockpit.tui.actions import BY_ID

        binding = active.binding
        ours = binding.action.startswith("app.do(")
        action = BY_ID.get(binding.action[8:-2]) if ours else None
        place, usable, constant = self._own_order().get(binding.key, 0), active.enabled, False
        if action is not None:
            place, usable = action.place(context.state), action.available(context)
            constant = action.constant and not reach.stuck(context.state)
            if not place or (action.id == "back" and self._at_home):
                return None
            place += 100 if action.where == "app" else 0
        if not usable and not constant:
            return None
        display = binding.key_display or self.app.get_key_display(binding)
        return place, (display.split(" ")[0], binding.description, usable)

    def _own_order(self) -> dict[str, int]:
        """The places of a screen's own keys: wherever the focus is, they stand in the order they were given in."""
        own = type(self.screen).BINDINGS
        return {one.key: number for number, one in enumerate(own) if isinstance(one, Binding)}

    @property
    def _at_home(self) -> bool:
        """Whether the focus is where going back leads to."""
        return isinstance(self.screen.focused, StepList) and not self.screen.has_class("-full")

    @property
    def _writing(self) -> bool:
        """Whether letters are text where the focus is."""
        return isinstance(self.screen.focused, getattr(self.screen, "LETTERS", Input))

    def keys(self) -> Iterator[Hint]:
        """The keys for where the focus is, the most wanted first."""
        context = self._usage
        ranked: list[tuple[int, Hint]] = []
        for active in self.screen.active_bindings.values():
            binding = active.binding
            if not binding.show or not binding.description:
                continue
            if self._writing and not (binding.key in WRITING or "+" in binding.key):
                continue
            hint = self._hint(active, context)
            if hint is not None:
                ranked.append(hint)
        if self._writing and self.screen.query("PromptPane Input:focus"):
            yield "⏎", "send", True
            yield "↑", "earlier", True
            yield "⇞", "scroll", True
        told: set[str] = set()
        for _, one in sorted(ranked, key=lambda placed: placed[0]):
            # Two keys for the same need one place.
            if one[1] not in told:
                told.add(one[1])
                yield one

    def render(self) -> Content:
        """As many keys as there is room for; the ways back and to help are always among them."""
        width = self.size.width
        tail = Content.assemble((" ^p ", "bold $text-accent"), "commands ")
        active = self.screen.active_bindings.get("question_mark")
        if active is not None and active.enabled and not self._writing:
            asking = Content.assemble((" ? ", "bold $text-accent"), "help ")
            tail = Content.assemble(tail, asking) if tail.cell_length + asking.cell_length <= width else asking
        keys = [key for key in self.keys() if key[0] != "?"]
        back = [key for key in keys if key[0] == "esc"]
        room = width - tail.cell_length - sum(_item(*key).cell_length for key in back)
        chosen = set(back)
        usable = _fitting([key for key in keys if key[2] and key not in chosen], room)
        room -= sum(_item(*key).cell_length for key in usable)
        chosen |= {*usable, *_fitting([key for key in keys if not key[2]], room)}
        line = Content.assemble(*(_item(*key) for key in keys if key in chosen))
        gap = " " * max(0, width - line.cell_length - tail.cell_length)
        return Content.assemble(line, gap, tail)


WRITING = frozenset({"escape", "enter", "tab", "up", "down"})
"""Keys that a line of text leaves to others."""

Hint = tuple[str, str, bool]
"""A key, what it does, whether it can be used now."""


def _item(display: str, label: str, enabled: bool) -> Content:
    key = (f" {display} ", "bold $text-accent" if enabled else "$faint")
    return Content.assemble(key, (f"{label} ", "" if enabled else "$faint"))


def _fitting(keys: list[Hint], room: int) -> list[Hint]:
    """As many of ``keys``, in order, as there is room for."""
    fitting = []
    for key in keys:
        width = _item(*key).cell_length
        if width > room:
            break
        room -= width
        fitting.append(key)
    return fitting
