"""Where known texts stand in a log of any size: offsets and line numbers, in one pass, with flat memory.

The log is read in chunks. Of each chunk only the distinct shapes of lines are looked at (digits taken out:
a long log repeats itself), and of each shape only the texts whose longest word it has, so that hundreds of
texts cost little.
"""

from __future__ import annotations

import mmap
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain

from cockpit.diagnosis.unwrap import Data

CHUNK = 1 << 20
KEPT = 16
LONGEST = 1 << 16
_DIGITS = b"0123456789"
_WORDS = bytes(byte if byte == 10 or (chr(byte).isalpha() and byte < 128) else 32 for byte in range(256))
"""Everything but letters and line ends becomes a space."""


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

    def some(self, count: int = KEPT) -> list[tuple[int, int]]:
        """The first and the last ``count`` places; ``count`` is at least 1."""
        return [*self.first[:count], *(self.first[count:] + self.last)[-count:]]


class Texts:
    """The texts to look for, prepared once: each under a word of it that is long and stands in few others.
    A text of one or two words is found as whole words only."""

    def __init__(self, texts: Sequence[bytes]) -> None:
        texts = list(dict.fromkeys(texts))
        counts = Counter(word for text in texts for word in _inner(text))
        self._by_key: dict[bytes, list[tuple[bytes, bytes]]] = {}
        for text in texts:
            key = min(_inner(text), key=lambda word: (len(word) < 5, counts[word], -len(word)), default=b"")
            self._by_key.setdefault(key, []).append((text, text.translate(None, _DIGITS)))
        self._keyless = self._by_key.pop(b"", [])
        self._keys = frozenset(self._by_key)

    def present(self, shapes: Sequence[bytes]) -> dict[bytes, list[bytes]]:
        """Those of ``shapes`` (lines without digits, each once) in which texts may stand, with the texts."""
        joined = b"\n".join(shapes)
        keyless = [wanted for wanted in self._keyless if wanted[1] in joined]
        found: dict[bytes, list[bytes]] = {}
        near = self._keys.intersection
        for shape, words in zip(shapes, joined.translate(_WORDS).split(b"\n"), strict=True):
            wanted = list(keyless)
            for key in near(words.split()):
                wanted += self._by_key[key]
            if wanted:
                texts = [text for text, bare in wanted if bare in shape]
                if texts:
                    found[shape] = texts
        return found


def _inner(text: bytes) -> list[bytes]:
    """The words that a line must have for ``text`` to stand in it; the outer ones may be parts of longer words."""
    words = text.translate(None, _DIGITS).translate(_WORDS).split()
    return words[1:-1] if len(words) > 2 else words


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


def _places(chunk: bytes, texts: Texts) -> tuple[dict[bytes, list[tuple[int, int]]], int]:
    """Where texts stand in ``chunk``: of each the first and the last ``KEPT`` places (offset, line from 0), one a
    line; and the number of line ends."""
    shapes = chunk.translate(None, _DIGITS).split(b"\n")
    present = texts.present(list(dict.fromkeys(shapes)))
    if not present:
        return {}, len(shapes) - 1
    lines = chunk.split(b"\n")
    kept: defaultdict[bytes, tuple[list[int], deque[int]]] = defaultdict(lambda: ([], deque(maxlen=KEPT)))
    for number, shape in enumerate(shapes):
        for text in present.get(shape, ()):
            if text in lines[number]:
                first, last = kept[text]
                (first if len(first) < KEPT else last).append(number)
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    return {
        text: [(starts[number] + lines[number].find(text), number) for number in chain(first, last)]
        for text, (first, last) in kept.items()
    }, len(lines) - 1


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
        found, ends = _places(chunk, texts)
        for text, own in sorted(found.items(), key=lambda item: (item[1][0], item[0])):
            for offset, number in own:
                places.setdefault(text, Places()).add(base + offset, line + number)
        line += ends
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
