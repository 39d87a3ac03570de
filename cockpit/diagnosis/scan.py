"""Where known texts stand in a log of any size: offsets and line numbers, in one pass, with flat memory.

The log is read in chunks. Of each chunk only the distinct shapes of lines are looked at (digits taken out:
a long log repeats itself), so that hundreds of texts cost little; those that occur are then found in the
chunk itself.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from cockpit.diagnosis.sources import Data

CHUNK = 1 << 20
KEPT = 16
LONGEST = 1 << 16
_DIGITS = b"0123456789"
_WORDS = bytes(byte if chr(byte).isalpha() and byte < 128 else 32 for byte in range(256))


@dataclass(slots=True)
class Places:
    """Where one text stands: the first and the last ``KEPT`` places (offset, line)."""

    first: list[tuple[int, int]] = field(default_factory=list)
    last: list[tuple[int, int]] = field(default_factory=list)

    def add(self, offset: int, line: int) -> None:
        """One more place, further on than all before."""
        if len(self.first) < KEPT:
            self.first.append((offset, line))
            return
        self.last.append((offset, line))
        if len(self.last) > 2 * KEPT:
            del self.last[:KEPT]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        yield from self.first
        yield from self.last[-KEPT:]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A text, the same without digits, and the words that a log must have for it to occur."""

    text: bytes
    bare: bytes
    words: frozenset[bytes]


class Texts:
    """The texts to look for, prepared once. One of one or two words is found as whole words only."""

    def __init__(self, texts: Sequence[bytes]) -> None:
        self._wanted = [self._prepare(text) for text in dict.fromkeys(texts)]

    @staticmethod
    def _prepare(text: bytes) -> _Wanted:
        bare = text.translate(None, _DIGITS)
        words = bare.translate(_WORDS).split()
        return _Wanted(text, bare, frozenset(words[1:-1] if len(words) > 2 else words))

    def present(self, chunk: bytes) -> list[bytes]:
        """Those that may occur in ``chunk``."""
        shapes = b"\n".join(set(chunk.translate(None, _DIGITS).split(b"\n")))
        words = set(shapes.translate(_WORDS).split())
        return [wanted.text for wanted in self._wanted if wanted.words <= words and wanted.bare in shapes]


def chunks(data: Data, size: int = CHUNK) -> Iterator[tuple[int, bytes]]:
    """The log in pieces of whole lines (offset, bytes); a line longer than ``size`` is cut."""
    at, end = 0, len(data)
    while at < end:
        piece = bytes(data[at : at + size])
        if at + len(piece) < end:
            cut = piece.rfind(b"\n") + 1
            piece = piece[:cut] if cut else piece
        yield at, piece
        _let_go(data, at, len(piece))
        at += len(piece)


def _let_go(data: Data, at: int, length: int) -> None:
    """Tells the kernel that the mapped pages just read are not needed in memory any more. A fault maps pages
    before it too, up to a large folio's, so that those of the pieces before are let go again."""
    if isinstance(data, mmap.mmap):
        start = max(0, at - 4 * CHUNK)
        start -= start % mmap.PAGESIZE
        data.madvise(mmap.MADV_DONTNEED, start, min(at + length, len(data)) - start)


def _places(chunk: bytes, text: bytes) -> Iterator[int]:
    """The first and the last ``KEPT`` places of ``text``, one a line."""
    at, last = chunk.find(text), -1
    for _ in range(KEPT):
        if at < 0:
            return
        yield at
        last, end = at, chunk.find(b"\n", at)
        at = chunk.find(text, end) if end >= 0 else -1
    before = len(chunk)
    for _ in range(KEPT):
        at = chunk.rfind(text, last + len(text), before)
        if at < 0:
            return
        start = chunk.rfind(b"\n", 0, at) + 1
        if start <= last:
            return
        yield chunk.find(text, start)
        before = start


@dataclass(frozen=True, slots=True)
class Scan:
    """The places of every text that occurs, and the number of lines."""

    places: dict[bytes, Places]
    lines: int


def scan(data: Data, texts: Texts) -> Scan:
    """Looks for ``texts`` in ``data``. Within a line only the first place of a text counts."""
    places: dict[bytes, Places] = {}
    line = 1
    for base, chunk in chunks(data):
        found: list[tuple[int, bytes]] = []
        for text in texts.present(chunk):
            found += [(at, text) for at in _places(chunk, text)]
        found.sort()
        before = 0
        for at, text in found:
            line += chunk.count(b"\n", before, at)
            before = at
            places.setdefault(text, Places()).add(base + at, line)
        line += chunk.count(b"\n", before)
    return Scan(places, line)


def line_at(data: Data, offset: int) -> tuple[int, int]:
    """The bounds (start, end without the ``\\n``) of the line at ``offset``; at most ``LONGEST`` each way."""
    low = max(0, offset - LONGEST)
    start = data.rfind(b"\n", low, offset) + 1
    end = data.find(b"\n", offset, offset + LONGEST)
    if end < 0:
        end = min(len(data), offset + LONGEST)
    return (start if start > 0 else low), end


def text_at(data: Data, offset: int) -> str:
    """The line at ``offset`` as text; invalid UTF-8 becomes U+FFFD."""
    start, end = line_at(data, offset)
    return bytes(data[start:end]).decode("utf-8", "replace")


def lines_after(data: Data, offset: int, count: int) -> Iterator[tuple[int, str]]:
    """Up to ``count`` lines after the one at ``offset``: (offset, text)."""
    _, end = line_at(data, offset)
    for _ in range(count):
        at = end + 1
        if at >= len(data):
            return
        _, end = line_at(data, at)
        yield at, bytes(data[at:end]).decode("utf-8", "replace")


def lines_before(data: Data, offset: int, count: int) -> Iterator[tuple[int, str]]:
    """Up to ``count`` lines before the one at ``offset``, nearest first: (offset, text)."""
    start, _ = line_at(data, offset)
    for _ in range(count):
        if start <= 0:
            return
        at = start - 1
        start, _ = line_at(data, at)
        yield start, bytes(data[start:at]).decode("utf-8", "replace")
