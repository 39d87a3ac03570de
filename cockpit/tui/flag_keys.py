"""The keys of the editor of flags: its bindings, its help and the README's table come of this."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from textual.binding import Binding

from cockpit.tui.flag_edit import Mode


@dataclass(frozen=True, slots=True)
class Key:
    """A key, what it is called in the last line, what it does, and when: () for always."""

    keys: str
    shown: str
    action: str
    label: str
    help: str
    modes: tuple[Mode, ...] = ()


FLAGS, NAME, VALUE = Mode.FLAGS, Mode.NAME, Mode.VALUE

KEYS: Final = (
    Key("enter", "⏎", "take", "change", "Change the flag's value; take what is typed.", (FLAGS,)),
    Key("enter", "⏎", "take", "take it", "Take what is typed.", (NAME, VALUE)),
    Key("tab", "⇥", "complete", "complete", "Complete to what is marked in the list.", (NAME, VALUE)),
    Key("slash,n", "/", "find", "another flag", "Find another flag: by name, help, group or choices.", (FLAGS,)),
    Key("x", "x", "mend", "mend", "Apply the change of the flag's finding, else of the first.", (FLAGS,)),
    Key("X", "X", "mend_all", "mend all", "Apply every change that errors and warnings propose.", (FLAGS,)),
    Key("delete,minus", "-", "drop", "take out", "Take the flag out of the profile.", (FLAGS,)),
    Key("u", "u", "undo", "undo", "Undo the last change.", (FLAGS,)),
    Key("c", "c", "turn", "command, differences", "Findings, command line and differences in turn.", (FLAGS,)),
    Key("ctrl+s", "^s", "save", "save", "Save into the profile; its comments stay."),
    Key("ctrl+r", "^r", "again", "ask again", "Ask the hosts and vLLM anew."),
    Key("escape", "esc", "back", "back", "Nothing is taken; from the list: leave, asked where not saved."),
)


def bindings() -> list[Binding]:
    """The bindings of the editor's screen; further keys of the same are not shown. Enter is its widgets'."""
    made = []
    for key in KEYS:
        for number, one in enumerate(key.keys.split(",") if key.keys != "enter" else ()):
            first = number == 0
            made.append(
                Binding(one, key.action, key.label, show=first, key_display=key.shown, priority="+" in one)
            )
    return made


def usable(action: str, mode: Mode) -> bool:
    """Whether a key does something in this mode."""
    found = [key for key in KEYS if key.action == action]
    return not found or any(not key.modes or mode in key.modes for key in found)


def markdown_table() -> str:
    """The keys as the README has them."""
    lines = ["| Key | What it does |", "|---|---|"]
    for shown in dict.fromkeys(key.shown for key in KEYS):
        told = " ".join(dict.fromkeys(key.help for key in KEYS if key.shown == shown))
        lines.append(f"| `{shown}` | {told.rstrip('.')} |")
    return "\n".join(lines) + "\n"
