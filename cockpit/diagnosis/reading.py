"""One log read for what is known: hits of signatures, tracebacks, attempts. Pure; memory stays flat."""

from __future__ import annotations

import functools
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise

from cockpit.diagnosis import outer, tracebacks
from cockpit.diagnosis.scan import KEPT, Places, Scan, Texts, line_at, lines_after, lines_before, scan, text_at
from cockpit.diagnosis.signatures import Signature, signatures
from cockpit.diagnosis.sources import Source
from cockpit.diagnosis.tracebacks import Block, Raised
from cockpit.logs.records import Line, parse_line, stream_of, strip_ansi

_MARK = tracebacks.MARK.encode()
SOFT = {"INFO", "WARNING", "DEBUG"}
"""Levels of records that name no failure."""
_LOGGING_ERROR = "--- Logging error ---"
_REQUEST_ERROR = "Exception in ASGI application"
_MARGIN = re.compile(r" {2,}(?:\| )+")
"""What stands before the lines of a traceback in an exception group."""
_GONE_ON = ("hutdown", "hutting down", "xiting", "leaked", "destroy")
LONGEST_TEXT = 4000
_BEGINS, _BESIDE = ("begin-args", "fact-version"), 3
_ONE_OF = re.compile(r"(?i:apiserver)\w*|EngineCore\w*|Worker_\w+")
"""Processes of which a launch has but one of a name."""
_PLACES = 3000
"""Places of known texts that are looked into: all that are kept, but for a log in which everything stands often."""
_LEAST = 4
_NEAR = 6


@dataclass(frozen=True, slots=True)
class Hit:
    """A line that a signature knows: where, whose, and the named parts of the message. ``block`` is the
    traceback it stands in; ``ip`` the cluster address that the line or its traceback names."""

    signature: Signature
    source: int
    offset: int
    line: int
    head: Line
    text: str
    parts: dict[str, str]
    block: Block | None = None
    ip: str = ""


@dataclass(slots=True)
class Reading:
    """What one source says. ``starts`` are the first lines of its attempts; ``tail`` its last lines."""

    source: Source
    index: int
    lines: int
    starts: list[int]
    hits: list[Hit] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    tail: list[tuple[int, int, Line]] = field(default_factory=list)

    def attempt_of(self, line: int) -> int:
        """The attempt (from 0) that a line belongs to."""
        return max(0, bisect_right(self.starts, line) - 1)

    @property
    def attempts(self) -> int:
        """How many attempts the log holds."""
        return max(1, len(self.starts))

    @property
    def mixed(self) -> str:
        """What tells that the lines of two launches run through each other, "" where nothing does: two processes of
        the same part of vLLM, or (without prefixes) two beginnings side by side."""
        spans: dict[tuple[str, int], tuple[int, int]] = {}
        for hit in self.hits:
            if hit.head.pid is not None and _ONE_OF.fullmatch(hit.head.process):
                first, last = spans.get((hit.head.process, hit.head.pid), (hit.line, hit.line))
                spans[hit.head.process, hit.head.pid] = (min(first, hit.line), max(last, hit.line))
        before = ("", 0, 0)
        for (name, pid), (begin, end) in sorted(spans.items(), key=lambda item: (item[0][0], item[1])):
            if name == before[0] and begin < min(before[2], end):
                return f"processes {before[1]} and {pid}"
            if name != before[0] or end > before[2]:
                before = (name, pid, end)
        begins = sorted(hit.line for hit in self.hits if hit.signature.id in _BEGINS and hit.head.pid is None)
        beside = next((line for line, after in pairwise(begins) if after - line <= _BESIDE), 0)
        return f"beginnings side by side from line {self.source.line_of(beside)} on" if beside else ""


@functools.cache
def _texts() -> Texts:
    return Texts([_MARK, *(text for signature in signatures() for text in signature.find)])


@functools.cache
def _by_text() -> dict[bytes, list[Signature]]:
    found: dict[bytes, list[Signature]] = {}
    for signature in signatures():
        for text in signature.find:
            found.setdefault(text, []).append(signature)
    return found


def _segment(line: str, text: str) -> str:
    """The part of a line with carriage returns that holds ``text``."""
    if "\r" not in line:
        return line
    return next((part for part in reversed(line.split("\r")) if text in part), line)


