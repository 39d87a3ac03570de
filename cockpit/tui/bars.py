"""Bars of one row, drawn so that they can be read without colour."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from textual.content import Content

EIGHTHS = " ▏▎▍▌▋▊▉█"


def shares(parts: Sequence[float], total: float, width: int) -> list[int]:
    """How many of ``width`` cells each of ``parts`` gets of ``total``; what is there at all gets one."""
    if total <= 0 or width <= 0:
        return [0] * len(parts)
    edges = [0]
    reached = 0.0
    for part in parts:
        reached += max(0.0, part)
        edges.append(min(width, round(width * reached / total)))
    cells = [after - before for before, after in itertools.pairwise(edges)]
    for at, part in enumerate(parts):
        if part > total / 1000 and not cells[at]:
            widest = max(range(len(cells)), key=cells.__getitem__)
            if sum(cells) < width:
                cells[at] = 1
            elif cells[widest] > 1:
                cells[at], cells[widest] = 1, cells[widest] - 1
    return cells


def stacked(
    parts: Sequence[tuple[float, str, str]],
    total: float,
    width: int,
    lines: Sequence[tuple[float, str, str]] = (),
) -> Content:
    """A bar of ``(amount, character, style)``; each of ``lines`` is drawn at its amount, over whatever is there."""
    cells = shares([amount for amount, _, _ in parts], total, width)
    text: list[tuple[str, str]] = []
    for count, (_, char, style) in zip(cells, parts, strict=True):
        text += [(char, style)] * count
    text += [("·", "$faint")] * (width - len(text))
    for at, char, style in lines:
        if 0 < at < total:
            text[min(width - 1, int(width * at / total))] = (char, style)
    return join(text)


def join(cells: Sequence[tuple[str, str]]) -> Content:
    """Cells of one character each as one text, neighbours of the same style together."""
    runs: list[tuple[str, str]] = []
    for char, style in cells:
        if runs and runs[-1][1] == style:
            runs[-1] = (runs[-1][0] + char, style)
        else:
            runs.append((char, style))
    return Content.assemble(*runs)


def filled(fraction: float, width: int, style: str = "$text-primary") -> Content:
    """A bar that is ``fraction`` full, between two edges; ``width`` counts these."""
    inner = max(1, width - 2)
    eighths = round(max(0.0, min(1.0, fraction)) * inner * 8)
    whole, rest = divmod(eighths, 8)
    bar = "█" * whole + (EIGHTHS[rest] if rest else "")
    return Content.assemble("▕", (bar.ljust(inner), style), "▏")
