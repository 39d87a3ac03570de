"""Times as an operator types them: read before any log is looked at, and placed once one is there.

Logs tell their hosts' local time without a zone, so that what is left out, and what is counted back, goes by the
log's own times and not by this machine's clock.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

UNDERSTOOD: Final = (
    "Write a time as the log has it, without a zone (15:04, 11-30 15:04, 2026-11-30T15:04:05), a day (11-30, "
    "today, yesterday: the log's last day and the one before), or how long before the log's end (45s, 10m, 1h30m, 3d)."
)
DAY: Final = 86400.0
_BEFORE: Final = re.compile(
    r"(?:(\d{1,6}) ?d)? ?(?:(\d{1,6}) ?h)? ?(?:(\d{1,6}) ?m(?:in)?)? ?(?:(\d{1,9}) ?s(?:ec)?)?(?: ago)?",
    re.ASCII,
)
_AT: Final = re.compile(
    r"(?:(?P<word>today|yesterday)|(?:(?P<year>\d{4})-)?(?P<month>\d\d)-(?P<day>\d\d))?"
    r"(?:(?:(?<=[\dy])[t ]|^)(?P<hour>\d\d?):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,9}))?)?)?",
    re.ASCII,
)
_LEAP: Final = 2000


@dataclass(frozen=True, slots=True)
class TypedTime:
    """``before`` are seconds before the log's end; else ``clock`` are seconds from the beginning of a day: of
    ``days`` before the log's last, or of that date, whose parts are None where they were left out."""

    before: float | None = None
    clock: float = 0.0
    days: int | None = None
    year: int | None = None
    month: int | None = None
    day: int | None = None

    @property
    def any_day(self) -> bool:
        """Whether no day was typed."""
        return self.before is None and self.days is None and self.month is None

    def at(self, near: float, last: float) -> float:
        """Seconds of the log's calendar, the last of whose times is ``last``; what was left out of a date is
        that of ``near``."""
        if self.before is not None:
            return last - self.before
        if self.days is not None:
            return last - last % DAY - self.days * DAY + self.clock
        base = datetime.fromtimestamp(near, UTC)
        month, day = self.month or base.month, self.day or base.day
        begin = datetime(self.year or base.year, month, 1, tzinfo=UTC).timestamp()
        return begin + (day - 1) * DAY + self.clock


def read_time(text: str) -> TypedTime | None:
    """What ``text`` means; None where it is no time (``UNDERSTOOD`` says what is)."""
    text = text.strip().lower()
    if text and (match := _BEFORE.fullmatch(text)) and any(match.groups()):
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        return TypedTime(before=((days * 24 + hours) * 60 + minutes) * 60 + seconds)
    match = _AT.fullmatch(text) if text else None
    if match is None:
        return None
    part = {name: int(match[name] or 0) for name in ("hour", "minute", "second", "year", "month", "day")}
    if part["hour"] > 23 or part["minute"] > 59 or part["second"] > 60:
        return None
    fraction = float(f"0.{match['fraction']}") if match["fraction"] else 0.0
    clock = (part["hour"] * 60 + part["minute"]) * 60 + part["second"] + fraction
    if match["word"]:
        return TypedTime(clock=clock, days=int(match["word"] == "yesterday"))
    if not match["month"]:
        return TypedTime(clock=clock)
    try:
        datetime(part["year"] or _LEAP, part["month"], part["day"], tzinfo=UTC)
    except ValueError:
        return None
    return TypedTime(clock=clock, year=part["year"] or None, month=part["month"], day=part["day"])
