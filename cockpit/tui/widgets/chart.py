"""A chart over time, drawn by plotext, and drawn again only when one of its columns is complete."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from cockpit.tui.state import HISTORY

GUTTER: Final = 6
"""Cells on the left for the scale."""
_PIECE: Final = re.compile(r"\x1b\[([0-9;]*)m|([^\x1b]+)")
_SERIES: Final = {"6": "$text-primary", "11": "$text-warning"}
"""plotext's colours of the theme below, as the palette numbers that it writes."""


@dataclass(frozen=True, slots=True)
class Curve:
    """What a chart shows: points (time, value), the scale's end, a line across with its name, the unit."""

    points: tuple[tuple[float, float], ...] = ()
    top: float = 1.0
    line: float | None = None
    line_name: str = ""
    unit: str = ""


@cache
def _plotext() -> Any:
    """plotext, set up for a widget: no limit by the terminal's size, no background of its own."""
    import plotext

    plotext.terminal.limit(False, False)
    plotext.add_theme("cockpit", canvas=None, text="gray", sequence=["cyan", "yellow"])
    return plotext


def draw(curve: Curve, now: float, width: int, height: int, seconds: float = HISTORY) -> Content:
    """The chart as text of ``height`` rows and ``width`` cells. Not for threads: plotext has one figure."""
    body = max(4, width - GUTTER)
    if not curve.points or height < 2:
        empty = "no samples yet".center(body) if height else ""
        rows = [(" " * GUTTER + (empty if row == height // 2 else "")) for row in range(height)]
        return Content.styled("\n".join(rows), "$muted")
    figure = _plotext().figure
    figure.clear()
    figure.plot_size(body, height)
    figure.theme("cockpit")
    figure.axes(False)
    figure.ruler("y").lim(0, curve.top)
    figure.ruler("x").lim(-seconds, 0)
    figure.ruler("y").frequency(0)
    figure.ruler("x").frequency(0)
    for points in _stretches(curve.points, now):
        xs, ys = [at for at, _ in points], [value for _, value in points]
        figure.draw(figure.signal(xs, ys, marker="braille").lines())
    rows_drawn = [_styled(row) for row in str(figure.build()).split("\n")[:height]]
    return Content("\n").join(_labelled(row, at, curve, height, body) for at, row in enumerate(rows_drawn))


def _stretches(points: Sequence[tuple[float, float]], now: float) -> list[list[tuple[float, float]]]:
    """The points as lines of their own where samples are missing in between: a gap is not bridged."""
    found: list[list[tuple[float, float]]] = []
    for at, value in points:
        if not found or at - now - found[-1][-1][0] > 10:
            found.append([])
        found[-1].append((at - now, value))
    return [stretch if len(stretch) > 1 else [*stretch, *stretch] for stretch in found]


def _styled(row: str) -> Content:
    parts: list[tuple[str, str]] = []
    style = ""
    for codes, text in _PIECE.findall(row):
        if text:
            parts.append((text, style))
        else:
            style = _SERIES["6"] if codes not in ("", "0") else ""
    return Content.assemble(*parts)


def _labelled(row: Content, at: int, curve: Curve, height: int, body: int) -> Content:
    """A row with the scale before it; the line across shows where the curve leaves room."""
    scale = ""
    if at == 0:
        scale = _figure(curve.top)
    elif at == height - 1:
        scale = "0"
    mark = "┼" if at == height - 1 else "┤"
    line_row = _row_of(curve, height)
    if at == line_row:
        row = _ruled(row, curve.line_name, body)
    if at == height - 1 and curve.unit:
        row = _noted(row, curve.unit, body)
    return Content.assemble((f"{scale:>{GUTTER - 2}} {mark}", "$muted"), row)


def _row_of(curve: Curve, height: int) -> int | None:
    if curve.line is None or not 0 < curve.line < curve.top:
        return None
    return min(height - 1, int(height * (1 - curve.line / curve.top)))


def _ruled(row: Content, name: str, body: int) -> Content:
    text = row.plain.ljust(body)
    words = f" {name}" if name else ""
    cells = []
    for at, char in enumerate(text):
        room = char in (" ", "\u2800")
        after = at - (body - len(words))
        new = words[after] if after >= 0 else "┄"
        cells.append((new, "$text-warning") if room else (char, "$text-primary"))
    return Content.assemble(*cells)


def _noted(row: Content, note: str, body: int) -> Content:
    """A note at the end of the row, where nothing is drawn."""
    text = row.plain.ljust(body)
    at = body - len(note) - 1
    if at < 0 or text[at:].strip(" \u2800"):
        return row
    return Content.assemble(row.truncate(at, pad=True), (f" {note}", "$muted"))


def _figure(value: float) -> str:
    if value >= 10000:
        return f"{value / 1000:.0f}k"
    return f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


class Chart(Widget):
    """Shows a ``Curve``. ``seconds`` is the time from edge to edge."""

    DEFAULT_CSS = "Chart { height: 5; }"
    curve: reactive[Curve] = reactive(Curve(), layout=False, repaint=False)

    def __init__(self, seconds: float = HISTORY, *, classes: str | None = None) -> None:
        super().__init__(classes=classes)
        self.seconds = seconds
        self._key: tuple[object, ...] = ()
        self._drawn = Content("")
        self._ready = False

    def plotting(self) -> None:
        """plotext may be loaded from now on."""
        self._ready = True
        self.refresh()

    def watch_curve(self, curve: Curve) -> None:
        """Draw anew when a column is complete, or the scale is another."""
        if self._ready and self._key_of(curve) != self._key:
            self.refresh()

    def _key_of(self, curve: Curve) -> tuple[object, ...]:
        column = self.seconds / max(1, self.size.width - GUTTER)
        last = int(curve.points[-1][0] / column) if curve.points else None
        few = len(curve.points) if len(curve.points) < 3 else 3
        return (last, few, self.size, curve.top, curve.line, curve.unit)

    def render(self) -> Content:
        """The chart as it was last drawn, or anew."""
        key = self._key_of(self.curve)
        if self._ready and key != self._key and self.size.height:
            self._key = key
            now = self.curve.points[-1][0] if self.curve.points else 0.0
            self._drawn = draw(self.curve, now, self.size.width, self.size.height, self.seconds)
        return self._drawn
