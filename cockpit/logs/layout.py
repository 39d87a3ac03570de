"""One line of a log as cells: styles, widths, wrapping; a long line in parts.

A line longer than 16 KiB is cut into parts of at least 4 KiB, never inside a character or a colour sequence,
and only the parts that are on the screen are read: its width costs one pass, its display never more than two
parts. Wrapped, each part begins a row of its own. Pure: bytes in, pieces out.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from wcwidth import wcwidth

from cockpit.logs.blocks import LogFile
from cockpit.logs.sanitise import PLAIN, SGR, Sgr, apply_sgr, steady

LONG: Final = 16 * 1024
PART: Final = 4 * 1024
MOST_PARTS: Final = 4096
_TAB: Final = 8
_LOOK_BACK: Final = 64 * 1024
_CUT: Final = 80
_BLANK: Final = re.compile(rb"(?:\s|\x1b\[[0-9;:?]*[mK])*")
_COLOURS: Final = re.compile(rb"(?:" + SGR.pattern.encode() + rb")*")


class _Widths(dict[str, int]):
    """Cells of a character of ``steady`` text; fills itself."""

    def __missing__(self, char: str) -> int:
        width = max(0, wcwidth(char))
        if len(self) < 16384:
            self[char] = width
        return width


_WIDTHS: Final = _Widths()
_width_of: Final = _WIDTHS.__getitem__


def cells_of(text: str) -> int:
    """How many cells ``steady`` text takes."""
    return len(text) if text.isascii() else sum(map(_width_of, text))


@dataclass(frozen=True, slots=True)
class Run:
    """Characters ``start`` … ``end`` of a part's text have this style."""

    start: int
    end: int
    style: Sgr


class Part:
    """A stretch of a line: its text, safe to show, with the runs of its styles."""

    __slots__ = ("_ends", "_rows", "_rows_width", "cells", "plain", "runs", "style", "text")

    def __init__(self, raw: str, style: Sgr, column: int = 0) -> None:
        self.text, self.runs, self.style = _pieces(raw, style, column)
        self.plain = self.text.isascii()
        self._ends: list[int] | None = None
        self.cells = len(self.text) if self.plain else self.ends[-1]
        self._rows: Sequence[int] = ()
        self._rows_width = 0

    @property
    def ends(self) -> list[int]:
        """The cell at which each character ends; empty for plain text."""
        if self._ends is None:
            self._ends = [] if self.plain else list(accumulate(map(_width_of, self.text)))
        return self._ends

    def crop(self, start: int, end: int) -> tuple[int, int, int]:
        """The characters that lie within cells ``start`` … ``end``: first, past the last, and the cells left
        blank before them (a wide character that is cut in half is left out)."""
        if self.plain:
            return min(start, len(self.text)), min(end, len(self.text)), 0
        ends = self.ends
        first = bisect_right(ends, start)
        if first < len(ends) and start and ends[first] - _width_of(self.text[first]) < start:
            first += 1
        last = bisect_right(ends, end)
        if first >= last:
            return last, last, 0
        return first, last, max(0, (ends[first] - _width_of(self.text[first])) - start)

    def rows(self, width: int) -> Sequence[int]:
        """The first character of each row when wrapped at ``width`` cells; one row at least."""
        if self._rows_width != width:
            self._rows, self._rows_width = self._wrap(width), width
        return self._rows

    def _wrap(self, width: int) -> Sequence[int]:
        size = len(self.text)
        if self.plain:
            return range(0, max(1, size), width)
        ends, starts, at, cell = self.ends, [0], 0, 0
        while True:
            following = max(at + 1, bisect_right(ends, cell + width))
            if following >= size:
                return starts
            starts.append(following)
            at, cell = following, ends[following - 1]


def _pieces(raw: str, style: Sgr, column: int) -> tuple[str, tuple[Run, ...], Sgr]:
    """The text to show, its runs, and the style it ends with."""
    if "\x1b" not in raw:
        text = _shown(raw, column)
        return text, (Run(0, len(text), style),) if text else (), style
    texts: list[str] = []
    runs: list[Run] = []
    at = size = 0
    for match in SGR.finditer(raw):
        if match.start() > at:
            text = _shown(raw[at : match.start()], column)
            runs.append(Run(size, size + len(text), style))
            size, column = size + len(text), column + cells_of(text)
            texts.append(text)
        style, at = apply_sgr(style, match[1]), match.end()
    if at < len(raw):
        text = _shown(raw[at:], column)
        runs.append(Run(size, size + len(text), style))
        texts.append(text)
    return "".join(texts), tuple(runs), style


def _shown(raw: str, column: int) -> str:
    """``raw`` safe to show, its tabs spaces up to the next multiple of eight."""
    if "\t" not in raw:
        return steady(raw)
    shown = ""
    first, *others = raw.split("\t")
    shown = steady(first)
    cell = column + cells_of(shown)
    for other in others:
        gap = _TAB - cell % _TAB
        text = steady(other)
        shown += " " * gap + text
        cell += gap + cells_of(text)
    return shown


