"""What stands in a viewport: rows of styled pieces, from an anchor on.

The anchor is the first row: a line, a part of it and a row of that part. Nothing depends on how much comes
before it, so that a page of any place in a file of any size costs the same.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from cockpit.logs.layout import LineLayout, Part, row_holding
from cockpit.logs.lines import Lines, Place
from cockpit.logs.log import Log
from cockpit.logs.pattern import GLANCE, Pattern, PatternTooSlow
from cockpit.logs.sanitise import PLAIN, Sgr
from cockpit.logs.search import Query

MARK: Final = -1
TAIL: Final = 1 << 30
_KEPT: Final = 512
_BARREN: Final = 64


@dataclass(frozen=True, slots=True, order=True)
class Anchor:
    """A row: the line's position, the part of the line (``MARK``: the marks that stand before it, ``TAIL``: those at the
    end of a file, after the last line), the row of it."""

    position: int
    part: int = 0
    row: int = 0


@dataclass(frozen=True, slots=True)
class Piece:
    """Text of one look. ``hit`` says that the search found it."""

    text: str
    style: Sgr = PLAIN
    hit: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the viewport. ``log`` and ``start`` tell its line; ``head`` says that the line begins here.
    ``mark`` is the text of a gap marker, and then there are no pieces. ``hidden`` says that earlier states of
    a progress bar are not shown; ``before`` and ``after``, that the line goes on to the left and right."""

    anchor: Anchor
    log: Log
    start: int
    head: bool
    pieces: tuple[Piece, ...] = ()
    mark: str = ""
    hidden: bool = False
    before: bool = False
    after: bool = False


