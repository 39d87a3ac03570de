"""Times in log lines, and the place of a time in a log.

Logs give their hosts' local time without a zone, and vLLM's lines have no year: times are compared as they
are written, as seconds of a calendar without zones.
"""

from __future__ import annotations

import re
from calendar import timegm
from datetime import datetime
from functools import lru_cache
from typing import Final

from cockpit.logs.log import Log

_LOOK: Final = 240
_TIME: Final = re.compile(
    rb"([0-9\[](?:"
    rb"(?<=\d)\d\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d"
    rb"|(?<=\d)(?<![\d-]\d)\d-\d\d \d\d:\d\d:\d\d"
    rb"|(?<=\[)[DIWEF]\d{4} \d\d:\d\d:\d\d"
    rb"))(?:[.,](\d{1,9}))?"
)
"""With a year; vLLM's, without one; torch's, month and day in one. It begins with a set of characters, for ``re``
skips what is not in one many times faster than it tries alternatives."""
_PAIRS: Final = re.compile(rb"\d\d")
_STEP: Final = 64 * 1024
_LAST: Final = 1024 * 1024


def time_of(line: str, year: int) -> float | None:
    """The first time that a line tells near its beginning, None where it tells none. ``year`` is for times without
    one."""
    return time_in(line[:_LOOK].encode("utf-8", "replace"), year, 0, _LOOK)


def time_in(data: bytes, year: int, start: int, end: int) -> float | None:
    """The same of the line whose beginning stands in ``data`` from ``start`` up to ``end``."""
    match = _TIME.search(data, start, end)
    if match is None:
        return None
    told, fraction = match.groups()
    time = _seconds(told, year)
    return time if time is None or fraction is None else time + float(b"0." + fraction)


@lru_cache(maxsize=4096)
def _seconds(told: bytes, year: int) -> float | None:
    """One of these times in whole seconds; a log tells most of them many times over."""
    *date, hour, minute, second = (int(digits) for digits in _PAIRS.findall(told))
    if len(date) == 4:
        year = date[0] * 100 + date[1]
    month, day = date[-2:]
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 61 and year):
        return None
    return float(timegm((year, month, day, hour, minute, second)))


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
    line = log.file.read(start, start + _LOOK).split(b"\n", 1)[0]
    return time_in(line, year, 0, len(line))


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