class LineLayout:
    """A line's parts. ``raw`` shows carriage returns; otherwise a progress bar shows its last state, and
    ``hidden`` tells that earlier ones are not shown."""

    def __init__(self, file: LogFile, start: int, end: int, raw: bool = False) -> None:
        self._file = file
        self.begin, self.end = (start, end) if raw else _last_state(file, start, end)
        self.hidden = self.begin > start
        size = self.end - self.begin
        self._step = size if size <= LONG else max(PART, -(-size // MOST_PARTS))
        self.parts = 1 if size <= LONG else -(-size // self._step)
        self._kept: OrderedDict[int, Part] = OrderedDict()
        self._cuts: dict[int, int] = {}
        self._cells = array("Q", [0])

    def _cut(self, number: int) -> int:
        """The offset at which part ``number`` begins."""
        if number <= 0:
            return self.begin
        if number >= self.parts:
            return self.end
        cut = self._cuts.get(number)
        if cut is None:
            cut = self._cuts[number] = self._good_cut(self.begin + number * self._step)
        return cut

    def _good_cut(self, offset: int) -> int:
        """A place at or shortly before ``offset`` that splits neither a character nor a colour sequence."""
        before = self._file.read(offset - _CUT, offset + 1)
        at = len(before) - 1
        for back in range(4):
            if at - back < 0 or before[at - back] & 0xC0 != 0x80:
                at -= back
                break
        escape = before.rfind(b"\x1b", 0, at)
        if escape >= 0:
            tail = self._file.read(offset - _CUT + escape, offset - _CUT + escape + _CUT).decode("latin-1")
            match = SGR.match(tail)
            if match is not None and escape + match.end() > at:
                at = escape
        return offset - _CUT + at

    def part(self, number: int) -> Part:
        """Part ``number``, from 0."""
        part = self._kept.get(number)
        if part is None:
            start, end = self._cut(number), self._cut(number + 1)
            raw = self._file.read(start, end).decode("utf-8", "surrogateescape")
            part = self._kept[number] = Part(raw, self._style_before(number, start))
            if len(self._kept) > 8:
                self._kept.popitem(last=False)
        return part

    def shows(self, number: int) -> bool:
        """Whether part ``number`` shows anything: colour sequences alone do not."""
        return _COLOURS.fullmatch(self._file.read(self._cut(number), self._cut(number + 1))) is None

    def _style_before(self, number: int, start: int) -> Sgr:
        """The style that the part begins with; colours set more than 64 KiB before are forgotten."""
        style = PLAIN
        if number:
            before = self._file.read(max(self.begin, start - _LOOK_BACK), start)
            if b"\x1b" in before:
                for match in SGR.finditer(before.decode("latin-1")):
                    style = apply_sgr(style, match[1])
        return style

    def cells_before(self, number: int) -> int:
        """The cell at which part ``number`` begins when the line is not wrapped."""
        cells = self._cells
        while len(cells) <= number:
            part = len(cells) - 1
            raw = self._file.read(self._cut(part), self._cut(part + 1))
            cells.append(cells[-1] + _raw_cells(raw))
        return cells[number]

    @property
    def cells(self) -> int:
        """The line's width; a pass over all of it, once."""
        return self.cells_before(self.parts)

    def part_at_cell(self, cell: int) -> int:
        """The part that holds ``cell``, or the last."""
        if self.parts == 1:
            return 0
        while self._cells[-1] <= cell and len(self._cells) <= self.parts:
            self.cells_before(len(self._cells))
        return max(0, min(self.parts, bisect_right(self._cells, cell)) - 1)

    def part_at_offset(self, offset: int) -> int:
        """The part that holds the byte at ``offset``."""
        if self.parts == 1:
            return 0
        number = max(0, min(self.parts - 1, (offset - self.begin) // self._step))
        while number + 1 < self.parts and self._cut(number + 1) <= offset:
            number += 1
        return number

    def character_at_offset(self, offset: int) -> tuple[int, int]:
        """The part that holds the byte at ``offset``, and which of its characters shows it."""
        number = self.part_at_offset(offset)
        start = self._cut(number)
        raw = self._file.read(start, max(start, min(offset, self.end))).decode("utf-8", "surrogateescape")
        return number, len(_pieces(raw, PLAIN, 0)[0])


def _raw_cells(raw: bytes) -> int:
    """How many cells the bytes take."""
    if raw.isascii():
        text = raw.decode("ascii")
        if text.isprintable():
            return len(text)
    else:
        text = raw.decode("utf-8", "surrogateescape")
    return cells_of(_pieces(text, PLAIN, 0)[0])


def _last_state(file: LogFile, start: int, end: int) -> tuple[int, int]:
    """The last state of a progress bar that says anything, without the carriage returns around it."""
    while end > start and file.read(end - 1, end) == b"\r":
        end -= 1
    stop = end
    for _ in range(16):
        found = file.rfind(b"\r", start, stop) if stop > start else -1
        if found < 0:
            return start, stop if _says_something(file, start, stop) else end
        if _says_something(file, found + 1, stop):
            return found + 1, stop
        stop = found
    return start, end


def _says_something(file: LogFile, start: int, end: int) -> bool:
    state = file.read(start, min(end, start + 4096))
    return end - start > 4096 or _BLANK.fullmatch(state) is None


def row_holding(rows: Sequence[int], character: int) -> int:
    """The row, of the starts in ``rows``, that shows ``character``."""
    return max(0, bisect_left(rows, character + 1) - 1)