class Page:
    """The settings of a viewport on ``lines``, and the rows that stand in it."""

    def __init__(self, lines: Lines, width: int = 80) -> None:
        self.lines = lines
        self.width = max(2, width)
        self.wrap = False
        self.raw = False
        self.left = 0
        """The first cell shown when lines are not wrapped."""
        self._pattern: Pattern | None = None
        self._layouts: OrderedDict[tuple[int, int, int, bool], LineLayout] = OrderedDict()

    def highlight(self, query: Query | None) -> None:
        """Mark what ``query`` finds; raises ``PatternError``."""
        self._pattern = query.compiled() if query else None

    def layout(self, place: Place) -> LineLayout:
        """The layout of a line; a few hundred are kept."""
        key = (id(place.log), place.start, place.end, self.raw)
        found = self._layouts.get(key)
        if found is None:
            found = self._layouts[key] = LineLayout(place.log.file, place.start, place.end, self.raw)
            if len(self._layouts) > _KEPT:
                self._layouts.popitem(last=False)
        else:
            self._layouts.move_to_end(key)
        return found

    # Moving

    def top(self) -> Anchor | None:
        """The very first row."""
        position = self.lines.first()
        return None if position is None else self._head(position)

    def _head(self, position: int) -> Anchor:
        place = self.lines.place(position)
        return Anchor(position, MARK if self._marks(place) else 0)

    def _marks(self, place: Place) -> str:
        if not place.log.marks:
            return ""
        end = min(place.end + 1, place.log.file.size)
        return "; ".join(mark.words() for mark in place.log.marks_between(place.start, end))

    def _tail(self) -> str:
        """The marks that stand at a file's very end."""
        ends = [(log, log.file.size) for log in self.lines.logs if log.marks]
        return "; ".join(mark.words() for log, end in ends for mark in log.marks if mark.at >= end)

    def _rows_of(self, layout: LineLayout, part: int) -> int:
        return len(layout.part(part).rows(self.width)) if self.wrap else 1

    def _parts_of(self, layout: LineLayout) -> int:
        return layout.parts if self.wrap else 1

    def after(self, anchor: Anchor) -> Anchor | None:
        """The next row, None after the last."""
        place = self.lines.place(anchor.position)
        if anchor.part == MARK:
            return Anchor(anchor.position)
        if self.wrap and anchor.part != TAIL:
            layout = self.layout(place)
            if anchor.row + 1 < self._rows_of(layout, anchor.part):
                return Anchor(anchor.position, anchor.part, anchor.row + 1)
            part = self._with_text(layout, range(anchor.part + 1, layout.parts))
            if part is not None:
                return Anchor(anchor.position, part)
        following = self.lines.next(anchor.position)
        if following is not None:
            return self._head(following)
        return Anchor(anchor.position, TAIL) if anchor.part != TAIL and self._tail() else None

    def before(self, anchor: Anchor) -> Anchor | None:
        """The row before, None before the first."""
        if anchor.part == TAIL:
            return self._foot(anchor.position)
        if anchor.row > 0:
            return Anchor(anchor.position, anchor.part, anchor.row - 1)
        if anchor.part > 0:
            layout = self.layout(self.lines.place(anchor.position))
            part = self._with_text(layout, range(anchor.part - 1, 0, -1)) or 0
            return Anchor(anchor.position, part, self._rows_of(layout, part) - 1)
        if anchor.part == 0 and self._marks(self.lines.place(anchor.position)):
            return Anchor(anchor.position, MARK)
        previous = self.lines.previous(anchor.position)
        return None if previous is None else self._foot(previous)

    def _foot(self, position: int) -> Anchor:
        """The last row of a line."""
        if not self.wrap:
            return Anchor(position)
        layout = self.layout(self.lines.place(position))
        part = self._with_text(layout, range(layout.parts - 1, 0, -1)) or 0
        return Anchor(position, part, self._rows_of(layout, part) - 1)

    def _with_text(self, layout: LineLayout, parts: range) -> int | None:
        """The first of ``parts`` that shows anything: colour sequences alone are no row. None where none does;
        of very many such parts in a row every so many is one all the same."""
        return next((part for part in parts if layout.shows(part) or part % _BARREN == 0), None)

    def move(self, anchor: Anchor, rows: int) -> Anchor:
        """The anchor ``rows`` further down (up where negative), as far as there are rows."""
        for _ in range(abs(rows)):
            following = self.after(anchor) if rows > 0 else self.before(anchor)
            if following is None:
                break
            anchor = following
        return anchor

    def bottom(self, height: int) -> Anchor | None:
        """The anchor that puts the last row at the bottom of ``height`` rows."""
        last = self.lines.last()
        if last is None:
            return None
        return self.move(Anchor(last, TAIL) if self._tail() else self._foot(last), 1 - height)

    def held(self, anchor: Anchor) -> Anchor:
        """``anchor``, or the nearest row there is when the width or the lines have changed."""
        layout = self.layout(self.lines.place(anchor.position))
        if anchor.part == MARK:
            return self._head(anchor.position)
        if anchor.part == TAIL:
            return self._foot(anchor.position)
        part = min(anchor.part, self._parts_of(layout) - 1)
        return Anchor(anchor.position, part, min(anchor.row, self._rows_of(layout, part) - 1))

    def show(self, log: Log, offset: int) -> Anchor | None:
        """The anchor of the row that shows the byte at ``offset``; scrolls sideways to it."""
        position = self.lines.near(log, offset)
        if position is None:
            return None
        place = self.lines.place(position)
        if not place.start <= offset <= place.end:
            return self._head(position)
        layout = self.layout(place)
        if offset < layout.begin:
            return Anchor(position)
        number, character = layout.character_at_offset(offset)
        part = layout.part(number)
        if self.wrap:
            return Anchor(position, number, row_holding(part.rows(self.width), character))
        ends = part.ends
        within = character if part.plain else (ends[character - 1] if 0 < character <= len(ends) else 0)
        cell = layout.cells_before(number) + within
        if not self.left <= cell < self.left + self.width - 8:
            self.left = max(0, cell - self.width // 3) if cell >= self.width - 8 else 0
        return Anchor(position)

    # Rows

    def rows(self, anchor: Anchor | None, height: int) -> list[Row]:
        """Up to ``height`` rows from ``anchor`` on."""
        found: list[Row] = []
        while anchor is not None and len(found) < height:
            found.append(self.row(anchor))
            anchor = self.after(anchor)
        return found

    def row(self, anchor: Anchor) -> Row:
        """The row at ``anchor``."""
        place = self.lines.place(anchor.position)
        if anchor.part in (MARK, TAIL):
            words = self._marks(place) if anchor.part == MARK else self._tail()
            return Row(anchor, place.log, place.start, False, mark=words)
        layout = self.layout(place)
        head = anchor.part == 0 and anchor.row == 0
        if self.wrap:
            pieces = self._wrapped(layout.part(anchor.part), anchor.row)
            return Row(anchor, place.log, place.start, head, pieces, hidden=head and layout.hidden)
        pieces, more = self._cropped(layout)
        return Row(
            anchor,
            place.log,
            place.start,
            True,
            pieces,
            "",
            layout.hidden,
            self.left > 0 and layout.end > layout.begin,
            more,
        )

    def _wrapped(self, part: Part, row: int) -> tuple[Piece, ...]:
        rows = part.rows(self.width)
        end = rows[row + 1] if row + 1 < len(rows) else len(part.text)
        return tuple(self._pieces(part, rows[row], end))

    def _cropped(self, layout: LineLayout) -> tuple[tuple[Piece, ...], bool]:
        """The pieces within the viewport, and whether the line goes on."""
        number = layout.part_at_cell(self.left)
        cell = layout.cells_before(number) if number else 0
        right = self.left + self.width
        pieces: list[Piece] = []
        while number < layout.parts and cell < right:
            part = layout.part(number)
            first, last, blank = part.crop(max(0, self.left - cell), right - cell)
            if blank:
                pieces.append(Piece(" " * blank))
            pieces += self._pieces(part, first, last)
            cell += part.cells
            number += 1
        return tuple(pieces), cell > right or number < layout.parts

    def _pieces(self, part: Part, start: int, end: int) -> Iterator[Piece]:
        """The characters ``start`` … ``end`` of a part, cut where the look changes."""
        hits = self._hits(part.text, start, end) if self._pattern else []
        for run in part.runs:
            first, last = max(run.start, start), min(run.end, end)
            for hit_start, hit_end in hits:
                if hit_end <= first or hit_start >= last:
                    continue
                if hit_start > first:
                    yield Piece(part.text[first:hit_start], run.style)
                yield Piece(part.text[max(first, hit_start) : min(last, hit_end)], run.style, True)
                first = min(last, hit_end)
            if first < last:
                yield Piece(part.text[first:last], run.style)

    def _hits(self, text: str, start: int, end: int) -> list[tuple[int, int]]:
        """Where the search finds something that shows within ``start`` … ``end``."""
        if self._pattern is None:
            return []
        found: list[tuple[int, int]] = []
        at = 0
        try:
            while at < end and (span := self._pattern.span(text, at, GLANCE)) is not None:
                if span[0] >= end:
                    break
                if start < span[1] > span[0]:
                    found.append(span)
                at = max(span[1], at + 1)
        except PatternTooSlow:
            # The lines it finds are still counted and gone to; what in them it found is not marked.
            self._pattern = None
        return found
