"""The model behind an editor of flags: completion, help, values checked as they are typed. Pure."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cockpit.model.profile import FlagValue
from cockpit.serving.arguments import canonical
from cockpit.serving.flag_differences import value_text
from cockpit.serving.schema import Field, Flag, Kind, Schema
from cockpit.serving.schema_check import field_mistake, value_mistake


@dataclass(frozen=True, slots=True)
class Candidate:
    """One proposal: ``text`` to put in, and what to show beside it."""

    text: str
    detail: str = ""


class FlagEditor:
    """Answers for one schema. Names are taken in every spelling that vLLM takes."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def complete_name(self, prefix: str, most: int = 50) -> tuple[Candidate, ...]:
        """The flags that may be meant by ``prefix``: those that begin with it, those that hold it, then those
        whose help, group or choices do; after ``FLAG.`` the flag's fields."""
        wanted = canonical(prefix) if prefix.strip("-") else ""
        stem, dot, rest = wanted.partition(".")
        if dot:
            return self._fields(stem, rest)[:most]
        first = [flag for flag in self.schema.flags if flag.name.startswith(wanted)]
        found = [*first, *(flag for flag in self.schema.search(prefix) if flag not in first)]
        return tuple(Candidate(flag.name, one_line(flag)) for flag in found[:most])

    def complete_value(self, name: str, prefix: str = "", most: int = 50) -> tuple[Candidate, ...]:
        """The values that may be meant: the choices, the suggestions, or the parsers that vLLM has."""
        found = self._words(name)
        first = [word for word in found if word.lower().startswith(prefix.lower())]
        others = [word for word in found if prefix.lower() in word.lower() and word not in first]
        default = self._default(name)
        return tuple(Candidate(word, "default" if word == default else "") for word in (*first, *others))[:most]

    def help(self, name: str) -> str:
        """What is known of a flag, in lines: what it takes, its default, its spellings, its help."""
        flag = self.schema.find(name)
        if flag is None:
            near = self.schema.nearest(name)
            return f"vLLM {self.schema.version} knows no such flag." + (f" Do you mean {near}?" if near else "")
        _, dot, inner = canonical(name).partition(".")
        field = next((one for one in flag.fields if dot and one.name == inner), None)
        return _field_help(field) if field else flag_help(flag)

    def mistake(self, name: str, value: FlagValue) -> str:
        """What is wrong with a name and its value, as far as the schema knows; "" where nothing is."""
        flag = self.schema.find(name)
        if flag is None:
            return self.help(name)
        _, dot, inner = canonical(name).partition(".")
        return field_mistake(flag, inner, value) if dot else value_mistake(flag, value)

    def typed(self, name: str, text: str) -> FlagValue:
        """The value that ``text``, typed for the flag ``name``, stands for in a profile; of a flag that takes
        several, the words are a list, quoted as for a shell."""
        flag = self.schema.find(name)
        stripped = text.strip()
        if flag is None or "." in canonical(name):
            return _guessed(stripped)
        if stripped in ("true", "false", "") and (flag.kind is Kind.SWITCH or flag.bare):
            return stripped != "false"
        if flag.many:
            return _listed(stripped)
        if flag.kind in (Kind.JSON, Kind.JSON_OR_TEXT) and stripped.startswith("{"):
            try:
                read = json.loads(stripped)
            except ValueError:
                return text
            return read if isinstance(read, dict) else text
        if flag.kind in (Kind.INT, Kind.SIZE, Kind.SIZE_OR_AUTO):
            return _number(stripped, int)
        return _number(stripped, float) if flag.kind is Kind.FLOAT else stripped

    def shown(self, value: FlagValue) -> str:
        """A value as it is typed: what ``typed`` reads again."""
        if isinstance(value, list):
            return shlex.join(value_text(item) for item in value)
        return value_text(value)

    def _fields(self, stem: str, rest: str) -> tuple[Candidate, ...]:
        flag = self.schema.find(stem)
        found = [one for one in flag.fields if one.name.startswith(rest)] if flag else []
        return tuple(Candidate(f"{stem}.{one.name}", one.type) for one in found)

    def _words(self, name: str) -> tuple[str, ...]:
        stem, dot, inner = canonical(name).partition(".")
        registered = {
            "tool-call-parser": self.schema.tool_parsers,
            "reasoning-parser": self.schema.reasoning_parsers,
        }
        if stem in registered:
            return registered[stem]
        flag = self.schema.find(name)
        if flag is None:
            return ()
        if dot:
            return next((one.choices for one in flag.fields if one.name == inner), ())
        return flag.words

    def _default(self, name: str) -> str:
        flag = self.schema.find(name)
        return value_text(flag.default) if flag and flag.default is not None else ""


def _number(text: str, kind: Callable[[str], int | float]) -> FlagValue:
    """The number that ``text`` is, else the text: vLLM takes more, such as 16k and auto."""
    try:
        return kind(text) if re.fullmatch(r"-?[\d.]+(e-?\d+)?", text) else text
    except ValueError:
        return text


def _guessed(text: str) -> FlagValue:
    """A value whose flag tells nothing of its type: as JSON reads it, else text."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, bool | int | float | list | dict) else text


def _listed(text: str) -> FlagValue:
    try:
        words = shlex.split(text)
    except ValueError:
        return text
    if len(words) < 2:
        return _number(words[0], int) if words else text
    return [_number(word, int) for word in words]


def one_line(flag: Flag) -> str:
    """A flag's value in a few words, for a list."""
    what = "|".join(flag.words) if flag.words and flag.kind is not Kind.SWITCH else flag.kind.value
    default = f" = {value_text(flag.default)}" if flag.default is not None else ""
    return f"{what if len(what) <= 60 else what[:57] + '…'}{default}"


def flag_help(flag: Flag) -> str:
    """What is known of a flag, in lines."""
    lines = [one_line(flag)]
    if flag.words and flag.kind is not Kind.SWITCH:
        lines.append(("one of: " if flag.choices else "for instance: ") + ", ".join(flag.words))
    others = [*flag.aliases, *flag.negations]
    lines += [f"also: {', '.join(others)}"] if others else []
    lines += ["deprecated"] if flag.deprecated else []
    lines += ["", flag.help] if flag.help else []
    if flag.fields:
        lines += ["", "fields:", *(f"  {one.name}: {one.type}" for one in flag.fields)]
    return "\n".join(lines)


def _field_help(field: Field) -> str:
    default = f" = {value_text(field.default)}" if field.default is not None else ""
    return f"{field.type}{default}" + (f"\n\n{field.help}" if field.help else "")


def listing_json(flags: tuple[Flag, ...]) -> list[dict[str, Any]]:
    """Flags as ``flags PROFILE --list --json`` has them."""
    return [
        {
            "flag": flag.name,
            "options": list(flag.options),
            "kind": flag.kind.value,
            "choices": list(flag.choices),
            "suggestions": list(flag.suggestions),
            "default": flag.default,
            "group": flag.group,
            "help": flag.help,
            "deprecated": flag.deprecated,
            "fields": [
                {"name": one.name, "type": one.type, "choices": list(one.choices), "default": one.default}
                for one in flag.fields
            ],
        }
        for flag in flags
    ]
