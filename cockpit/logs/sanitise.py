"""The one sanitiser: text from machines becomes text that is safe to show.

Whatever is not printable is made visible and none of it is obeyed: control characters as their pictures
(``␛``, ``␀``), C1 and bidirectional controls, unassigned code points and bytes that are no UTF-8 by their
number (``⟨9b⟩``). What comes out is never markup either: show it with markup switched off.

Text decoded with ``errors="surrogateescape"`` keeps its invalid bytes apart from a real U+FFFD: they are shown
as the bytes they are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final
from unicodedata import category

_TAB: Final = 8
_JOINERS: Final = frozenset("\u200c\u200d")
"""Zero width (non-)joiner: Persian, Indic scripts and emoji families need them; they move nothing."""

SGR: Final = re.compile(r"\x1b\[([0-9;:]{0,64})m")
"""A colour sequence (ECMA-48 SGR), the only kind of escape with a meaning here."""


def picture(char: str) -> str:
    """How a character that must not reach the terminal is shown."""
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    if 0xDC80 <= code <= 0xDCFF:
        return f"⟨{code - 0xDC00:02x}⟩"
    return f"⟨{code:02x}⟩"


class _Pictures(dict[int, str | int]):
    """A translation table that fills itself: ``str.translate`` asks once for each code point."""

    def __missing__(self, code: int) -> str | int:
        char = chr(code)
        shown = code if char.isprintable() or char in _JOINERS or category(char) == "Zs" else picture(char)
        if len(self) < 4096:
            self[code] = shown
        return shown


class _SteadyPictures(_Pictures):
    """As ``_Pictures``, without sequences whose width differs from terminal to terminal."""

    def __missing__(self, code: int) -> str | int:
        char = chr(code)
        if char in _JOINERS or 0x1F3FB <= code <= 0x1F3FF:
            return picture(char)
        if 0xFE00 <= code <= 0xFE0F:
            return ""
        if 0x1F1E6 <= code <= 0x1F1FF:
            return chr(0x1F130 + code - 0x1F1E6)
        return super().__missing__(code)


_PICTURES: Final = _Pictures()
_STEADY: Final = _SteadyPictures()


def clean(text: str, *, multiline: bool = False) -> str:
    """``text`` safe to show in one line, or with ``multiline`` in a block that keeps its ``\\n``.

    Tabs become spaces up to the next multiple of eight. Printable text comes back as it is.
    """
    if text.isprintable():
        return text
    if not multiline:
        return text.expandtabs(_TAB).translate(_PICTURES) if "\t" in text else text.translate(_PICTURES)
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join(clean(line) for line in lines)


def steady(text: str) -> str:
    """``text`` safe to show, and as wide in every terminal as the sum of its characters' widths.

    Joiners and skin tones become visible, variation selectors go, flags become squared letters: a row of a
    log must never run over into its neighbour because a terminal joins what another does not.
    """
    if text.isascii() and text.isprintable():
        return text
    return text.translate(_STEADY)


Colour = int | tuple[int, int, int] | None
"""A palette index (0-255), a red-green-blue triple, or the terminal's default."""


@dataclass(frozen=True, slots=True)
class Sgr:
    """The style that colour sequences have set up. Blinking and concealing are not followed."""

    foreground: Colour = None
    background: Colour = None
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underline: bool = False
    reverse: bool = False
    strike: bool = False


PLAIN: Final = Sgr()

_SWITCHES: Final[dict[int, dict[str, bool]]] = {
    1: {"bold": True},
    2: {"dim": True},
    3: {"italic": True},
    4: {"underline": True},
    7: {"reverse": True},
    9: {"strike": True},
    21: {"underline": True},
    22: {"bold": False, "dim": False},
    23: {"italic": False},
    24: {"underline": False},
    27: {"reverse": False},
    29: {"strike": False},
}


@lru_cache(maxsize=1024)
def apply_sgr(style: Sgr, parameters: str) -> Sgr:
    """``style`` after a colour sequence with these ``parameters`` (what stands between ``ESC[`` and ``m``)."""
    if not parameters or parameters == "0":
        return PLAIN
    codes = _codes(parameters)
    at = 0
    while at < len(codes):
        code = codes[at]
        at += 1
        if code == 0:
            style = PLAIN
        elif code in _SWITCHES:
            style = replace(style, **_SWITCHES[code])
        elif code in (38, 48):
            colour, at = _extended(codes, at)
            if colour is not None:
                style = replace(style, foreground=colour) if code == 38 else replace(style, background=colour)
        else:
            style = _basic(style, code)
    return style


def _codes(parameters: str) -> list[int]:
    """The numbers of a sequence. Of the colon forms ``4:3`` means 4, and ``38:2::r:g:b`` is ``38;2;r;g;b``."""
    codes: list[int] = []
    for field in parameters.split(";"):
        parts = [int(part[:4]) if part else 0 for part in field.split(":")]
        if parts[0] in (38, 48) and len(parts) == 6:
            del parts[2]
        codes += parts if parts[0] in (38, 48) else parts[:1]
    return codes


def _extended(codes: list[int], at: int) -> tuple[Colour, int]:
    """The colour after 38 or 48, and where the next code stands."""
    match codes[at : at + 4]:
        case [5, index, *_]:
            return (index if index < 256 else None), at + 2
        case [2, red, green, blue]:
            return ((red, green, blue) if max(red, green, blue) < 256 else None), at + 4
    return None, len(codes)


def _basic(style: Sgr, code: int) -> Sgr:
    """The sixteen colours and the two defaults."""
    tens, unit = divmod(code, 10)
    if tens in (3, 9) and unit < 8:
        return replace(style, foreground=unit + (8 if tens == 9 else 0))
    if tens in (4, 10) and unit < 8:
        return replace(style, background=unit + (8 if tens == 10 else 0))
    if code == 39:
        return replace(style, foreground=None)
    if code == 49:
        return replace(style, background=None)
    return style


def split_styles(text: str, style: Sgr = PLAIN) -> list[tuple[str, Sgr]]:
    """``text`` as sanitised pieces with the style each is shown in; ``style`` is what it begins with."""
    if "\x1b" not in text:
        return [(clean(text), style)] if text else []
    pieces: list[tuple[str, Sgr]] = []
    at = 0
    for match in SGR.finditer(text):
        if match.start() > at:
            pieces.append((clean(text[at : match.start()]), style))
        style = apply_sgr(style, match[1])
        at = match.end()
    if at < len(text):
        pieces.append((clean(text[at:]), style))
    return pieces
