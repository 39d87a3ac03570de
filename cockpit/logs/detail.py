"""The whole record that a line belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cockpit.logs.filters import TRACEBACK
from cockpit.logs.log import Log
from cockpit.logs.records import records

_BEFORE: Final = 200
_AFTER: Final = 400
_MOST: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class Detail:
    """A record's stretch of the file, and its text (raw, not sanitised); ``cut`` says that only its first
    256 KiB are in ``text``. ``selected`` is where in it the line stands that was asked for."""

    start: int
    end: int
    text: str
    selected: int = 0
    cut: bool = False


def whole_record(log: Log, start: int) -> Detail:
    """The record that holds the line at ``start``: its head and its continuation lines. A traceback is a record
    of its own, though nothing stands before it but its process.

    A head more than 200 lines before is not looked for: the record begins there then.
    """
    first = start
    for _ in range(_BEFORE):
        previous = log.index.previous_line(first)
        if previous is None or start - previous > _MOST:
            break
        first = previous
    stretches: list[tuple[int, int]] = []
    at: int | None = first
    after = 0
    while at is not None and after < _AFTER and at < start + _MOST:
        end = log.index.end_of_line(at)
        stretches.append((at, end))
        after += at > start
        at = log.index.next_line(at)
    number = next(number for number, (begin, _) in enumerate(stretches) if begin == start)
    lines = [_text(log, begin, min(end, begin + _MOST)) for begin, end in stretches]
    first_line, last_line = number, number
    for record in records(iter(lines), 0):
        if record.line <= number < record.line + record.count:
            first_line, last_line = record.line, record.line + record.count - 1
            break
    tracebacks = [at for at in range(first_line + 1, last_line + 1) if TRACEBACK in lines[at]]
    first_line = max((at for at in tracebacks if at <= number), default=first_line)
    last_line = min((at - 1 for at in tracebacks if at > number), default=last_line)
    begin, end = stretches[first_line][0], stretches[last_line][1]
    text = _text(log, begin, min(end, begin + _MOST))
    before = sum(len(line) + 1 for line in lines[first_line:number])
    return Detail(begin, end, text, min(before, len(text)), end - begin > _MOST)


def _text(log: Log, start: int, end: int) -> str:
    return log.file.read(start, end).decode("utf-8", "surrogateescape")
