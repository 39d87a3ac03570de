"""The flags of one vLLM, as its own parser has them. Pure: what ``scripts/flag_schema.py`` printed, read."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

from cockpit.serving.arguments import canonical


class Kind(StrEnum):
    """How a flag's value is read. A size is a whole number that may end in k, M, G or T (1k is 1000, 1K is
    1024); ``size-or-auto`` takes ``auto`` and -1 too."""

    SWITCH = "switch"
    INT = "int"
    SIZE = "size"
    SIZE_OR_AUTO = "size-or-auto"
    FLOAT = "float"
    TEXT = "text"
    JSON = "json"
    JSON_OR_TEXT = "json-or-text"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a flag whose value is JSON; ``type`` as vLLM's source writes it."""

    name: str
    type: str
    choices: tuple[str, ...] = ()
    default: Any = None
    help: str = ""


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag. ``name`` is the long option without dashes, ``aliases`` are its other spellings and
    ``negations`` its ``--no-`` forms, with their dashes. ``choices`` are all that is taken, ``suggestions``
    some of it. ``optional`` takes the word None, ``many`` several values, ``bare`` no value at all."""

    name: str
    kind: Kind
    aliases: tuple[str, ...] = ()
    negations: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    suggestions: tuple[str, ...] = ()
    default: Any = None
    group: str = ""
    help: str = ""
    optional: bool = False
    many: bool = False
    bare: bool = False
    deprecated: bool = False
    fields: tuple[Field, ...] = ()

    @property
    def options(self) -> tuple[str, ...]:
        """Every option that the parser knows for it, with dashes."""
        long = f"--{self.name}" if len(self.name) > 1 else f"-{self.name}"
        return (long, *self.aliases, *self.negations)

    @property
    def words(self) -> tuple[str, ...]:
        """The values that can be proposed."""
        return self.choices or self.suggestions or (("true", "false") if self.kind is Kind.SWITCH else ())


@dataclass(frozen=True)
class Schema:
    """Every flag of one vLLM. ``source`` is runtime or shipped; ``tool_parsers`` and ``reasoning_parsers``
    are the names it has registered."""

    version: str
    flags: tuple[Flag, ...]
    source: str = "runtime"
    tool_parsers: tuple[str, ...] = ()
    reasoning_parsers: tuple[str, ...] = ()
    at: str = field(default="", compare=False)

    @cached_property
    def by_option(self) -> Mapping[str, Flag]:
        """Each option, with its dashes, to its flag."""
        return {option: flag for flag in self.flags for option in flag.options}

    @cached_property
    def by_name(self) -> Mapping[str, Flag]:
        """Each long name, without dashes, to its flag: second long names too."""
        return {option[2:]: flag for flag in self.flags for option in flag.options if option.startswith("--")}

    def find(self, name: str) -> Flag | None:
        """The flag that a profile writes as ``name``: underscores, short names, ``no-`` and fields after a
        dot are taken as vLLM takes them, and so is the beginning of a name that only one flag has; None where
        there is none."""
        stem = canonical(name).partition(".")[0]
        found = self.by_name.get(stem) or self.by_option.get(f"-{name.lstrip('-').partition('.')[0]}")
        positive = self.by_name.get(stem.removeprefix("no-")) if stem.startswith("no-") else None
        if found is None and positive is not None:
            return positive if positive.negations else None
        if found is None and stem:
            begun = {flag.name: flag for name, flag in self.by_name.items() if name.startswith(stem)}
            return next(iter(begun.values())) if len(begun) == 1 else None
        return found

    def nearest(self, name: str) -> str:
        """The long name nearest to ``name``; "" where none is near."""
        near = difflib.get_close_matches(canonical(name).partition(".")[0], list(self.by_name), 1, 0.7)
        return near[0] if near else ""

    def search(self, word: str = "") -> tuple[Flag, ...]:
        """The flags whose name, spelling, group, choices or help hold ``word``; names that do come first."""
        wanted = word.lower().lstrip("-").replace("_", "-")
        if not wanted:
            return self.flags
        named = [flag for flag in self.flags if any(wanted in option.lower() for option in flag.options)]
        rest = [flag for flag in self.flags if flag not in named and wanted in _told(flag)]
        return (*named, *rest)

    def to_json(self) -> dict[str, Any]:
        """The schema as it is kept; ``read_schema`` reads it."""
        return {
            "version": self.version,
            "at": self.at,
            "tool_parsers": list(self.tool_parsers),
            "reasoning_parsers": list(self.reasoning_parsers),
            "flags": [flag_json(flag) for flag in self.flags],
        }


def _told(flag: Flag) -> str:
    parts = (flag.group, flag.help, *flag.words, *(one.name for one in flag.fields))
    return " ".join(parts).lower().replace("_", "-")


def flag_json(flag: Flag) -> dict[str, Any]:
    """A flag as data; what is empty or false is left out."""
    told: dict[str, Any] = {"name": flag.name, "kind": flag.kind.value}
    for key in ("aliases", "negations", "choices", "suggestions"):
        told[key] = list(getattr(flag, key))
    for key in ("group", "help", "optional", "many", "bare", "deprecated"):
        told[key] = getattr(flag, key)
    told["fields"] = [_field_json(one) for one in flag.fields]
    told = {key: value for key, value in told.items() if value}
    return told if flag.default is None else {**told, "default": flag.default}


def _field_json(one: Field) -> dict[str, Any]:
    told = {"name": one.name, "type": one.type, "choices": list(one.choices), "help": one.help}
    told = {key: value for key, value in told.items() if value}
    return told if one.default is None else {**told, "default": one.default}


def read_schema(data: Mapping[str, Any], source: str = "runtime") -> Schema:
    """A kept schema; raises ``ValueError`` on anything else."""
    try:
        return Schema(
            version=str(data["version"]),
            flags=tuple(_flag(row) for row in data["flags"]),
            source=source,
            tool_parsers=_texts(data.get("tool_parsers", ())),
            reasoning_parsers=_texts(data.get("reasoning_parsers", ())),
            at=str(data.get("at", "")),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a schema of vLLM's flags: {error!r}") from error


def schema_of_answer(answer: Mapping[str, Any], at: str = "") -> Schema:
    """The schema in an answer of ``scripts/parser_verdict.py``; raises ``ValueError``."""
    try:
        parsers = answer.get("parsers", {})
        rows = [_as_kept(row) for row in answer["schema"]]
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"not the flags of a parser: {error!r}") from error
    kept = {"version": answer.get("version", ""), "at": at, "flags": rows}
    kept |= {"tool_parsers": parsers.get("tool", ()), "reasoning_parsers": parsers.get("reasoning", ())}
    return read_schema(kept)


def _as_kept(row: Mapping[str, Any]) -> dict[str, Any]:
    own = f"--{row['name']}" if f"--{row['name']}" in row["options"] else f"-{row['name']}"
    return {**row, "aliases": [option for option in row["options"] if option != own]}


def _flag(row: Mapping[str, Any]) -> Flag:
    return Flag(
        name=str(row["name"]),
        kind=Kind(row["kind"]),
        **{key: _texts(row.get(key, ())) for key in ("aliases", "negations", "choices", "suggestions")},
        default=row.get("default"),
        group=str(row.get("group", "")),
        help=str(row.get("help", "")),
        optional=bool(row.get("optional")),
        many=bool(row.get("many")),
        bare=bool(row.get("bare")),
        deprecated=bool(row.get("deprecated")),
        fields=tuple(
            Field(
                str(one["name"]),
                str(one.get("type", "")),
                _texts(one.get("choices", ())),
                one.get("default"),
                str(one.get("help", "")),
            )
            for one in row.get("fields", ())
        ),
    )


def _texts(values: Iterable[Any]) -> tuple[str, ...]:
    return tuple(str(value) for value in values)


def compact(schema: Schema) -> str:
    """The schema as it is shipped: no help texts, a line a flag, so that versions can be compared."""
    kept = schema.to_json()
    kept.pop("at")
    rows = kept.pop("flags")
    for row in rows:
        row.pop("help", None)
        for one in row.get("fields", ()):
            one.pop("help", None)
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    head = json.dumps(kept, separators=(",", ":"))[1:-1]
    return f'{{{head},"flags":[\n{lines}\n]}}\n'
