"""The status line of a log: what there is to say, said as shortly as the width asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.segment import Segment
from textual.strip import Strip
from textual.widget import Widget

from cockpit.logs.layout import cells_of
from cockpit.logs.sanitise import steady

BETWEEN: Final = " · "


@dataclass(frozen=True, slots=True)
class Part:
    """One thing to say. ``forms`` go from the longest to the shortest; what has the least ``weight`` is shortened
    first, and left out first where even the shortest forms don't fit."""

    weight: int
    forms: tuple[str, ...]


def part(weight: int, *forms: str) -> Part:
    """Safe words; forms that are no shorter than the one before are left out."""
    kept: list[str] = []
    for form in map(steady, forms):
        if form and (not kept or cells_of(form) < cells_of(kept[-1])):
            kept.append(form)
    return Part(weight, tuple(kept))


def clipped(text: str, width: int) -> str:
    """``text`` in at most ``width`` cells, its middle left out."""
    text = steady(text)
    if cells_of(text) <= width:
        return text
    half, begin, end = (width - 1) // 2, "", ""
    for char in text:
        if cells_of(begin + char) > width - 1 - half:
            break
        begin += char
    for char in reversed(text):
        if cells_of(char + end) > half:
            break
        end = char + end
    return f"{begin}…{end}"


def fitted(parts: Sequence[Part], width: int) -> str:
    """The parts in ``width`` cells."""
    forms = [0 if each.forms else -1 for each in parts]
    by_weight = sorted(range(len(parts)), key=lambda at: parts[at].weight)

    def words() -> str:
        return BETWEEN.join(each.forms[form] for each, form in zip(parts, forms, strict=True) if form >= 0)

    for at in by_weight:
        while cells_of(words()) > width and 0 <= forms[at] < len(parts[at].forms) - 1:
            forms[at] += 1
    for at in by_weight[:-1]:
        if cells_of(words()) > width:
            forms[at] = -1
    # What was left out may have made room for longer forms of what stayed.
    for at in reversed(by_weight):
        while forms[at] > 0:
            forms[at] -= 1
            if cells_of(words()) > width:
                forms[at] += 1
                break
    return words()


class StatusLine(Widget):
    """The line, painted without a new layout."""

    DEFAULT_CSS = "StatusLine { height: 1; background: $surface; color: $foreground 60%; }"

    def __init__(self) -> None:
        super().__init__()
        self._parts: tuple[Part, ...] = ()

    @property
    def words(self) -> str:
        """All there is to say, in full."""
        return BETWEEN.join(each.forms[0] for each in self._parts if each.forms)

    def tell(self, parts: Sequence[Part]) -> None:
        """Show ``parts``."""
        if tuple(parts) != self._parts:
            self._parts = tuple(parts)
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """The words, as many as fit."""
        style = self.rich_style
        words = " " + fitted(self._parts, self.size.width - 2)
        return Strip([Segment(words, style)]).adjust_cell_length(self.size.width, style)
