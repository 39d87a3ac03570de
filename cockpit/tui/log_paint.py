"""Rows of a log as strips for the terminal."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from cockpit.logs.layout import cells_of
from cockpit.logs.page import Piece, Row
from cockpit.logs.records import parse_line
from cockpit.logs.sanitise import PLAIN, Colour, Sgr, steady

LOOKS: Final = (
    *("gutter", "marked", "hit", "cursor", "error", "warning", "prefix", "gap"),
    *("label-0", "label-1", "label-2", "label-3"),
)
"""The component classes of the view, without their ``log--``."""

_LEVEL: Final = re.compile(r"\b(?:(ERROR|CRITICAL|FATAL|Traceback)|(WARNING|WARN))\b")
_LEVEL_WITHIN: Final = 300


def _colour(colour: Colour) -> Color | None:
    if colour is None:
        return None
    return Color.from_ansi(colour) if isinstance(colour, int) else Color.from_rgb(*colour)


@lru_cache(maxsize=512)
def rich_style(sgr: Sgr) -> Style:
    """A log's own style as Rich has it."""
    return Style(
        color=_colour(sgr.foreground),
        bgcolor=_colour(sgr.background),
        bold=sgr.bold or None,
        dim=sgr.dim or None,
        italic=sgr.italic or None,
        underline=sgr.underline or None,
        reverse=sgr.reverse or None,
        strike=sgr.strike or None,
    )


def level_look(text: str) -> str:
    """``error``, ``warning`` or "" for a line that tells its level near its beginning."""
    match = _LEVEL.search(text, 0, _LEVEL_WITHIN)
    if match is None:
        return ""
    return "error" if match[1] else "warning"


def looks_of(base: Style, styles: Mapping[str, Style]) -> dict[str, Style]:
    """The looks laid over ``base``: only a hit and the selected row have a background of their own."""
    own = ("hit", "cursor")
    looks = {name: style if name in own else style + base.background_style for name, style in styles.items()}
    return {"base": base, **looks}


@dataclass(frozen=True, slots=True)
class Label:
    """What a log is called, in its look, before each of its lines in ``width`` cells."""

    text: str
    look: str
    width: int

    @property
    def cells(self) -> str:
        """The text in its width: its beginning, where it is too long."""
        text = steady(self.text)
        while cells_of(text) > self.width:
            text = text[:-1]
        return " " + text + " " * (self.width - cells_of(text))


class Painter:
    """Turns rows into strips. ``looks`` maps the names of ``LOOKS``, and ``base``, to styles."""

    def __init__(self, looks: Mapping[str, Style], width: int, digits: int) -> None:
        self._plain_looks = looks
        under = looks["cursor"].background_style
        self._selected_looks = {name: look if name == "hit" else look + under for name, look in looks.items()}
        self._looks, self._base = looks, looks["base"]
        self._width = width
        self._digits = digits

    def strip(
        self,
        row: Row,
        *,
        number: int | None,
        marked: bool,
        selected: bool,
        count: int = 0,
        label: Label | None = None,
    ) -> Strip:
        """One row; ``count`` is how many equal lines it stands for."""
        self._looks = self._selected_looks if selected else self._plain_looks
        self._base = self._looks["base"]
        segments = self._gutter(row, number, marked, selected, label)
        room = self._width - gutter_width(self._digits, label.width if label else 0)
        if row.mark:
            text = f"── {steady(row.mark)} ──"
            text = text if cells_of(text) <= room else clipped_end(text, room)
            segments.append(Segment(text, self._looks["gap"]))
            cells = cells_of(text)
        else:
            cells = sum(cells_of(piece.text) for piece in row.pieces)
            segments += self._text(row)
            if count > 1:
                text = f"  ×{count:,}"[: room - cells]
                segments.append(Segment(text, self._looks["gutter"]))
                cells += len(text)
        self._fill(segments, room - cells, row.after)
        return Strip(segments, self._width)

    def _fill(self, segments: list[Segment], cells: int, after: bool) -> None:
        """Blanks to the right edge, with the text before them where it looks alike: every change of looks costs
        the terminal more than a blank does."""
        if not after:
            cells += 1
        if cells:
            text, style, _ = segments[-1]
            if style is self._base:
                segments[-1] = Segment(text + " " * cells, style)
            else:
                segments.append(Segment(" " * cells, self._base))
        if after:
            segments.append(Segment("›", self._looks["gutter"]))

    def _gutter(
        self, row: Row, number: int | None, marked: bool, selected: bool, label: Label | None
    ) -> list[Segment]:
        sign = "●" if marked else ("▸" if selected else " ")
        figure = ("…" if number is None else str(number)) if row.head else ""
        flag = "↺" if row.hidden else ("‹" if row.before else " ")
        look = self._looks["marked" if marked else "gutter"]
        before = f"{sign}{figure:>{self._digits}}"
        if label is None:
            return [Segment(before + flag, look)]
        return [Segment(before, look), Segment(label.cells, self._looks[label.look]), Segment(flag, look)]

    def _text(self, row: Row) -> list[Segment]:
        pieces = row.pieces
        if row.head and not row.before and len(pieces) == 1 and pieces[0].style is PLAIN and not pieces[0].hit:
            return self._plain(pieces[0].text)
        return [self._segment(piece) for piece in pieces]

    def _plain(self, text: str) -> list[Segment]:
        """A line without colours of its own: its prefixes step back, errors and warnings stand out."""
        look = level_look(text)
        style = self._looks[look or "base"]
        prefix = parse_line(text[:_LEVEL_WITHIN]).prefix
        if not 0 < prefix < len(text):
            return [Segment(text, style)]
        return [Segment(text[:prefix], self._looks["prefix"]), Segment(text[prefix:], style)]

    def _segment(self, piece: Piece) -> Segment:
        style = self._base if piece.style is PLAIN else self._base + rich_style(piece.style)
        return Segment(piece.text, style + self._looks["hit"] if piece.hit else style)


def clipped_end(text: str, width: int) -> str:
    """As much of ``steady`` text as has room in ``width`` cells before a sign that there is more."""
    while text and cells_of(text) > width - 1:
        text = text[: max(0, width - 1)] if len(text) >= width else text[:-1]
    return (text + "…")[: max(0, width)]


def gutter_width(digits: int, label: int = 0) -> int:
    """The cells beside a line's text: a sign, the number, a flag and the log's label before it, a flag after
    it."""
    return digits + 3 + (label + 1 if label else 0)
