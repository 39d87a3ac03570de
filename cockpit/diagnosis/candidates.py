"""What may have ended a launch: hits and unknown exceptions, weighed against each other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from cockpit.diagnosis.clock import may_end
from cockpit.diagnosis.reading import SOFT, Hit, Reading, recovered
from cockpit.diagnosis.scan import text_at
from cockpit.diagnosis.sources import CONTAINER, KERNEL, SERVE
from cockpit.diagnosis.tracebacks import Block, Raised

RANKS = {"cause": 0, "exception": 1, "stall": 2, "effect": 3, "vague": 4, "wrapper": 5}
DEADLY = ("effect", "vague", "wrapper")
FAR = 1 << 60
BESIDE = 100
SERVING = (SERVE, CONTAINER)
_TIME = re.compile(r"\d\d-\d\d \d\d:\d\d:\d\d")


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something that may be the cause: a hit, or an exception that no signature knows."""

    role: str
    reading: Reading
    line: int
    time: str
    hit: Hit | None = None
    raised: Raised | None = None
    block: Block | None = None
    first: str = ""

    @property
    def rank(self) -> tuple[int, int, str, int, int]:
        """Smaller is better: what it is, then the earliest; times only tell one source from another, as lines
        of Ray's workers come late. What stands beside the serve logs (Ray's files, the kernel's log) may be of
        an earlier run, so that the serve's own word goes first."""
        weight = self.hit.signature.weight if self.hit else 0
        if self.reading.source.role not in SERVING:
            weight -= BESIDE
        return (RANKS[self.role], -weight, self.first, self.reading.index, self.line)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of one source: its hits in order of lines, and what they say about its end."""

    reading: Reading
    number: int
    hits: tuple[Hit, ...]
    ready: int
    stop: int
    progress: int
    weak_stop: bool = False

    @property
    def serves(self) -> bool:
        """Whether the source is the log of a serve, which may come up or be stopped."""
        return self.reading.source.role in SERVING


def attempt(reading: Reading, number: int) -> Attempt:
    """The attempt ``number`` of a source."""
    hits = sorted(
        (hit for hit in reading.hits if reading.attempt_of(hit.line) == number), key=lambda hit: hit.line
    )
    lines = {
        role: [hit.line for hit in hits if hit.signature.role == role] for role in ("ready", "stop", "progress")
    }
    progress = max(lines["progress"] + lines["ready"], default=0)
    stops = [hit for hit in hits if hit.signature.role == "stop"]
    weak = bool(stops) and all(_weak(hit) for hit in stops)
    ready, stop = max(lines["ready"], default=0), min(lines["stop"], default=FAR)
    return Attempt(reading, number, tuple(hits), ready, stop, progress, weak)


def _weak(hit: Hit) -> bool:
    term = hit.parts.get("signal") in ("SIGTERM", "15") or hit.signature.id == "stop-exit"
    return term and hit.head.process.startswith(("Engine", "Worker"))


def candidates(tried: Attempt) -> list[Candidate]:
    """Everything in the attempt that may have ended it, the best first."""
    found = sorted([*_of_hits(tried), *_of_exceptions(tried)], key=lambda item: item.line)
    dead = any(item.role in DEADLY and item.line > tried.ready for item in found)
    failed_first = any(item.line < tried.stop and _counts(item, tried, dead) for item in found)
    stop = FAR if failed_first else tried.stop
    kept = [item for item in found if _counts(item, tried, dead) and _before(item, stop, tried)]
    return sorted(_timed(kept, tried), key=lambda item: item.rank)


def _timed(items: list[Candidate], tried: Attempt) -> list[Candidate]:
    """The candidates, each with the time of the first of its like in this source."""
    first: dict[tuple[str, int], str] = {}
    for item in items:
        like = (item.role, item.rank[1])
        first.setdefault(like, _clock(item, tried))
    return [replace(item, first=first[item.role, item.rank[1]]) for item in items]


def _clock(item: Candidate, tried: Attempt) -> str:
    """When the candidate was printed: its own time, else the last one before it."""
    if _TIME.fullmatch(item.time):
        return item.time
    times = [hit.head.time for hit in tried.hits if hit.line <= item.line and _TIME.fullmatch(hit.head.time)]
    return times[-1] if times else ""


def _before(item: Candidate, stop: int, tried: Attempt) -> bool:
    """Whether a candidate came before the operator's stop. A SIGTERM to the engine alone may be the API
    server's own, which then says why."""
    if item.line < stop:
        return True
    own = item.role in ("cause", "exception") and not (
        item.block and item.block.head.process.startswith("Engine")
    )
    return tried.weak_stop and own


