"""Bytes and times in words."""

from __future__ import annotations

UNITS = ("B", "kB", "MB", "GB", "TB")


def amount(count: float) -> str:
    """Bytes in words."""
    at = 0
    while abs(count) >= 1000 and at < len(UNITS) - 1:
        count, at = count / 1000, at + 1
    return f"{count:.2f} {UNITS[at]}" if at else f"{count:.0f} B"


def duration(seconds: float) -> str:
    """Seconds in words."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
