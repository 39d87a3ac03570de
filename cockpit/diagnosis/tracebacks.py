"""Tracebacks taken out of a log: chains, remote parts and messages of several lines.

A traceback may be printed by a logger (each line carries the record's head), bare, or through Ray; two of
them may run through each other. The lines of one block are those of its own stream and head. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from cockpit.logs.records import Line, parse_line, stream_of

MARK = "Traceback (most recent call last):"
MOST = 1500
_CAUSE = "The above exception was the direct cause of the following exception"
_HANDLING = "During handling of the above exception, another exception occurred"
_EXCEPTION = re.compile(
    r"(?P<type>(?=[\w.]*[A-Z.])[A-Za-z_][\w.]*(?:\([\w.]+\))?)(?::(?: |$)|$)(?P<message>.*)"
)
_REMOTE = re.compile(r"ray::(?P<task>[\w:.<>]+)\(\)?.{0,20}?\(?pid=(?P<pid>\d+), ip=(?P<ip>[0-9A-Fa-f.:]+)")
_MESSAGE_LINES = 12
_OTHERS = 80
"""Lines of other streams in a row after which a block counts as over."""


@dataclass(slots=True)
class Raised:
    """One exception of a block: ``type`` with its module, the message's first line and those after it,
    ``line`` where its text stands, ``link`` to the one above: "" (first), "cause" or "handling"; ``ip`` the
    address of the remote task that raised it. ``frames`` are the ``File`` lines, innermost last; ``code`` the
    source lines that were printed below them."""

    type: str
    message: str
    line: int
    offset: int
    link: str = ""
    ip: str = ""
    more: list[str] = field(default_factory=list)
    frames: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The exception as printed, all its lines."""
        first = f"{self.type}: {self.message}" if self.message else self.type
        return "\n".join([first, *self.more])


@dataclass(slots=True)
class Block:
    """A traceback: where it begins and ends (lines), whose it is, and what was raised, in printed order."""

    head: Line
    line: int
    offset: int
    end: int
    raised: list[Raised] = field(default_factory=list)
    before: str = ""
    after: Line | None = None

    @property
    def bare(self) -> bool:
        """Whether no logger printed it."""
        return not self.head.level

    def cause(self) -> Raised | None:
        """The exception that began it: above every "direct cause", else the last one raised."""
        chosen: Raised | None = None
        for raised in self.raised:
            if raised.link != "cause" and not (chosen and chosen.ip and raised.ip):
                chosen = raised
        return chosen


def remote_address(text: str) -> str:
    """The address that a line of a ``RayTaskError`` names, "" without one."""
    match = _REMOTE.search(text)
    return match["ip"].rstrip(".:") if match else ""


def _same(head: Line, line: Line) -> bool:
    """Whether ``line`` is of the block that ``head`` began."""
    if head.level:
        return (line.level, line.source) == (head.level, head.source) and stream_of(line) == stream_of(head)
    return not line.level and stream_of(line) == stream_of(head)


class _Reader:
    """Reads one block, line by line."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.link = ""
        self.ip = ""
        self.open: Raised | None = None
        self.frames: list[str] = []
        self.code: list[str] = []
        self.waiting = True

    def line(self, text: str, number: int, offset: int) -> bool:
        """Takes a line of the block; False when the block is over."""
        if text.startswith(MARK):
            return self._again()
        if text.startswith((_CAUSE, _HANDLING)):
            self.link = "cause" if text.startswith(_CAUSE) else "handling"
            self.open, self.waiting = None, True
            return True
        if text[:2] == "  " or text.lstrip().startswith(("File ", "^", "| ")):
            return self._indented(text)
        if not text.strip():
            return True
        return self._flush_left(text, number, offset)

    def _again(self) -> bool:
        fresh = (self.waiting and bool(self.link)) or not self.block.raised
        self.frames, self.code, self.open = [], [], None
        return fresh or (self.ip != "" and not self.block.raised)

    def _indented(self, text: str) -> bool:
        frame = text.lstrip().startswith("File ")
        if frame:
            self.frames.append(text.strip())
            if self.open is not None and remote_address(self.open.text):
                self.ip, self.waiting = remote_address(self.open.text), True
                self.block.raised.remove(self.open)
                self.open = None
        elif self.open is None:
            self.code.append(text.strip())
        if self.open is not None and len(self.open.more) < _MESSAGE_LINES:
            self.open.more.append(text)
        return True

    def _flush_left(self, text: str, number: int, offset: int) -> bool:
        match = _EXCEPTION.match(text)
        if self.waiting and match and self.frames:
            self.open = Raised(
                match["type"],
                match["message"].strip(),
                number,
                offset,
                self.link,
                self.ip,
                frames=self.frames,
                code=self.code,
            )
            self.block.raised.append(self.open)
            self.waiting, self.frames, self.code = False, [], []
            return True
        if self.open is not None and len(self.open.more) < _MESSAGE_LINES:
            self.open.more.append(text)
            return True
        return self.waiting


def read_block(
    mark: tuple[int, int, str],
    lines: Iterable[tuple[int, int, str]],
    parse: Callable[[str], Line] = parse_line,
) -> Block:
    """The block that begins at ``mark`` (offset, line number, text), from the ``lines`` after it. The mark is
    the first frame where the log begins in the middle of a traceback."""
    offset, number, text = mark
    head = parse(text)
    if head.level and not head.source and not head.time:
        head = replace(head, level="")  # uvicorn and basicConfig mark but the first line of what they print
    block = Block(head, number, offset, number)
    reader = _Reader(block)
    if not head.text.startswith(MARK):
        reader.line(head.text, number, offset)
    others = 0
    for at, count, raw in lines:
        line = parse(raw)
        if not _same(head, line):
            if stream_of(line) == stream_of(head) and line.level and not head.level:
                block.after = block.after or line
            others += 1
            if others > _OTHERS or (reader.open is not None and others > _OTHERS // 4):
                break
            continue
        others = 0
        new = line.text.startswith(MARK) and reader.open is not None and not reader.link
        if new or not reader.line(line.text, count, at):
            break
        if reader.open is not None and line.text.strip():
            block.end = count
    return block


def numbered(pairs: Iterable[tuple[int, str]], after: int) -> Iterator[tuple[int, int, str]]:
    """(offset, text) pairs with the numbers of lines that follow line ``after``."""
    for number, (offset, text) in enumerate(pairs, after + 1):
        if number > after + MOST:
            return
        yield offset, number, text
