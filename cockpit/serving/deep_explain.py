"""vLLM's commonest messages about flags in plain words, from ``data/explanations.toml``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from cockpit.model.finding import Fix
from cockpit.serving.arguments import Flags, written_key


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a message means: why, the flag to blame ("" where the message names it itself), and the change."""

    why: str
    flag: str = ""
    fix: tuple[Fix, ...] = ()


@dataclass(frozen=True, slots=True)
class _Entry:
    match: re.Pattern[str]
    why: str
    flag: str
    set: Mapping[str, Any]
    unset: tuple[str, ...]
    text: str


def explained(message: str, flags: Flags) -> Explanation | None:
    """The explanation of ``message``; its change is for the profile whose flags are ``flags``. None for a
    message that is not among the common ones."""
    for entry in _entries():
        found = entry.match.search(message)
        if found:
            words = {key: value for key, value in found.groupdict().items() if value is not None}
            return Explanation(_filled(entry.why, words), entry.flag, _fix(entry, words, flags))
    return None


@cache
def _entries() -> tuple[_Entry, ...]:
    text = files("cockpit.serving").joinpath("data", "explanations.toml").read_text()
    return tuple(
        _Entry(
            re.compile(row["match"], re.DOTALL),
            row["why"],
            row.get("flag", ""),
            row.get("set", {}),
            tuple(row.get("unset", ())),
            row.get("text", ""),
        )
        for row in tomllib.loads(text)["explanation"]
    )


def _fix(entry: _Entry, words: Mapping[str, str], flags: Flags) -> tuple[Fix, ...]:
    if entry.text:
        return (Fix(_filled(entry.text, words)),)
    if entry.unset:
        keys = [key for name in entry.unset if (key := written_key(flags, name)) is not None]
        return (Fix(f"profile  - {', '.join(keys)}", {"unset": [path(key) for key in keys]}),) if keys else ()
    if not entry.set:
        return ()
    values = {written_key(flags, name) or name: _value(value, words) for name, value in entry.set.items()}
    told = ", ".join(f"{key}: {_word(value)}" for key, value in values.items())
    return (Fix(f"profile  {told}", {"set": {path(key): value for key, value in values.items()}}),)


def path(key: str) -> str:
    """A flag's key as a path in the profile."""
    return f"serve.flags.{key}"


def _value(value: Any, words: Mapping[str, str]) -> Any:
    if not isinstance(value, str):
        return value
    text = _filled(value, words)
    return int(text) if text.isdigit() else text


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _filled(text: str, words: Mapping[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda match: words.get(match[1], match[0]), text)
