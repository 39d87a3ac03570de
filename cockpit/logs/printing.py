"""Logs to standard output: what ``logs PROFILE`` prints."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from cockpit.logs.follow import CaughtUp, Follower, FollowEvent, Gap, Lost, Waiting
from cockpit.logs.layout import LONG, LineLayout
from cockpit.logs.log import Log
from cockpit.logs.merge import merged_lines
from cockpit.logs.sanitise import split_styles
from cockpit.logs.times import find_time, time_at, typed_time, year_of

Write = Callable[[bytes], object]


@dataclass(slots=True)
class Printed:
    """A log that is printed: ``label`` stands before each of its lines, "" for none. ``follower`` keeps the
    log's spool up to date; None prints what is there. ``told`` collects what the follower tells."""

    log: Log
    follower: Follower | None = None
    label: str = ""
    told: asyncio.Queue[FollowEvent] = field(default_factory=asyncio.Queue)


def shown_line(log: Log, start: int, end: int) -> bytes:
    """A line as it is printed: safe for a terminal, progress bars in their last state, without colours."""
    if end - start < LONG:
        data = log.file.read(start, end)
        if data.isascii() and data.decode("ascii").isprintable():
            return data
    layout = LineLayout(log.file, start, end)
    return "".join(layout.part(number).text for number in range(layout.parts)).encode("utf-8", "replace")


def since_offset(log: Log, since: str) -> int | None:
    """Where printing begins for ``--since`` (a time as it is typed); None where it is no time of this log."""
    year = year_of(log)
    near = time_at(log, 0, year)
    wanted = typed_time(since, near) if near is not None else None
    return None if wanted is None else find_time(log, wanted, year)


def safe(text: str) -> str:
    """A piece of a message, safe to print."""
    return "".join(piece for piece, _ in split_styles(text))


async def caught_up(printed: Printed, patience: float = 30.0) -> str:
    """Wait until the spool holds all that the host has; "" then, else why it does not."""
    why = "nothing was heard from the host"
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(patience):
            while True:
                match await printed.told.get():
                    case CaughtUp():
                        return ""
                    case Waiting():
                        return "there is no such log on the host"
                    case Lost() as event:
                        why = event.why
    return why


@asynccontextmanager
async def running(printed: Sequence[Printed]) -> AsyncIterator[None]:
    """The followers at work."""
    tasks = [asyncio.ensure_future(each.follower.run()) for each in printed if each.follower]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def print_merged(
    printed: Sequence[Printed], write: Write, *, since: float | None = None, raw: bool = False
) -> None:
    """Print what several logs hold, by time, each line with its log's label; from ``since`` on."""
    for each in printed:
        each.log.refresh()
    labels = {id(each.log): each.label for each in printed}
    for place in merged_lines([each.log for each in printed], since):
        label = labels[id(place.log)]
        line = (
            place.log.file.read(place.start, place.end)
            if raw
            else shown_line(place.log, place.start, place.end)
        )
        write((f"{label}: ".encode() if label else b"") + line + b"\n")


def print_from(printed: Printed, write: Write, start: int, *, raw: bool = False, whole: bool = False) -> int:
    """Print from ``start`` to the end of what is there, with ``whole`` to the end of the last whole line;
    returns where it stopped. ``raw`` gives the exact bytes."""
    log = printed.log
    log.refresh()
    end = log.file.size
    if raw:
        for piece in log.file.pieces(start, end):
            write(piece)
        return end
    label = f"{printed.label}: ".encode() if printed.label else b""
    while start < end:
        stop = log.index.end_of_line(start)
        if whole and stop >= end:
            return start
        for mark in log.marks_between(start, stop + 1):
            write(f"── {mark.words()} ──\n".encode())
        write(label + shown_line(log, start, stop) + b"\n")
        start = stop + 1
    return min(start, end)


async def print_log(
    printed: Printed, write: Write, *, start: int = 0, follow: bool = False, raw: bool = False
) -> str:
    """Bring one log up to date and print it, with ``follow`` until cancelled.

    Returns "" or why the host's log could not be read to its end; what is in the spool is printed all the same.
    """
    async with running([printed]):
        why = await caught_up(printed) if printed.follower else ""
        at = print_from(printed, write, start, raw=raw, whole=follow)
        while follow:
            event = await printed.told.get()
            if not isinstance(event, Gap):
                at = print_from(printed, write, at, raw=raw, whole=True)
    return why
