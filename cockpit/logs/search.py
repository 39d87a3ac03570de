"""Searching a log: what is looked for, and how it is found in a stretch of whole lines.

Finders work on bytes in a buffer and give the position of the first hit in each line; ``sieve.Sieve`` takes
them over a file. A literal is found with ``bytes.find``; an expression is judged line by line, on text whose
invalid bytes are kept as surrogates, so that ``^``, ``$`` and ``\\s`` never reach into another line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from cockpit.logs.pattern import Pattern, PatternError, expression_pattern, literal_pattern

Buffer = bytes | bytearray


class Finder(Protocol):
    """Finds lines. ``provisional`` says that the last line is not finished yet: whatever the finder remembers
    of one line for the next must not be changed by it."""

    def offsets(self, data: Buffer, start: int, end: int, provisional: bool = False) -> list[int]:
        """One position in ``data`` for each matching line of ``start`` … ``end``, ascending."""
        ...


@dataclass(frozen=True, slots=True)
class Query:
    """What is searched for. Without ``case``, capital letters match small ones and the other way round."""

    pattern: str
    regex: bool = False
    case: bool = False

    def compiled(self) -> Pattern:
        """The query as an expression for one line of text. Raises ``PatternError``."""
        make = expression_pattern if self.regex else literal_pattern
        return make(self.pattern, case=self.case)

    def finder(self) -> Finder:
        """The fastest finder for it. Raises ``PatternError``."""
        if not self.pattern or "\n" in self.pattern:
            raise PatternError("There is nothing to search for.", remedy="Type a word of one line.")
        case = self.case or self.pattern.lower() == self.pattern.upper()
        if not self.regex and (case or self.pattern.isascii()):
            return Literal(self.pattern.encode("utf-8", "surrogateescape"), case)
        required = required_literal(self.pattern) if self.regex and self.case else b""
        return Expression(self.compiled(), required)


class Characters:
    """The bytes that a text is made of, each as it is or (without ``case``) small or capital. Where one of them
    does not occur, the text does not: to look for a byte costs a tenth of looking for a text."""

    def __init__(self, text: bytes, case: bool = True) -> None:
        characters = [bytes([byte]) for byte in dict.fromkeys(text)]
        self._either = tuple(
            dict.fromkeys((one,) if case else tuple({one.lower(), one.upper()}) for one in characters)
        )

    def lack(self, data: Buffer, start: int, end: int) -> bool:
        """Whether one of them does not occur in ``start`` … ``end``."""
        return any(all(data.find(byte, start, end) < 0 for byte in either) for either in self._either)


class Literal:
    """Bytes as they are, or ASCII without regard to case."""

    def __init__(self, needle: bytes, case: bool) -> None:
        self._needle = needle if case else needle.lower()
        self._case = case
        self._characters = Characters(needle, case)

    def offsets(self, data: Buffer, start: int, end: int, provisional: bool = False) -> list[int]:
        """One position for each line that has the needle."""
        base = 0
        if self._characters.lack(data, start, end):
            return []
        if not self._case:
            base, data = start, data[start:end].lower()
        needle, found = self._needle, list[int]()
        end -= base
        at = data.find(needle, start - base, end)
        while at >= 0:
            found.append(base + at)
            line_end = data.find(b"\n", at, end)
            if line_end < 0:
                break
            at = data.find(needle, line_end + 1, end)
        return found


class Expression:
    """A regular expression, judged line by line; ``required`` are bytes without which no line can match. Raises
    ``PatternTooSlow`` where it does not come to an end."""

    def __init__(self, pattern: Pattern, required: bytes = b"") -> None:
        self._pattern = pattern
        self._required = Literal(required, True) if required else None

    def offsets(self, data: Buffer, start: int, end: int, provisional: bool = False) -> list[int]:
        """One position for each line that matches."""
        if self._required is None:
            if self._pattern.across:
                return self._in_text(bytes(data[start:end]).decode("utf-8", "surrogateescape"), start)
            return lines_where(data, start, end, self._place)
        found: list[int] = []
        for hit in self._required.offsets(data, start, end):
            line_start = max(start, data.rfind(b"\n", start, hit) + 1)
            line_end = data.find(b"\n", hit, end)
            line = bytes(data[line_start : line_end if line_end >= 0 else end])
            place = self._place(line.decode("utf-8", "surrogateescape"))
            if place is not None:
                found.append(line_start + place)
        return found

    def _in_text(self, text: str, base: int) -> list[int]:
        """All lines at once: a match that begins in a line and goes past its end is looked for once more, in
        that line alone."""
        found: list[int] = []
        at, counted, plain = 0, 0, text.isascii()
        while at < len(text) and (span := self._pattern.span(text, at)) is not None:
            first, last = span
            line_end = text.find("\n", first)
            line_end = len(text) if line_end < 0 else line_end
            if last > line_end:
                line_start = text.rfind("\n", 0, first) + 1
                again = self._pattern.span(text[line_start:line_end])
                first = line_start + again[0] if again else -1
            elif first == len(text) and text.endswith("\n"):
                break
            if first >= 0:
                base += first - counted if plain else _size(text[counted:first])
                counted = first
                found.append(base)
            at = line_end + 1
        return found

    def _place(self, line: str) -> int | None:
        span = self._pattern.span(line)
        return None if span is None else _size(line[: span[0]])


def _size(text: str) -> int:
    """How many bytes the text was."""
    return len(text.encode("utf-8", "surrogateescape"))


def lines_where(data: Buffer, start: int, end: int, place: Callable[[str], int | None]) -> list[int]:
    """The positions that ``place`` finds (in bytes from the line's start, None for no hit) in the lines of
    ``data``; what stands after the last ``\\n`` is a line too, unless it is empty."""
    found: list[int] = []
    for line_start, line in text_lines(data, start, end):
        at = place(line)
        if at is not None:
            found.append(line_start + at)
    return found


def text_lines(data: Buffer, start: int, end: int) -> Iterator[tuple[int, str]]:
    """The lines of ``start`` … ``end`` as text, each with the position of its first byte."""
    raw = bytes(data[start:end])
    at = start
    if raw.isascii():
        # All at once: a third of the time.
        texts = raw.decode("ascii").split("\n")
        if not texts[-1]:
            texts.pop()
        for text in texts:
            yield at, text
            at += len(text) + 1
        return
    lines = raw.split(b"\n")
    if not lines[-1]:
        lines.pop()
    for line in lines:
        yield at, line.decode("utf-8", "surrogateescape")
        at += len(line) + 1


_PLAIN: Final = re.compile(r"(?:[A-Za-z0-9 _/:=,@#%&;<>!\"'`~-]|\\[.\](){}+*?^$|\\/-])+")
_UNCLEAR: Final = re.compile(r"[|(\[{]|\\[0-9NUux]")


def required_literal(pattern: str) -> bytes:
    """The longest run of plain characters that every match must hold, b"" where that is not plain to see."""
    if not pattern.isascii() or _UNCLEAR.search(pattern):
        return b""
    best = ""
    for match in _PLAIN.finditer(pattern):
        run, after = match[0], pattern[match.end() : match.end() + 1]
        if match.start() and pattern[match.start() - 1] == "\\":
            run = run[1:]
        if after in ("?", "*") and after:
            run = run[:-2] if run[-2:-1] == "\\" else run[:-1]
        best = max(best, re.sub(r"\\(.)", r"\1", run), key=len)
    return best.encode()