def _counts(item: Candidate, tried: Attempt, dead: bool) -> bool:
    """Whether a candidate may speak: what came before the launch was ready is no cause; while it serves, an
    error of a request is none either. A record after which the load went on was survived."""
    if not tried.serves:
        return True
    dies = item.hit is not None and item.hit.signature.dies
    if not tried.ready:
        survived = item.hit is not None and _only_told(item.hit) and item.line < tried.progress
        return dead or dies or not survived
    return item.line > tried.ready and (dead or dies)


def _only_told(hit: Hit) -> bool:
    """Whether the line is a record that stands alone, after which a process may go on."""
    return hit.head.level in SOFT or (hit.block is None and bool(hit.head.level and hit.head.source))


def _of_hits(tried: Attempt) -> Iterator[Candidate]:
    for hit in tried.hits:
        if hit.signature.role not in RANKS or hit.signature.role == "stall":
            continue
        if hit.block is not None and recovered(hit.block):
            continue
        yield Candidate(hit.signature.role, tried.reading, hit.line, hit.head.time, hit, None, hit.block)


_TELL_NOTHING = ("fact", "progress", "ready", "begin", "hint")
"""Roles of lines that leave it open why they stand in an exception."""


def _of_exceptions(tried: Attempt) -> Iterator[Candidate]:
    known = {hit.line for hit in tried.hits if hit.signature.role not in _TELL_NOTHING}
    for block in tried.reading.blocks:
        if tried.reading.attempt_of(block.line) != tried.number or recovered(block):
            continue
        raised = _unknown(block, known)
        if raised is not None:
            yield Candidate("exception", tried.reading, raised.line, block.head.time, None, raised, block)


def _unknown(block: Block, known: set[int]) -> Raised | None:
    """The exception of a block that no signature knows, unless one knows the block's cause."""
    if any(not _covered(raised, known) for raised in block.raised):
        cause = block.cause()
        if cause is not None and not _covered(cause, known):
            return cause
    return None


def _covered(raised: Raised, known: set[int]) -> bool:
    return any(line in known for line in range(raised.line, raised.line + len(raised.more) + 1))


def of_launch(items: list[Candidate], tried: Sequence[Attempt], gone: bool) -> list[Candidate]:
    """The candidates of all sources that are about this launch. Ray's files and the kernel's log hold older
    things too: beside a server that is up Ray's say nothing, and the kernel's only what came after the
    serve's last record."""
    serving = [one for one in tried if one.serves]
    own = [item for item in items if item.reading.source.role in SERVING]
    if not serving or own or gone:
        return items
    last = max(
        (hit.head.time for one in serving for hit in one.hits if _TIME.fullmatch(hit.head.time)), default=""
    )
    kernel = [item for item in items if item.reading.source.role == KERNEL and _ends(item, last)]
    if any(one.ready for one in serving):
        return kernel
    return [*(item for item in items if item.reading.source.role != KERNEL), *kernel]


def _ends(item: Candidate, last: str) -> bool:
    if item.hit is None:
        return False
    return may_end(text_at(item.reading.source.data, item.hit.offset), last)


def hints(tried: Sequence[Attempt], names: set[str], ip: str = "") -> list[Hit]:
    """The hints that are the deeper reason of what goes by ``names`` (role, kind, id), those of the same
    address first."""
    found = [
        hit
        for one in tried
        for hit in one.hits
        if hit.signature.role == "hint" and hit.signature.explains & names
    ]
    return sorted(found, key=lambda hit: (-hit.signature.weight, hit.ip != ip, hit.source, hit.line))


def names_of(best: Candidate) -> set[str]:
    """What a candidate goes by for hints."""
    return {best.role, best.hit.signature.kind, best.hit.signature.id} if best.hit else {best.role}
