"""The keys of the editor of flags: its bindings, its help and the README's table come of this."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from textual.binding import Binding


class Mode(StrEnum):
    """What is being done: the profile's flags are looked through, a flag is named, or its value is typed."""

    FLAGS = "flags"
    NAME = "name"
    VALUE = "value"


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
    Key("enter", "⏎", "take", "take it", "Change the flag's value; take what is typed.", (NAME, VALUE)),
    Key(
        "tab",
        "⇥",
        "complete",
        "complete",
        "While typing: complete to what is marked in the list.",
        (NAME, VALUE),
    ),
    Key("slash,n", "/", "find", "find", "Find another flag: by name, help, group or choices.", (FLAGS,)),
    Key("x", "x", "mend", "mend", "Apply the change of the flag's finding, else of the first.", (FLAGS,)),
    Key("ctrl+s", "^s", "save", "save", "Save into the profile; its comments stay."),
    Key("escape", "esc", "back", "back", "Nothing is taken; from the list, leave: asked where not saved."),
    Key("o", "o", "turn", "command", "Findings, command line and differences in turn.", (FLAGS,)),
    Key("delete,minus", "-", "drop", "take out", "Take the flag out of the profile.", (FLAGS,)),
    Key("X", "X", "mend_all", "mend all", "Apply every change that errors and warnings propose.", (FLAGS,)),
    Key("u", "u", "undo", "undo", "Undo the last change.", (FLAGS,)),
    Key("ctrl+r", "^r", "again", "ask again", "Ask the hosts and vLLM anew."),
    Key("question_mark,f1", "?", "help", "help", "All keys.", (FLAGS,)),
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


def told() -> dict[str, str]:
    """Each key as a person reads it, and what it does."""
    return {key.shown: key.help for key in KEYS}


def markdown_table() -> str:
    """The keys as the README has them."""
    lines = ["| Key | In the editor of flags |", "|---|---|"]
    lines += [f"| `{shown}` | {text.rstrip('.')} |" for shown, text in told().items()]
    return "\n".join(lines) + "\n"