class _Cache:
    """The lines already taken apart; most are asked for several times, and many are alike."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._outer = outer.learn(source.data)
        self._texts: dict[int, str] = {}
        self._lines: dict[str, Line] = {}

    def parse(self, text: str) -> Line:
        """A line taken apart, without what the tool that kept the log wrote before it."""
        line = self._lines.get(text)
        if line is None:
            line = parse_line(self._bare(text))
            margin = _MARGIN.match(line.text)
            if margin:
                line = replace(line, text=line.text[margin.end() :])
            self._lines[text] = line
        return line

    def _bare(self, text: str) -> str:
        if self._outer is None:
            return text
        text = strip_ansi(text)
        match = self._outer.match(text)
        return text[match.end() :] if match else text

    def line(self, offset: int, line: int, text: str) -> Line:
        """The line at ``offset`` taken apart; of one with carriage returns the part that holds ``text``."""
        if line not in self._texts:
            self._texts[line] = text_at(self.source.data, offset)
        return self.parse(_segment(self._texts[line], text))

    def joined(self, place: tuple[int, int], head: Line, count: int) -> list[tuple[int, int, str]]:
        """The message from ``head`` on over ``count`` lines of its stream: (offset, number, text)."""
        offset, line = place
        texts = [(offset, line, head.text)]
        for at, number, raw in tracebacks.numbered(lines_after(self.source.data, offset, 4 * count), line):
            other = self.parse(raw)
            if stream_of(other) == stream_of(head) or not other.chain:
                texts.append((at, number, other.text))
            if len(texts) >= count:
                break
        return texts


def read(source: Source, index: int) -> Reading:
    """Reads a log once."""
    found = scan(source.data, _texts())
    cache = _Cache(source)
    reading = Reading(source, index, found.lines, [])
    reading.blocks = _blocks(cache, found)
    hits = list(_hits(cache, found, reading))
    reading.starts = _starts(hits)
    if len(reading.starts) == 1:
        reading.starts += _after_deaths(reading.blocks)
    reading.hits = hits
    reading.tail = _tail(cache, found.lines)
    return reading


def _blocks(cache: _Cache, found: Scan) -> list[Block]:
    source, blocks = cache.source, list[Block]()
    begun = _begun_before(cache)
    if begun is not None:
        blocks.append(begun)
    for offset, line in found.places.get(_MARK, Places()).some():
        text = _segment(text_at(source.data, offset), tracebacks.MARK)
        if _block_of(blocks, cache.parse(text), line) is not None:
            continue
        after = tracebacks.numbered(lines_after(source.data, offset, tracebacks.MOST), line)
        block = tracebacks.read_block((offset, line, text), after, cache.parse)
        block.before = _before(cache, block)
        if block.raised:
            blocks.append(block)
    return blocks


def _before(cache: _Cache, block: Block) -> str:
    """The line of its own stream that a traceback follows, else the line before it."""
    lines = [cache.parse(text) for _, text in lines_before(cache.source.data, block.offset, _NEAR)]
    own = [line for line in lines if stream_of(line) == stream_of(block.head)]
    return own[0].text if own else lines[0].text if lines else ""


def _begun_before(cache: _Cache) -> Block | None:
    """The traceback in whose middle the log begins: frames, and no beginning of one before them."""
    data = cache.source.data
    first = [(0, 1, text_at(data, 0)), *tracebacks.numbered(lines_after(data, 0, 60), 1)] if len(data) else []
    for offset, number, raw in first:
        text = cache.parse(raw).text
        if text.startswith(tracebacks.MARK):
            return None
        if text.lstrip().startswith('File "'):
            after = tracebacks.numbered(lines_after(data, offset, tracebacks.MOST), number)
            block = tracebacks.read_block((offset, number, raw), after, cache.parse)
            return block if block.raised else None
    return None


def _hits(cache: _Cache, found: Scan, reading: Reading) -> Iterator[Hit]:
    seen: set[tuple[str, int]] = set()
    count = max(_LEAST, min(KEPT, _PLACES // (2 * len(found.places) or 1)))
    for text, places in found.places.items():
        word, some = text.decode(), places.some(count)
        for signature in _by_text().get(text, ()):
            for offset, line in some:
                if (signature.id, line) not in seen:
                    hit = _hit(cache, signature, (offset, line, word), reading)
                    if hit is not None:
                        seen.add((signature.id, line))
                        yield hit


def _hit(cache: _Cache, signature: Signature, place: tuple[int, int, str], reading: Reading) -> Hit | None:
    offset, line, word = place
    head = cache.line(offset, line, word)
    if head.level in SOFT and not signature.any_level:
        return None
    joined = [(offset, line, head.text)]
    if signature.lines > 1:
        joined = cache.joined((offset, line), head, signature.lines)
    text = _window("\n".join(part for _, _, part in joined), word)
    match = signature.search(text)
    if match is None:
        return None
    if signature.mark and match[signature.mark] is not None:
        offset, line, shown = joined[text.count("\n", 0, match.start(signature.mark))]
    else:
        shown = head.text
    block = _block_of(reading.blocks, head, line)
    raised = _raised_of(block, line)
    if (signature.traceback or signature.within) and raised is None:
        return None
    if raised is not None and not signature.comes_from(raised.frames):
        return None
    if block is not None and raised is None and signature.kind and head.text.startswith("    "):
        return None  # the source code of a frame, which may hold a message's words
    ip = head.ip or (raised.ip if raised else "") or tracebacks.remote_address(head.text)
    return Hit(signature, reading.index, offset, line, head, shown[:LONGEST_TEXT], _parts(match), block, ip)


def _window(text: str, word: str) -> str:
    """What of a very long line is looked into: around the known text."""
    if len(text) <= LONGEST_TEXT:
        return text
    start = max(0, text.find(word) - LONGEST_TEXT // 4)
    return text[start : start + LONGEST_TEXT]


def _parts(match: re.Match[str]) -> dict[str, str]:
    """The named parts that were found; ``name2`` is another place of ``name``."""
    parts: dict[str, str] = {}
    for key, value in match.groupdict().items():
        if value is not None:
            parts.setdefault(key.rstrip("0123456789"), value.strip())
    return parts


def _block_of(blocks: Sequence[Block], head: Line, line: int) -> Block | None:
    """The traceback that a line stands in."""
    for block in blocks:
        if block.line <= line <= block.end and (
            (block.head.level, *stream_of(block.head)) == (head.level, *stream_of(head))
        ):
            return block
    return None


def _raised_of(block: Block | None, line: int) -> Raised | None:
    for raised in block.raised if block else ():
        if raised.line <= line <= raised.line + len(raised.more):
            return raised
    return None


def _starts(hits: Sequence[Hit]) -> list[int]:
    """The first lines of the attempts: the same sign of a beginning a second time begins another."""
    starts = [1]
    seen: set[tuple[str, str]] = set()
    begins = sorted((hit for hit in hits if hit.signature.role == "begin"), key=lambda hit: hit.line)
    for hit in begins:
        key = (hit.signature.id, hit.head.process)
        if key in seen or (hit.signature.id == "usage" and seen):
            starts.append(hit.line)
            seen = set()
        seen.add(key)
    return starts


def _after_deaths(blocks: Sequence[Block]) -> list[int]:
    """The lines after the deaths of ``vllm serve`` that another one of the very same words follows: a restart
    loop that dies before it says anything else."""
    deaths: dict[str, list[Block]] = {}
    for block in blocks:
        last = block.raised[-1]
        if block.bare and last.frames and last.frames[0].endswith("in <module>"):
            deaths.setdefault(f"{last.type}: {last.message}", []).append(block)
    most = max(deaths.values(), key=len, default=[])
    return [block.end + 1 for block in most[:-1]]


def _tail(cache: _Cache, lines: int) -> list[tuple[int, int, Line]]:
    """The last lines (offset, number, line), last first."""
    source = cache.source
    size, number = len(source.data), lines
    tail = []
    start, _ = line_at(source.data, size)
    last = [(start, text_at(source.data, size))] if start < size else []
    for offset, raw in chain(last, lines_before(source.data, size, 40)):
        if not last or offset != start:
            number -= 1
        if raw.strip():
            tail.append((offset, number, cache.parse(raw[-LONGEST_TEXT:] if len(raw) > LONGEST_TEXT else raw)))
    return tail


def recovered(block: Block) -> bool:
    """Whether the process went on as if nothing had happened after a bare traceback."""
    if block.before.startswith((_LOGGING_ERROR, _REQUEST_ERROR)) or block.head.level in SOFT:
        return True
    after = block.after
    if not block.bare or after is None or after.level not in SOFT or "-" not in after.time[:3]:
        return False
    own = block.head.process.startswith(("APIServer", "MainProcess")) or not block.head.process
    return own and not any(word in after.text for word in _GONE_ON)
