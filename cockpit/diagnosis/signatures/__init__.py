"""What is known about messages, as data: one TOML file a field, read on first use.

A signature says which text to look for, what it means and what to change. Its keys:

``id``; ``kind`` (the contract's list); ``role``: ``cause`` (ends a launch and says why), ``hint`` (says why,
but only where something failed), ``effect`` (ends a launch; somebody else is the cause), ``vague`` (ends a
launch and says nothing: the answer is unknown and what to collect), ``stall`` (waits), ``wrapper`` (only
passes on), ``harmless``, ``stop``, ``ready``, ``progress``, ``begin`` (an attempt begins) and ``fact`` (named
parts that describe the launch); ``find``: texts, one of which must stand in the line; ``match``: a regular
expression on the message, over ``lines`` lines (``mark``: the named part that stands in the
decisive line); parts named alike but for a digit at the end count as one; ``any_level``: also in lines of
level INFO and WARNING;
``traceback``: only as an exception of a traceback; ``within``: only of one with a frame that this pattern is
found in; ``weight``: how much it outweighs other causes of the same
log; ``least``: how often a stall must have been told; ``dies``: it ends a server that is already up;
``remote``: without an address it speaks of the other node; ``explains``: kinds and ids that a hint is the
deeper reason of; ``adjust``: the rule in ``diagnosis.adjust`` that works with the numbers; ``cause``, ``fix``
and ``next`` are templates; ``source`` names program, version and file; ``example`` is a line it knows.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from cockpit.model.finding import Confidence


@dataclass(frozen=True, slots=True)
class FixTemplate:
    """A change in words, and as data with placeholders; ``change`` as in ``model.finding.Fix``."""

    text: str
    change: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Variant:
    """Another reading of the same message, chosen by the signature's rule."""

    kind: str = ""
    cause: str = ""
    fix: tuple[FixTemplate, ...] = ()


@dataclass(frozen=True, slots=True)
class Signature:
    """One known message; the package's docstring tells the fields."""

    id: str
    role: str
    find: tuple[bytes, ...]
    kind: str = ""
    match: str = ""
    lines: int = 1
    mark: str = ""
    any_level: bool = False
    traceback: bool = False
    within: str = ""
    weight: int = 0
    least: int = 1
    dies: bool = False
    remote: bool = False
    explains: frozenset[str] = frozenset()
    adjust: str = ""
    cause: str = ""
    fix: tuple[FixTemplate, ...] = ()
    next: tuple[str, ...] = ()
    confidence: Confidence = Confidence.CERTAIN
    variants: Mapping[str, Variant] = field(default_factory=dict)
    source: str = ""
    since: str = ""
    until: str = ""
    example: str = ""

    def comes_from(self, frames: Sequence[str]) -> bool:
        """Whether an exception with these frames is meant."""
        return not self.within or any(_compiled(self.within).search(frame) for frame in frames)

    def search(self, text: str) -> re.Match[str] | None:
        """The match in ``text``; without a pattern of its own the whole text."""
        return _compiled(self.match or r"(?s).*").search(text)


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _fixes(entries: list[Any]) -> tuple[FixTemplate, ...]:
    fixes = []
    for entry in entries:
        if isinstance(entry, str):
            fixes.append(FixTemplate(entry))
            continue
        changes = {key: value for key, value in entry.items() if key in ("set", "unset", "run")}
        fixes.append(FixTemplate(entry["text"], changes or None))
    return tuple(fixes)


def _signature(entry: dict[str, Any], defaults: dict[str, Any]) -> Signature:
    values = {**defaults, **entry}
    find = values.pop("find")
    values["find"] = tuple(text.encode() for text in ([find] if isinstance(find, str) else find))
    values["fix"] = _fixes(values.get("fix", []))
    values["next"] = tuple(values.get("next", []))
    values["explains"] = frozenset(values.get("explains", []))
    values["confidence"] = Confidence(values.get("confidence", "certain"))
    values["variants"] = {
        name: Variant(**{**variant, "fix": _fixes(variant.get("fix", []))})
        for name, variant in values.pop("variant", {}).items()
    }
    return Signature(**values)


def _read() -> Iterator[Signature]:
    for file in sorted(resources.files(__name__).iterdir(), key=lambda item: item.name):
        if file.name.endswith(".toml"):
            content = tomllib.loads(file.read_text(encoding="utf-8"))
            defaults = content.get("default", {})
            for entry in content.get("signature", []):
                yield _signature(entry, defaults)


@functools.cache
def signatures() -> tuple[Signature, ...]:
    """Every known signature, in the files' order."""
    return tuple(_read())
