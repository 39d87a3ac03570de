"""Modals, for decisions alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from cockpit.hosts.errors import HostKeyUnknown
from cockpit.logs.sanitise import clean
from cockpit.model.command import Command
from cockpit.tui import flag_keys
from cockpit.tui.actions import ACTIONS, PLACES


class Confirm(ModalScreen[bool]):
    """A question that enter answers with yes and escape with no."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,y", "answer(True)", "Yes"),
        Binding("escape,n", "answer(False)", "No"),
    ]

    def __init__(self, title: str, text: Content, yes: str) -> None:
        super().__init__()
        self._title, self._text, self._yes = title, text, yes

    def compose(self) -> ComposeResult:
        """The question and its keys."""
        with Vertical(classes="dialog") as dialog:
            dialog.border_title = Content(self._title)
            with VerticalScroll(can_focus=True):
                yield Static(self._text, markup=False)
            keys = Content.assemble(
                (" ⏎ ", "bold $text-accent"), self._yes, ("   esc ", "bold $text-accent"), "leave it"
            )
            yield Static(keys, classes="keys", markup=False)

    def action_answer(self, yes: bool) -> None:
        """Close with the answer."""
        self.dismiss(yes)


class ConfirmHost(ModalScreen[bool]):
    """A destructive step: its commands, and the host's name to type."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Leave it"),
        Binding("up", "scroll(-1)", "Up", show=False),
        Binding("down", "scroll(1)", "Down", show=False),
    ]

    def __init__(self, title: str, host: str, commands: Sequence[Command]) -> None:
        super().__init__()
        self._title, self._host, self._commands = title, host, commands

    def compose(self) -> ComposeResult:
        """What would run, and where to type the name."""
        lines = [
            Content.assemble((f"{command.host}  ", "bold $text-primary"), clean(command.why))
            for command in self._commands
        ] or [Content("Nothing on the hosts.")]
        with Vertical(classes="dialog -typed") as dialog:
            dialog.border_title = Content(self._title)
            with VerticalScroll(can_focus=False):
                yield Static(Content("\n").join(lines), markup=False)
            yield Static(Content.assemble("\nType ", (self._host, "bold"), " to do it."), markup=False)
            yield Input(placeholder=self._host)
            yield Static("", classes="keys", markup=False)

    def on_mount(self) -> None:
        """The name is typed at once."""
        self.query_one(Input).focus()

    def on_resize(self) -> None:
        """Tell the keys, once it is known whether all commands have room."""
        self.call_after_refresh(self._tell_keys)

    def _tell_keys(self) -> None:
        keys = Content.assemble(
            (" ⏎ ", "bold $text-accent"), "do it", ("   esc ", "bold $text-accent"), "leave it"
        )
        if self.query_one(VerticalScroll).max_scroll_y > 0:
            keys = Content.assemble(keys, ("   ↑ ↓ ", "bold $text-accent"), "more")
        self.query_one(".keys", Static).update(keys)

    def action_scroll(self, rows: int) -> None:
        """The commands that have no room."""
        self.query_one(VerticalScroll).scroll_relative(y=rows, animate=False)

    @on(Input.Submitted)
    def _typed(self, event: Input.Submitted) -> None:
        event.stop()
        if event.value.strip() == self._host:
            self.dismiss(True)
        else:
            self.query_one(Input).value = ""
            self.notify(f"That was not {self._host}: nothing was done.", severity="warning", markup=False)

    def action_leave(self) -> None:
        """Nothing is done."""
        self.dismiss(False)


def key_question(error: HostKeyUnknown) -> Confirm:
    """The question about an unknown host key."""
    text = Content.assemble(
        f"{clean(error.host)} ({clean(error.address)}) has never been seen from here. It shows this key:\n\n",
        (f"  {clean(error.key_type)}  {clean(error.fingerprint)}\n\n", "bold"),
        "Compare it with what the host itself shows, on its own console:\n\n",
        "  ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub\n\n",
        (f"Accepted, it is kept in {clean(error.file)}.", "$muted"),
    )
    return Confirm("Is this the right host?", text, "yes, it is the same: trust it")


class Help(ModalScreen[None]):
    """All keys, from the registry."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,f1,enter", "close", "Close")]

    def compose(self) -> ComposeResult:
        """Groups of keys."""
        with Vertical(classes="dialog") as dialog:
            dialog.border_title = Content("Keys")
            with VerticalScroll(can_focus=True):
                yield Static(help_content(), markup=False)
            yield Static(
                Content.assemble((" esc ", "bold $text-accent"), "close"), classes="keys", markup=False
            )

    def action_close(self) -> None:
        """Close it."""
        self.dismiss(None)


def help_content() -> Content:
    """The registry as text."""
    lines: list[Content] = []
    for group in dict.fromkeys(action.group for action in ACTIONS):
        lines += [Content.styled(group, "bold $text-primary")]
        for action in ACTIONS:
            if action.group != group:
                continue
            place = PLACES.get(action.where, "").replace("*", "")
            keys = " ".join(action.shown_keys)
            lines.append(Content.assemble((f"  {keys:<6}", "bold $text-accent"), action.help + place))
        lines.append(Content(""))
    lines.append(Content.styled("Moving", "bold $text-primary"))
    lines += [
        Content.assemble((f"  {keys:<6}", "bold $text-accent"), text)
        for keys, text in (
            ("⇥", "The next part of the screen; ⇧⇥ the one before."),
            ("↑ ↓", "Among the steps, through text, to earlier prompts."),
            ("⇞ ⇟", "A screen up or down, in logs, text and answers."),
            ("^p", "Every action by its name."),
        )
    ]
    lines += [Content(""), Content.styled("In the editor of flags", "bold $text-primary")]
    lines += [
        Content.assemble((f"  {shown:<6}", "bold $text-accent"), told)
        for shown, told in flag_keys.told().items()
    ]
    lines.append(Content("\nThe log has keys of its own: they stand in the last line when it has the focus."))
    return Content("\n").join(lines)
