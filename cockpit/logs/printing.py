"""Logs to standard output: what ``logs PROFILE`` prints."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from cockpit.logs.follow import CaughtUp, Follower, FollowEvent, Grown, Lost, Waiting
from cockpit.logs.layout import LONG, LineLayout
from cockpit.logs.lines import Place
from cockpit.logs.log import Log
from cockpit.logs.merge import merged_lines
from cockpit.logs.sanitise import split_styles
from cockpit.logs.times import last_time, time_at, year_of
from cockpit.logs.typed import DAY, TypedTime

Write = Callable[[bytes], object]
Tell = Callable[["Printed", FollowEvent], object]

PIECE: Final = 256 * 1024
PATIENCE: Final = 30.0
"""Seconds that a log which is not followed may keep silent before what is there of it must do."""
_PLAIN: Final = bytes(range(0x20, 0x7F)) + b"\n"


@dataclass(slots=True)
class Printed:
    """A log that is printed: ``label`` stands before each of its lines, "" for none. ``follower`` keeps the
    log's spool up to date; None prints what is there. ``told`` collects what the follower tells; ``lost`` is
    how often it has tried in vain since the link was lost."""

    log: Log
    follower: Follower | None = None
    label: str = ""
    lost: int = 0
    told: asyncio.Queue[FollowEvent] = field(default_factory=asyncio.Queue)


def shown_line(log: Log, start: int, end: int) -> bytes:
    """A line as it is printed: safe for a terminal, progress bars in their last state, without colours."""
    if end - start < LONG:
        data = log.file.read(start, end)
        if data.isascii() and data.decode("ascii").isprintable():
            return data
    layout = LineLayout(log.file, start, end)
    return "".join(layout.part(number).text for number in range(layout.parts)).encode("utf-8", "replace")


def since_time(logs: Sequence[Log], since: TypedTime) -> float | None:
    """The time that ``--since`` means; None where the logs tell none. A time without a day is the last such time
    that the logs hold."""
    told = [(time_at(log, 0, year), last_time(log, year)) for log in logs for year in [year_of(log)]]
    firsts, lasts = ([time for time in times if time is not None] for times in zip(*told, strict=True))
    if not firsts or not lasts:
        return None
    last = max(lasts)
    wanted = since.at(last, last)
    return wanted - DAY if since.any_day and wanted > last and wanted - DAY >= min(firsts) else wanted


def safe(text: str) -> str:
    """A piece of a message, safe to print."""
    return "".join(piece for piece, _ in split_styles(text))


async def caught_up(printed: Printed, tell: Tell | None = None, patience: float = PATIENCE) -> str:
    """Wait until the spool holds all that the host has; "" then, else why it does not."""
    why = "nothing was heard from the host"
    try:
        while True:
            async with asyncio.timeout(patience):
                event = await printed.told.get()
                while isinstance(event, Lost):
                    why = event.why
                    event = await printed.told.get()
            if tell is not None:
                tell(printed, event)
            if isinstance(event, CaughtUp):
                return ""
            if isinstance(event, Waiting):
                return "there is no such log on the host"
    except TimeoutError:
        return why


@asynccontextmanager
async def running(printed: Sequence[Printed]) -> AsyncIterator[None]:
    """The followers at work. What ends one of them for good ends the work on all, and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each.follower.run()) for each in printed if each.follower]
            yield
            for task in tasks:
                task.cancel()
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None


