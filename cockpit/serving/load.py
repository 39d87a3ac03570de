"""Is the load going on? A verdict with evidence: a silence alone is never a stall.

A good load was silent for 25 seconds (workers importing, vLLM 0.24.0 on two hosts), a busy machine takes
longer; what hangs for ever says so in its log, or a rank that must come is missing for a minute.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from cockpit.logs.records import parse_line
from cockpit.model.facts import Membership, MemberState
from cockpit.model.progress import ORDER, Phase, Progress
from cockpit.runtime.detached import Process, ProcessState
from cockpit.serving.phases import LoadReader

SILENCE = 60.0
"""Seconds without news before a missing rank counts as one that does not come."""

_LINE_LIMIT = 16 * 1024
_SIGNS = re.compile(
    rb"(?P<waiting>Waiting for creating a placement group of specs for (?P<seconds>\d+) seconds)"
    rb"|(?P<own_ray>Started a local Ray instance)"
    rb"|(?P<gcs>Failed to connect to GCS at address|Failed to get cluster ID from GCS server)"
)


class LoadKind(StrEnum):
    """What a load is. ``ready-line`` still needs /health to answer 200."""

    LOADING = "loading"
    READY_LINE = "ready-line"
    DEAD = "dead"
    STALLED = "stalled"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True)
class Sign:
    """A line that hangs leave behind: ``kind`` is ``waiting``, ``own_ray`` or ``gcs``; ``line`` counts by
    ``\\n`` from 1; ``seconds`` is the wait that a ``waiting`` line tells."""

    kind: str
    line: int
    text: str
    seconds: int = 0


@dataclass(frozen=True, slots=True)
class LoadState:
    """A load so far. ``ranks`` has the last step of each rank, None's is the engine's; times are seconds of
    the caller's clock."""

    began: float
    last_news: float
    ranks: Mapping[int | None, Progress] = field(default_factory=dict)
    signs: tuple[Sign, ...] = ()

    @property
    def phase(self) -> Phase:
        """How far the load is: the furthest that any rank, or the engine, has come."""
        return max((step.phase for step in self.ranks.values()), key=ORDER.__getitem__, default=Phase.STARTING)


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict. ``reason`` in words; ``evidence`` the lines it rests on; ``status`` the exit status of a
    dead serve, None where it left none."""

    kind: LoadKind
    reason: str = ""
    evidence: tuple[Sign, ...] = ()
    status: int | None = None


class LoadWatch:
    """Gathers a ``LoadState`` from the serve log's bytes and the times they came."""

    def __init__(self, began: float) -> None:
        self._reader = LoadReader()
        self._began = began
        self._last_news = began
        self._ranks: dict[int | None, Progress] = {}
        self._signs: dict[str, list[Sign]] = {}
        self._pending = b""
        self._line = 1

    @property
    def state(self) -> LoadState:
        """The load so far."""
        signs = sorted((sign for kept in self._signs.values() for sign in kept), key=lambda sign: sign.line)
        return LoadState(self._began, self._last_news, dict(self._ranks), tuple(signs))

    def feed(self, data: bytes, at: float) -> list[Progress]:
        """What the next bytes tell; they came at ``at``."""
        if not data:
            return []
        self._last_news = at
        steps = self._reader.feed(data)
        for step in steps:
            self._ranks[step.rank] = step
        self._look_for_signs(data)
        return steps

    def _look_for_signs(self, data: bytes) -> None:
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._sign((self._pending + line)[:_LINE_LIMIT])
            self._pending = b""
            self._line += 1
        self._pending = (self._pending + rest)[:_LINE_LIMIT]

    def _sign(self, line: bytes) -> None:
        match = _SIGNS.search(line)
        if match is None:
            return
        kind = str(match.lastgroup if match.lastgroup != "seconds" else "waiting")
        text = parse_line(line.decode("utf-8", "replace")).text
        kept = self._signs.setdefault(kind, [])
        # The first and the last of a kind are the evidence.
        del kept[1:]
        kept.append(Sign(kind, self._line, text, int(match["seconds"] or 0)))


