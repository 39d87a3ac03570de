"""NO_COLOR: no colour reaches the terminal; bold, dim, underline and reverse say what is left of it.

Textual's own way makes greys of colours, which are colours still. Here what a background alone tells (a selection, a
cursor, a scrollbar) becomes reverse, and text that is nearly as dark as what it stands on becomes dim.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter

STANDS_OUT: Final = 2.0
"""Contrast between a background and the screen's own from which it means something."""
FADES: Final = 4.0
"""Contrast between text and its background below which it is meant to stand back."""


def luminance(colour: Color) -> float:
    """How bright a colour is, 0 to 1, as WCAG 2 has it."""
    parts = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in colour.normalized]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(one: Color, other: Color) -> float:
    """The contrast of two colours, 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@lru_cache(4096)
def colourless(style: Style, screen: Color) -> Style:
    """``style`` without its colours; ``screen`` is the screen's background."""
    ground = Color.from_rich_color(style.bgcolor) if style.bgcolor is not None else screen
    text = Color.from_rich_color(style.color) if style.color is not None else None
    reverse = bool(style.reverse) or contrast(ground, screen) >= STANDS_OUT
    dim = bool(style.dim) or (text is not None and contrast(text, ground) < FADES)
    return style.without_color + Style(reverse=reverse, dim=dim and not reverse)


class Colourless(LineFilter):
    """Takes all colours out of lines. ``screen`` gives the screen's background."""

    def __init__(self, screen: Callable[[], Color]) -> None:
        super().__init__()
        self._screen = screen

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The same text in plain styles. ``background`` is the widget's own: it may be what stands out."""
        screen = self._screen()
        return [
            Segment(text, self._plain(style, screen) if style else style, control)
            for text, style, control in segments
        ]

    def _plain(self, style: Style, screen: Color) -> Style:
        """Without colours; what stands behind the text for the mouse stays."""
        if not style.meta:
            return colourless(style, screen)
        return colourless(style.clear_meta_and_links(), screen) + Style.from_meta(style.meta)