class Printer:
    """Prints one log as it grows, from ``start`` on: safe lines, or with ``raw`` the exact bytes."""

    def __init__(self, printed: Printed, write: Write, start: int = 0, *, raw: bool = False) -> None:
        self.printed = printed
        self._write = write
        self._raw = raw
        self._at = start
        self._marked = -1
        self._held: tuple[int | None, int] = (None, 0)
        """Where the bytes began that were in memory alone, and how many were dropped before them."""

    @property
    def _label(self) -> bytes:
        return f"{self.printed.label}: ".encode() if self.printed.label else b""

    def print(self, *, whole: bool = False) -> bool:
        """Print about a quarter of a megabyte; whether there is more. With ``whole`` an unfinished last line is
        kept back."""
        log = self._log()
        at, end = self._at, log.file.size
        if at >= end:
            return False
        if self._raw:
            self._write(log.file.read(at, min(end, at + PIECE)))
            self._at = min(end, at + PIECE)
            return True
        data = log.file.read(at, min(end, at + PIECE))
        size = data.rfind(b"\n") + 1
        if size and not log.marks_between(at, at + size) and not data[:size].translate(None, _PLAIN):
            self._write(self._labelled(data[:size]))
            self._at = at + size
            return True
        return self._print_lines(log, at + size, end, whole)

    def _labelled(self, lines: bytes) -> bytes:
        label = self._label
        return label + lines[:-1].replace(b"\n", b"\n" + label) + b"\n" if label else lines

    def _print_lines(self, log: Log, until: int, end: int, whole: bool) -> bool:
        """Print the lines that begin before ``until``, one at least."""
        lines: list[bytes] = []
        while self._at < end and (self._at < until or not lines):
            stop = log.index.end_of_line(self._at)
            if whole and stop >= end:
                break
            for mark in log.marks_between(max(self._at, self._marked + 1), stop + 1):
                lines.append(self._label + f"── {mark.words()} ──\n".encode())
                self._marked = mark.at
            lines.append(self._label + shown_line(log, self._at, stop) + b"\n")
            self._at = min(stop + 1, end)
        if lines:
            self._write(b"".join(lines))
        return bool(lines)

    def _log(self) -> Log:
        """The log as it is now. What neither the full disk here nor memory could hold moves what comes after
        it; it is there again when the disk has room."""
        log = self.printed.log
        log.refresh()
        if log.stale:
            self.printed.log = log.reopen()
            log.close()
            log = self.printed.log
            before, dropped = self._held
            reached = self._at + (dropped if before is not None and self._at > before else 0)
            start, dropped = self._held = log.file.held_from, log.file.dropped
            self._at = reached if start is None or reached < start else max(start, reached - dropped)
        return log


def print_merged(
    printed: Sequence[Printed], write: Write, *, since: float | None = None, whole: bool = False
) -> list[int]:
    """Print what several logs hold, by time, each line with its log's label; from ``since`` on. Their unfinished
    last lines come last, or with ``whole`` not at all. Returns where printing stopped in each."""
    for each in printed:
        each.log.refresh()
    labels = {id(each.log): f"{each.label}: ".encode() if each.label else b"" for each in printed}
    lines, size = list[bytes](), 0
    for place in merged_lines([each.log for each in printed], since):
        line = _printed_line(place, labels[id(place.log)])
        lines.append(line)
        size += len(line)
        if size > PIECE:
            write(b"".join(lines))
            lines, size = [], 0
    if lines:
        write(b"".join(lines))
    ends: list[int] = []
    for each in printed:
        log, size = each.log, each.log.file.size
        start = log.index.start_of_line(size) if size else 0
        if start < size and not whole:
            write(_printed_line(Place(log, start, size), labels[id(log)]))
            start = size
        ends.append(start)
    return ends


def _printed_line(place: Place, label: bytes) -> bytes:
    """A line as it is printed, with the marks that stand before it."""
    marks = place.log.marks_between(place.start, place.end + 1)
    gaps = b"".join(label + f"── {mark.words()} ──\n".encode() for mark in marks)
    return gaps + label + shown_line(place.log, place.start, place.end) + b"\n"


async def _print_all(printer: Printer, *, whole: bool) -> None:
    """Print all that is there, off the event loop: whoever reads may be slow."""
    while await asyncio.to_thread(printer.print, whole=whole):
        pass


async def print_log(
    printed: Printed,
    write: Write,
    *,
    start: int = 0,
    follow: bool = False,
    raw: bool = False,
    tell: Tell | None = None,
) -> str:
    """Bring one log up to date and print it as it comes, with ``follow`` until cancelled. ``tell`` hears what
    the follower tells: that the link is lost, that bytes are missing.

    Returns "" or why the host's log could not be read to its end; what is in the spool is printed all the same.
    """
    printer, why = Printer(printed, write, start, raw=raw), ""
    if follow:
        await follow_log(printer, asyncio.Lock(), tell)
    async with running([printed]):
        if printed.follower:
            why = await _print_until(printer, tell)
        await _print_all(printer, whole=False)
    return why


async def follow_log(printer: Printer, turn: asyncio.Lock, tell: Tell | None = None) -> None:
    """Print what is there and what comes, until cancelled. ``turn`` is held while lines are printed: several
    logs share it."""
    printed = printer.printed
    async with running([printed]):
        async with turn:
            await _print_all(printer, whole=True)
        while True:
            event = await printed.told.get()
            if tell is not None and not isinstance(event, Grown | CaughtUp):
                tell(printed, event)
            if printed.told.empty():
                async with turn:
                    await _print_all(printer, whole=True)


async def _print_until(printer: Printer, tell: Tell | None) -> str:
    """Print what is there and what comes, until the host has no more; "" or why not all could be read."""
    catching_up = asyncio.ensure_future(caught_up(printer.printed, tell))
    try:
        while not catching_up.done():
            await _print_all(printer, whole=True)
            await asyncio.wait([catching_up], timeout=0.05)
        return catching_up.result()
    finally:
        catching_up.cancel()