def judge(
    state: LoadState,
    process: Process,
    now: float,
    *,
    ready_within: float,
    ranks: int = 1,
    membership: Membership | None = None,
) -> Judgement:
    """The verdict on a load. ``ranks`` is the world size; ``membership`` is Ray's, where it was asked."""
    if process.state is ProcessState.ENDED:
        reason = f"vllm serve ended with exit status {process.status}."
        return Judgement(LoadKind.DEAD, reason, status=process.status)
    if process.state is not ProcessState.RUNNING:
        return Judgement(LoadKind.DEAD, "vllm serve is gone and left no exit status: it was killed.")
    if state.phase is Phase.READY:
        return Judgement(LoadKind.READY_LINE)
    for stall in (
        _own_ray(state),
        _unreachable(state),
        _waiting(state, membership),
        _absent(state, now, ranks),
    ):
        if stall is not None:
            return stall
    if now - state.began >= ready_within:
        reason = f"Not ready after {ready_within:g} s; the last phase is {state.phase}."
        return Judgement(LoadKind.TIMEOUT, reason)
    return Judgement(LoadKind.LOADING)


def _of(state: LoadState, kind: str) -> tuple[Sign, ...]:
    return tuple(sign for sign in state.signs if sign.kind == kind)


def _own_ray(state: LoadState) -> Judgement | None:
    """A Ray of its own is no stall before it is too small."""
    own, waiting = _of(state, "own_ray"), _of(state, "waiting")
    if not own or not waiting or _past(state, Phase.PLACEMENT):
        return None
    reason = "vLLM joined no cluster: it started a Ray of its own on this host, and waits there for more GPUs."
    return Judgement(LoadKind.STALLED, reason, (*own, *waiting))


def _unreachable(state: LoadState) -> Judgement | None:
    signs = _of(state, "gcs")
    if len(signs) < 2 or _connected_since(state, signs[-1].line):
        return None
    reason = "Ray's head (GCS) does not answer at the address vLLM was given; vLLM would try for ever."
    return Judgement(LoadKind.STALLED, reason, signs)


def _connected_since(state: LoadState, line: int) -> bool:
    step = state.ranks.get(None)
    return _past(state, Phase.RAY) or (step is not None and step.line > line)


def _waiting(state: LoadState, membership: Membership | None) -> Judgement | None:
    """A placement group that is not there after ten seconds can't be filled where Ray lacks a host. Where
    none is missing, a GPU may still be held by what is ending: half a minute is given for that."""
    signs = _of(state, "waiting")
    if not signs or _past(state, Phase.PLACEMENT):
        return None
    if membership is not None and membership.reachable and not membership.complete:
        expected = [m for m in membership.members if m.state is not MemberState.UNEXPECTED]
        joined = [m for m in expected if m.state is MemberState.JOINED]
        names = ", ".join(m.host for m in expected if m.state is not MemberState.JOINED)
        missing = f"; not there: {names}" if names else ""
        reason = (
            f"The placement group can't be filled: {len(joined)} of {len(expected)} hosts are in Ray{missing}."
        )
        return Judgement(LoadKind.STALLED, reason, signs)
    if signs[-1].seconds < 30:
        return None
    reason = (
        f"vLLM has waited {signs[-1].seconds} s for a placement group: the Ray cluster has too few free GPUs."
    )
    return Judgement(LoadKind.STALLED, reason, signs)


def _absent(state: LoadState, now: float, ranks: int) -> Judgement | None:
    """Some ranks have come, others have not, and nothing is heard for a minute."""
    present = sorted(rank for rank in state.ranks if rank is not None)
    missing = [rank for rank in range(ranks) if rank not in present]
    waits = state.phase in (Phase.WORKERS, Phase.NCCL)
    if not present or not missing or not waits or now - state.last_news < SILENCE:
        return None
    silence = now - state.last_news
    reason = (
        f"Rank {', '.join(map(str, present))} waits for rank {', '.join(map(str, missing))}, of which the log "
        f"says nothing; no news for {silence:.0f} s."
    )
    evidence = tuple(
        Sign("rank", step.line, f"rank {rank}: {step.phase}")
        for rank, step in state.ranks.items()
        if rank is not None
    )
    return Judgement(LoadKind.STALLED, reason, evidence)


def _past(state: LoadState, phase: Phase) -> bool:
    return ORDER[state.phase] > ORDER[phase]
