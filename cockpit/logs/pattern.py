"""A regular expression that can be given up.

An expression typed by hand may backtrack for ever, and ``re`` holds the interpreter's lock while it does: the
screen would freeze, and no thread could cancel it. ``regex`` takes the same expressions, lets other threads run
meanwhile and ends at a time limit. (A child process would have to be given every byte and be killed for the
same; RE2 never backtracks and knows neither look-around nor back-references, which people type.)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from cockpit.model.errors import CockpitError

PATIENCE: Final = 3.0
"""Seconds that one search in at most a megabyte may take: an honest one takes a twentieth of one."""
GLANCE: Final = 0.02
"""Seconds that it may take to mark hits in one row of the screen."""

_UNLIKE: Final = re.compile(r"\(\?(?!:)|\\[ABGKMRXZmz]|[*+?}]\+|\\[0-9]")


class PatternError(CockpitError):
    """The text typed as a pattern is no regular expression, or is empty."""


class PatternTooSlow(CockpitError):
    """The expression did not come to an end within its time."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled expression. ``across`` tells that its matches in single lines can be found in a text of many:
    whatever matches within a line matches there too, at the same place."""

    compiled: Any
    limited: bool
    across: bool = False

    def span(self, text: str, start: int = 0, patience: float = PATIENCE) -> tuple[int, int] | None:
        """Where the first match from ``start`` on begins and ends. Raises ``PatternTooSlow``."""
        if not self.limited:
            match = self.compiled.search(text, start)
        else:
            try:
                match = self.compiled.search(text, start, timeout=patience, concurrent=patience >= 1)
            except TimeoutError:
                raise PatternTooSlow(
                    "The expression takes too long: it tries the same text over and over.",
                    remedy="Write it so that no repeated group can match the same text in two ways.",
                ) from None
        return match.span() if match is not None else None


def literal_pattern(text: str, *, case: bool) -> Pattern:
    """The text as it is; it never backtracks."""
    return Pattern(re.compile(re.escape(text), 0 if case else re.IGNORECASE), limited=False)


def expression_pattern(text: str, *, case: bool) -> Pattern:
    """A regular expression for one line of text. Raises ``PatternError``."""
    import regex

    try:
        compiled = regex.compile(text, regex.V0 | regex.MULTILINE | (0 if case else regex.IGNORECASE))
    except (regex.error, OverflowError, RecursionError, ValueError) as error:
        raise PatternError(
            f"“{text}” is no regular expression: {error}.", remedy="Switch to a literal search or mend it."
        ) from None
    return Pattern(compiled, limited=True, across=not _UNLIKE.search(text))
