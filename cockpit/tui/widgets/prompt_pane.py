"""Prompts and their answers."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from math import isfinite
from typing import Any, ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widgets import Input

from cockpit.logs.sanitise import clean
from cockpit.tui import words
from cockpit.tui.state import Exchange, State
from cockpit.tui.widgets.lines import Lines


def _finite(value: str) -> float:
    number = float(value)
    if not isfinite(number):
        raise ValueError(f"{value} is no number to calculate with")
    return number


FIELDS: Final[dict[str, Callable[[str], Any]]] = {"max_tokens": int, "temperature": _finite, "system": str}
"""Parameters that ``/name value`` changes."""


def exchange_content(exchange: Exchange, now: float) -> Content:
    """One prompt, its reasoning apart, its answer, its figures."""
    parts = [Content.assemble(("❯ ", "bold $text-accent"), (clean(exchange.text, multiline=True), "bold"))]
    if exchange.reasoning:
        text = clean(exchange.reasoning.strip("\n"), multiline=True)
        parts.append(Content.styled("┆ " + text.replace("\n", "\n┆ "), "italic $muted"))
    if exchange.answer:
        parts.append(Content(clean(exchange.answer, multiline=True)))
    parts.append(figures(exchange, now))
    return Content("\n").join(parts)


def figures(exchange: Exchange, now: float) -> Content:
    """TTFT, speed, tokens, or why there is none."""
    if exchange.error:
        return Content.styled(f"✗ {clean(exchange.error, multiline=True)}", "$text-error")
    if exchange.note:
        return Content.styled(f"✓ {clean(exchange.note)}", "$muted")
    result = exchange.result
    if result is None:
        what = "answering" if exchange.first is not None else "waiting for the first token"
        return Content.styled(f"◐ {what} … {words.coarse(now - exchange.began)}", "$text-accent")
    parts = []
    if result.ttft is not None:
        parts.append(f"first token {result.ttft:.2f} s")
    if result.tokens_per_second is not None:
        parts.append(f"{result.tokens_per_second:.1f} tokens/s")
    if "completion_tokens" in result.usage:
        parts.append(f"{result.usage.get('prompt_tokens')} + {result.usage['completion_tokens']} tokens")
    if result.finish_reason:
        parts.append(f"finished: {clean(result.finish_reason)}")
    return Content.styled("✓ " + " · ".join(parts), "$muted")


class PromptPane(Vertical):
    """The conversation, and a line to write the next prompt on."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "send", "send"),
        Binding("up", "recall(-1)", "earlier", key_display="↑"),
        Binding("down", "recall(1)", "Later prompt", show=False),
        Binding("pageup", "page(-1)", "A screen up", show=False),
        Binding("pagedown", "page(1)", "A screen down", show=False),
    ]
    state: reactive[State] = reactive(State(), repaint=False)

    class Asked(Message):
        """A prompt is to be sent."""

        def __init__(self, text: str, changes: dict[str, Any]) -> None:
            super().__init__()
            self.text = text
            self.changes = changes

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self.changes: dict[str, Any] = {}
        self._at = 0
        self._asked: float | None = None
        self._reading = False

    def compose(self) -> ComposeResult:
        """The conversation, the parameters, the prompt."""
        with VerticalScroll(can_focus=False):
            yield Lines()
        yield Lines(classes="figures")
        yield Input(placeholder="a prompt; nothing sends the profile's own; /max_tokens 64 changes a parameter")

    def watch_state(self) -> None:
        """Show what came."""
        if self.is_mounted and self.display:
            self.show()

    def show(self) -> None:
        """Bring the text up to date, its end in sight unless something earlier is being read."""
        exchanges = self.state.exchanges
        if exchanges:
            text = Content("\n\n").join(exchange_content(one, self.state.now) for one in exchanges)
        else:
            text = Content.styled("No prompt yet. ⏎ sends the profile's own.", "$muted")
        scroll = self.query_one(VerticalScroll)
        scroll.query_one(Lines).show(text)
        asked = exchanges[-1].began if exchanges else None
        if asked != self._asked:
            self._asked, self._reading = asked, False
        if not self._reading:
            scroll.scroll_end(animate=False)
        self.query_one(".figures", Lines).show(Content(self._parameters()))

    @property
    def text(self) -> str:
        """The conversation."""
        return self.query_one(VerticalScroll).query_one(Lines).text

    def _parameters(self) -> str:
        profile = self.state.profile
        if profile is None:
            return ""
        spec = {"max_tokens": profile.prompt.max_tokens, "temperature": profile.prompt.temperature}
        spec["system"] = profile.prompt.system  # type: ignore[assignment]
        shown = {**spec, **self.changes}
        system = f" · /system {clean(str(shown['system']))}" if shown["system"] else ""
        return f"/max_tokens {shown['max_tokens']} · /temperature {shown['temperature']:g}{system}"

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        text = event.value.strip()
        event.input.value = ""
        self._at = 0
        if text.startswith("/") and self._change(text):
            return
        if not text and self.state.profile is not None:
            text = self.state.profile.prompt.text
        self.post_message(self.Asked(text, dict(self.changes)))

    def _change(self, text: str) -> bool:
        """Take ``/name value``; whether it was one."""
        name, _, value = text[1:].partition(" ")
        kind = FIELDS.get(name)
        if kind is None:
            # A word that is like none of them is the prompt's own: models know /think and /no_think.
            begun = [field for field in FIELDS if len(name) > 1 and field.startswith(name)]
            meant = begun or get_close_matches(name, FIELDS, 1)
            if meant:
                self.query_one(Input).value = text
                self.notify(f"There is no /{clean(name)}: /{meant[0]}?", severity="warning", markup=False)
            return bool(meant)
        try:
            self.changes[name] = kind(value)
        except ValueError:
            self.notify(f"{name} takes a number.", severity="warning", markup=False)
        self.show()
        return True

    def action_send(self) -> None:
        """Enter in the line itself sends; with the keys elsewhere in the pane it goes there."""
        self.query_one(Input).focus()

    def action_page(self, screens: int) -> None:
        """A screen of the conversation up or down; at its end it is followed again."""
        scroll = self.query_one(VerticalScroll)
        to = scroll.scroll_offset.y + screens * max(1, scroll.size.height - 1)
        self._reading = to < scroll.max_scroll_y
        scroll.scroll_to(y=to, animate=False)

    def action_recall(self, step: int) -> None:
        """An earlier prompt, or a later one."""
        texts = [exchange.text for exchange in self.state.exchanges]
        self._at = max(-len(texts), min(0, self._at + step))
        self.query_one(Input).value = texts[self._at] if self._at else ""
