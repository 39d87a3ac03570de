"""Times of logs made comparable: vLLM's records name no year and no zone, the kernel's log may name both. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_SERVE = re.compile(r"(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)")
_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?")
_SYSLOG = re.compile(r"\b(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +(\d+) (\d\d):(\d\d):(\d\d)")
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_SLACK = 120


def _seconds(month: int, day: int, hour: int, minute: int, second: int) -> int:
    return (((month * 31 + day) * 24 + hour) * 60 + minute) * 60 + second


def of_record(time: str) -> int | None:
    """Seconds within the year (of months of 31 days) of a vLLM record's time, None for another form."""
    match = _SERVE.fullmatch(time)
    return _seconds(*map(int, match.groups())) if match else None


def of_kernel(line: str) -> list[int]:
    """The same for a line of the kernel's log: as printed, and in UTC where the zone is told; empty for one
    with seconds since boot."""
    syslog = _SYSLOG.search(line[:80])
    if syslog:
        month = _MONTHS.index(syslog[1]) + 1
        return [_seconds(month, *map(int, syslog.groups()[1:]))]
    iso = _ISO.search(line[:80])
    if iso is None:
        return []
    try:
        told = datetime.fromisoformat(iso[0].replace(",", "."))
    except ValueError:
        return []
    times = [told] if told.tzinfo is None else [told, told.astimezone(UTC)]
    return [_seconds(one.month, one.day, one.hour, one.minute, one.second) for one in times]


def may_end(kernel: str, last: str) -> bool:
    """Whether what the kernel's line tells may have ended what wrote its ``last`` record then: it did not
    happen before. True where the times can't be compared."""
    record, times = of_record(last), of_kernel(kernel)
    return record is None or not times or any(time >= record - _SLACK for time in times)
