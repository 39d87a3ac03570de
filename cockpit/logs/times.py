"""Times in log lines, and the place of a time in a log.

Logs give their hosts' local time without a zone, and vLLM's lines have no year: times are compared as they
are written, as seconds of a calendar without zones.
"""

from __future__ import annotations

import re
from calendar import timegm
from datetime import datetime
from typing import Final

from cockpit.logs.log import Log

_LOOK: Final = 240
_FULL: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?")
_SHORT: Final = re.compile(r"(?<![\d-])(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)()")
_TORCH: Final = re.compile(r"\[[DIWEF](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?")
_STEP: Final = 64 * 1024
_LAST: Final = 1024 * 1024


def time_of(line: str, year: int) -> float | None:
    """The time a line tells, None where it tells none. ``year`` is for times without one."""
    head = line[:_LOOK]
    match = _FULL.search(head)
    if match:
        whole = int(match[1])
    else:
        match = _SHORT.search(head) or _TORCH.search(head)
        if not match:
            return None
        whole = year
    *rest, fraction = match.groups()[-6:]
    return _seconds(whole, *(int(part) for part in rest), fraction=fraction or "")


def _seconds(
    year: int, month: int, day: int, hour: int, minute: int, second: int, *, fraction: str = ""
) -> float | None:
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 61 and year):
        return None
    return timegm((year, month, day, hour, minute, second)) + (float(f"0.{fraction}") if fraction else 0.0)


def year_of(log: Log) -> int:
    """The year of a log's last change, for times that have none."""
    return datetime.fromtimestamp(log.changed_at).year


def time_at(log: Log, offset: int, year: int, most: int = 4 * _STEP) -> float | None:
    """The time of the first line from ``offset`` on that tells one, within ``most`` bytes."""
    start: int | None = log.index.start_of_line(offset)
    while start is not None and start < offset + most:
        found = _time_of_line(log, start, year)
        if found is not None:
            return found
        start = log.index.next_line(start)
    return None


def time_near(log: Log, start: int, year: int) -> float | None:
    """The time of the line at ``start``: what it tells itself, or the nearest line before it, or after it."""
    at: int | None = start
    while at is not None and start - at < _STEP:
        found = _time_of_line(log, at, year)
        if found is not None:
            return found
        at = log.index.previous_line(at)
    return time_at(log, start, year)


def last_time(log: Log, year: int, most: int = _LAST) -> float | None:
    """The last time that the log tells, within ``most`` bytes of its end; else the first it tells."""
    size = log.file.size
    at, end = (log.index.last_line() if size else None), size
    while at is not None and end - at < most:
        found = _time_of_line(log, at, year)
        if found is not None:
            return found
        at = log.index.previous_line(at)
    return time_at(log, 0, year) if size else None


def _time_of_line(log: Log, start: int, year: int) -> float | None:
    return time_of(log.file.read(start, start + _LOOK).split(b"\n", 1)[0].decode("utf-8", "replace"), year)


def find_time(log: Log, wanted: float, year: int) -> int:
    """The start of the first line at ``wanted`` or later, as far as the log's times ascend."""
    low, high = 0, log.file.size
    while high - low > _STEP:
        middle = (low + high) // 2
        found = time_at(log, middle, year)
        if found is not None and found < wanted:
            low = middle
        else:
            high = middle
    start: int | None = log.index.start_of_line(low) if log.file.size else None
    last = start or 0
    while start is not None:
        found = _time_of_line(log, start, year)
        if found is not None and found >= wanted:
            return start
        last, start = start, log.index.next_line(start)
    return last
