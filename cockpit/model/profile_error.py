"""What is wrong with a profile: every mistake at once, each at its place."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cockpit.model.errors import CockpitError, inline

if TYPE_CHECKING:
    from cockpit.model.profile import Place

MOST = 40
"""Mistakes that an error's text tells one by one; the rest are counted."""


def nearest(word: str, words: Iterable[str]) -> str:
    """The one of ``words`` most like ``word``, "" when none is much like it."""
    known = {candidate.lower(): candidate for candidate in words}
    close = difflib.get_close_matches(word.lower().replace("_", "-"), known, 1, 0.6)
    close = close or difflib.get_close_matches(word.lower(), known, 1, 0.6)
    return known[close[0]] if close else ""


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake: where it stands, what was expected there, and the nearest right word ("" for none)."""

    place: Place
    message: str
    nearest: str = ""

    def __str__(self) -> str:
        hint = f" Did you mean `{self.nearest}`?" if self.nearest else ""
        return inline(f"{self.place}: {self.message}{hint}")

    def to_json(self) -> dict[str, Any]:
        """The mistake as data for ``--json``."""
        return {
            "file": self.place.file,
            "line": self.place.line,
            "column": self.place.column,
            "message": self.message,
            "nearest": self.nearest or None,
        }


class ProfileError(CockpitError):
    """A profile that can't be used. ``mistakes`` holds all that was found, in the file's order; the text tells
    the first ``MOST``. ``short`` is one line, for lists."""

    def __init__(self, file: str, mistakes: Sequence[Mistake]) -> None:
        self.file = file
        self.mistakes = tuple(sorted(mistakes, key=lambda m: (m.place.line, m.place.column)))
        count = "1 mistake" if len(self.mistakes) == 1 else f"{len(self.mistakes):,} mistakes"
        lines = [f"  {mistake}" for mistake in self.mistakes[:MOST]]
        left = len(self.mistakes) - len(lines)
        if left:
            lines.append(f"  … and {left:,} more: mend these first, and the rest are told then.")
        super().__init__("\n".join([f"The profile {inline(file)} can't be used, it has {count}:", *lines]))
        first = next((inline(f"line {one.place.line}: {one.message}") for one in self.mistakes), "")
        self.short = f"{count}, {first}" if len(self.mistakes) == 1 else f"{count}, the first: {first}"
