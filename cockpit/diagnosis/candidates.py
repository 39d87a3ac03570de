"""What may have ended a launch: hits and unknown exceptions, weighed against each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cockpit.diagnosis.reading import Hit, Reading, recovered
from cockpit.diagnosis.sources import CONTAINER, SERVE
from cockpit.diagnosis.tracebacks import Block, Raised

RANKS = {"cause": 0, "exception": 1, "stall": 2, "effect": 3, "vague": 4, "wrapper": 5}
DEADLY = ("effect", "vague", "wrapper")
FAR = 1 << 60


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

    @property
    def rank(self) -> tuple[int, int, str, int, int]:
        """Smaller is better: what it is, then the earliest."""
        weight = self.hit.signature.weight if self.hit else 0
        return (RANKS[self.role], -weight, self.time, self.reading.index, self.line)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of one source: its hits in order of lines, and what they say about its end."""

    reading: Reading
    number: int
    hits: tuple[Hit, ...]
    ready: int
    stop: int
    progress: int

    @property
    def serves(self) -> bool:
        """Whether the source is the log of a serve, which may come up or be stopped."""
        return self.reading.source.role in (SERVE, CONTAINER)


def attempt(reading: Reading, number: int) -> Attempt:
    """The attempt ``number`` of a source."""
    hits = sorted(
        (hit for hit in reading.hits if reading.attempt_of(hit.line) == number), key=lambda hit: hit.line
    )
    lines = {
        role: [hit.line for hit in hits if hit.signature.role == role] for role in ("ready", "stop", "progress")
    }
    progress = max(lines["progress"] + lines["ready"], default=0)
    return Attempt(
        reading, number, tuple(hits), max(lines["ready"], default=0), min(lines["stop"], default=FAR), progress
    )


def candidates(tried: Attempt) -> list[Candidate]:
    """Everything in the attempt that may have ended it, the best first."""
    found = [*_of_hits(tried), *_of_exceptions(tried)]
    dead = any(item.role in DEADLY and item.line > tried.ready for item in found)
    kept = [item for item in found if _counts(item, tried, dead)]
    return sorted(kept, key=lambda item: item.rank)


def _counts(item: Candidate, tried: Attempt, dead: bool) -> bool:
    """Whether a candidate may speak: what came before the launch was ready, or after it was stopped, is no
    cause; while it serves, an error of a request is none either."""
    if not tried.serves:
        return True
    if item.line > tried.stop:
        return False
    if not tried.ready:
        return True
    dies = item.hit is not None and item.hit.signature.dies
    return item.line > tried.ready and (dead or dies)


def _of_hits(tried: Attempt) -> Iterator[Candidate]:
    for hit in tried.hits:
        if hit.signature.role not in RANKS or hit.signature.role == "stall":
            continue
        if hit.block is not None and recovered(hit.block):
            continue
        yield Candidate(hit.signature.role, tried.reading, hit.line, hit.head.time, hit, None, hit.block)


def _of_exceptions(tried: Attempt) -> Iterator[Candidate]:
    known = {hit.line for hit in tried.hits if hit.signature.role not in ("fact", "progress", "ready", "begin")}
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


def hints(tried: Sequence[Attempt], best: Candidate) -> Iterator[Hit]:
    """The hints that are the deeper reason of the best candidate."""
    names = {best.role, best.hit.signature.kind, best.hit.signature.id} if best.hit else {best.role}
    for one in tried:
        for hit in one.hits:
            if hit.signature.role == "hint" and hit.signature.explains & names:
                yield hit
