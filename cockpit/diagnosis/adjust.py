"""The arithmetic of signatures: which reading of a message fits the launch, and the numbers of its fix. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cockpit.diagnosis.reading import Hit
from cockpit.diagnosis.situation import Situation


@dataclass(frozen=True, slots=True)
class Told:
    """The variant of the signature that fits ("" for its own words) and more words for the templates."""

    variant: str = ""
    words: Mapping[str, str] = field(default_factory=dict)


Rule = Callable[[Hit, Situation], Told]


def _gib(text: str, default: float = 0.0) -> float:
    try:
        return float(text)
    except ValueError:
        return default


def adjusted(hit: Hit, facts: Situation) -> Told:
    """What the signature's rule says; without a rule its own words."""
    rule = RULES.get(hit.signature.adjust)
    return rule(hit, facts) if rule else Told()


RULES: dict[str, Rule] = {}
