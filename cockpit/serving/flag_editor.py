"""The model behind an editor of flags: completion, help, values checked as they are typed. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cockpit.model.profile import FlagValue
from cockpit.serving.arguments import Flags, canonical, flag_argv, written_key
from cockpit.serving.schema import Field, Flag, Kind, Schema
from cockpit.serving.schema_check import field_mistake, value_mistake


@dataclass(frozen=True, slots=True)
class Candidate:
    """One proposal: ``text`` to put in, and what to show beside it."""

    text: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Difference:
    """A flag whose value is another on two sides; None on a side that does not have it."""

    flag: str
    here: FlagValue
    there: FlagValue


class FlagEditor:
    """Answers for one schema. Names are taken in every spelling that vLLM takes."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def complete_name(self, prefix: str, present: Flags | None = None, most: int = 50) -> tuple[Candidate, ...]:
        """The flags that may be meant by ``prefix``: those that begin with it, then those that hold it; after
        ``FLAG.`` the flag's fields. Flags that ``present`` has already are left out."""
        wanted = canonical(prefix) if prefix.strip("-") else ""
        stem, dot, rest = wanted.partition(".")
        if dot:
            return self._fields(stem, rest)[:most]
        have = {canonical(key) for key in present or {}}
        named = [flag for flag in self.schema.flags if flag.name not in have]
        first = [flag for flag in named if flag.name.startswith(wanted)]
        rest_of = [flag for flag in named if wanted and wanted in flag.name and flag not in first]
        return tuple(Candidate(flag.name, one_line(flag)) for flag in (*first, *rest_of))[:most]

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
        """The value that ``text``, typed for the flag ``name``, stands for in a profile."""
        flag = self.schema.find(name)
        stripped = text.strip()
        if flag is None:
            return text
        if flag.kind is Kind.SWITCH and stripped in ("true", "false", ""):
            return stripped != "false"
        if flag.kind in (Kind.JSON, Kind.JSON_OR_TEXT) and stripped.startswith("{"):
            try:
                read = json.loads(stripped)
            except ValueError:
                return text
            return read if isinstance(read, dict) else text
        if flag.kind in (Kind.INT, Kind.SIZE, Kind.SIZE_OR_AUTO) and stripped.lstrip("-").isdigit():
            return int(stripped)
        if flag.kind is Kind.FLOAT:
            try:
                return float(stripped)
            except ValueError:
                return text
        return text

    def differing(self, flags: Flags) -> tuple[str, ...]:
        """The keys of ``flags`` whose value is not vLLM's default."""
        return tuple(key for key, value in flags.items() if not self._is_default(key, value))

    def _is_default(self, key: str, value: FlagValue) -> bool:
        flag = self.schema.find(key)
        if flag is None or "." in key or flag.default is None:
            return False
        said = not value if canonical(key).startswith("no-") and flag.name != canonical(key) else value
        return _text(said) == _text(flag.default)

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
        return _text(flag.default) if flag and flag.default is not None else ""


def differences(here: Flags, there: Flags) -> tuple[Difference, ...]:
    """What two sets of flags differ in, however each spells its flags: those of ``here`` first."""
    found = []
    for key, value in here.items():
        other = written_key(there, canonical(key))
        if other is None or _text(there[other]) != _text(value):
            found.append(Difference(canonical(key), value, there[other] if other else None))
    extra = [key for key in there if written_key(here, canonical(key)) is None]
    return (*found, *(Difference(canonical(key), None, there[key]) for key in extra))


def argv_differences(flags: Flags, argv: tuple[str, ...]) -> tuple[str, ...]:
    """The keys of ``flags`` that the command line of a run in progress does not have as they stand."""
    line = "\0".join(argv) + "\0"
    return tuple(key for key, value in flags.items() if "\0".join(flag_argv(key, value)) + "\0" not in line)


def one_line(flag: Flag) -> str:
    """A flag's value in a few words, for a list."""
    what = "|".join(flag.words) if flag.words and flag.kind is not Kind.SWITCH else flag.kind.value
    default = f" = {_text(flag.default)}" if flag.default is not None else ""
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
    default = f" = {_text(field.default)}" if field.default is not None else ""
    return f"{field.type}{default}" + (f"\n\n{field.help}" if field.help else "")


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value, sort_keys=True) if isinstance(value, Mapping | list) else str(value)


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
