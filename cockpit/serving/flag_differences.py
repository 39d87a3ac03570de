"""What two sets of flags differ in: a profile's and vLLM's defaults, or the command line of a run. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cockpit.model.profile import FlagValue
from cockpit.serving.arguments import Flags, canonical
from cockpit.serving.schema import Flag, Kind, Schema


@dataclass(frozen=True, slots=True)
class Difference:
    """A flag and its value on two sides, in words; None on a side that does not have it."""

    flag: str
    here: str | None
    there: str | None


def from_defaults(flags: Flags, schema: Schema) -> tuple[Difference, ...]:
    """The flags of a profile that are not as vLLM has them by default; ``there`` is the default, None where
    there is none to tell."""
    found = []
    for key, value in flags.items():
        flag = schema.find(key)
        name, text = _entry(key, _words_of(value), schema)
        default = value_text(flag.default) if flag and flag.default is not None and "." not in name else None
        if text != default:
            found.append(Difference(name, text, default))
    return tuple(found)


def between(here: Sequence[str], there: Sequence[str], schema: Schema) -> tuple[Difference, ...]:
    """What two command lines of ``vllm serve`` differ in, however each spells it; ``here``'s flags first."""
    ours, theirs = flags_of(here, schema), flags_of(there, schema)
    names = [*ours, *(name for name in theirs if name not in ours)]
    pairs = [Difference(name, ours.get(name), theirs.get(name)) for name in names]
    return tuple(one for one in pairs if one.here != one.there)


def flags_of(argv: Sequence[str], schema: Schema) -> dict[str, str]:
    """A command line's flags by their long names, their values in words; ``model`` is what is served."""
    found: dict[str, str] = {}
    key: str | None = None
    words: list[str] = []
    for word in (*argv[2:], "--"):
        if key is not None and not _is_flag(word, schema):
            words.append(word)
            continue
        if key is not None:
            name, text = _entry(key, words, schema)
            found[name] = text
        elif word != "--" and not word.startswith("-"):
            found.setdefault("model", word)
            continue
        key, joined, value = word.partition("=")
        words = [value] if joined else []
    return found


def _is_flag(word: str, schema: Schema) -> bool:
    """Whether a word begins a flag; a negative number does not."""
    if word.startswith("--"):
        return True
    return word.startswith("-") and not re.match(r"-[\d.]", word) and schema.find(word) is not None


def _words_of(value: FlagValue) -> list[str]:
    if value is None or value is True:
        return []
    return [value_text(item) for item in value] if isinstance(value, list) else [value_text(value)]


def _entry(key: str, words: Sequence[str], schema: Schema) -> tuple[str, str]:
    """A flag's long name and its value in words: a switch's is true or false, JSON is written one way."""
    flag = schema.find(key)
    written = canonical(key)
    if flag is None:
        return written, " ".join(words) or "true"
    stem, dot, field = written.partition(".")
    name = flag.name + dot + field
    if flag.kind is Kind.SWITCH:
        negative = bool(flag.negations) and stem.startswith("no-") and stem != flag.name
        return flag.name, "false" if negative != (list(words) == ["false"]) else "true"
    return name, " ".join(_plain(flag, word) for word in words) or "true"


def _plain(flag: Flag, word: str) -> str:
    if flag.kind in (Kind.JSON, Kind.JSON_OR_TEXT) and word.lstrip()[:1] in ("{", "["):
        try:
            return value_text(json.loads(word))
        except ValueError:
            return word
    return word


def value_text(value: object) -> str:
    """A value as it is typed and compared: true and false, JSON with its keys in order, else itself."""
    if value is None:
        return "true"
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value, sort_keys=True) if isinstance(value, Mapping | list) else str(value)
