"""A rank's load as text: phase, bar, rate, time. Pure."""

from __future__ import annotations

from textual.content import Content

from cockpit.logs.sanitise import clean
from cockpit.model.progress import ORDER, Phase
from cockpit.tui import reach, words
from cockpit.tui.bars import filled
from cockpit.tui.ending import ended, last_seen
from cockpit.tui.host_text import MUTED, label
from cockpit.tui.state import RUN, HostView, RankView, RunView, State

TOLD_BY_RANK_0 = frozenset({Phase.GRAPHS})
"""Phases that vLLM tells of on rank 0 alone, whatever the others do."""
LAG = 5.0
"""Seconds for which another rank must have been further: their lines come within seconds of each other."""
LOOKBACK = 15.0
"""Seconds that a rate is taken from."""


def load_lines(host: HostView, state: State, width: int) -> list[Content]:
    """Two lines for each rank of the host; always at least two."""
    run = state.run
    if run is None:
        told = "no run yet" if state.looked_at else "· not asked yet"
        told = f"? no run {age} ago" if (age := reach.age(state)) else told
        told = "? not known" if reach.unasked(state, RUN) else told
        return [Content.assemble(label("Load"), (told, MUTED)), Content("")]
    if run.running and reach.head_away(state) is not None:
        told = f"? {last_seen(state)}: {reach.who(state)}"
        return [
            Content.assemble(label("Load"), (clean(told), "$text-warning")).truncate(width, ellipsis=True),
            Content(""),
        ]
    if run.ready:
        return _ready(host, state, run)
    if not run.running:
        return _ended(run, state)
    if not host.ranks:
        return _no_rank(host, state, run)
    lines: list[Content] = []
    for rank in host.ranks:
        lines += _rank_lines(host, rank, state, width)
    return lines


def _ready(host: HostView, state: State, run: RunView) -> list[Content]:
    since = "" if run.began is None else f" · up {words.coarse(state.now - run.began)}"
    return [Content.assemble(label("Load"), ("✓ ", "$text-success"), f"ready{since}"), Content("")]


def _ended(run: RunView, state: State) -> list[Content]:
    """A run that is over, by what its logs tell: a status of 0 may be a stop, or an engine that died."""
    ending = ended(state)
    line = Content.assemble(label("Load"), (f"{ending.mark} ", ending.style), f"the last run {ending.words}")
    return [line, Content.assemble(label(""), (f"its last phase: {words.PHASES[run.phase]}", MUTED))]


def _no_rank(host: HostView, state: State, run: RunView) -> list[Content]:
    head = host.rank in (0, None)
    what = words.PHASES[run.phase] if head else "its worker has not begun"
    line = Content.assemble(label("Load"), strip(run.phase if head else Phase.STARTING), " ", what)
    return [line, Content.assemble(label(""), (_elapsed(state, run), MUTED))]


def effective(rank: RankView, run: RunView) -> Phase:
    """How far a rank is: what it says itself, or what the engine says of all."""
    return (
        max(rank.phase, run.phase, key=ORDER.__getitem__)
        if run.phase in (Phase.API, Phase.READY)
        else rank.phase
    )


def behind(rank: RankView, state: State) -> bool:
    """Whether another rank has been in a later phase for a while; phases that rank 0 alone tells of don't count."""
    others = [other for host in state.hosts for other in host.ranks if other.rank != rank.rank]
    return any(
        ORDER[other.phase] > ORDER[rank.phase]
        and state.now - other.since >= LAG
        and not (rank.rank != 0 and other.phase in TOLD_BY_RANK_0 and _untold(rank, state))
        for other in others
    )


def _untold(rank: RankView, state: State) -> bool:
    """Whether the rank may well be in a phase that rank 0 alone tells of: it has told of all before."""
    first = min((ORDER[phase] for phase in TOLD_BY_RANK_0), default=0)
    ahead = any(one.rank == 0 and one.phase in TOLD_BY_RANK_0 for host in state.hosts for one in host.ranks)
    return rank.rank != 0 and ahead and ORDER[rank.phase] == first - 1


def strip(phase: Phase) -> Content:
    """All phases in a row: those passed, the present one, those to come."""
    at = ORDER[phase]
    return Content.assemble(
        ("●" * at, "$text-success"), ("◐", "bold $text-accent"), ("○" * (len(ORDER) - at - 1), MUTED)
    )


def _rank_lines(host: HostView, rank: RankView, state: State, width: int) -> list[Content]:
    run = state.run
    if run is None:
        return []
    phase = effective(rank, run)
    name = words.PHASES[phase]
    if len(host.ranks) > 1:
        name = f"rank {rank.rank} {name}"
    parts: list[Content | str | tuple[str, str]] = [label("Load"), strip(phase), " ", (name, "bold")]
    if phase is rank.phase and rank.done is not None and rank.total:
        parts.append(f" {rank.done} of {rank.total}")
        if rank.detail and rank.unit == "graphs":
            parts.append(f" {clean(rank.detail)}")
    if _untold(rank, state) and phase is rank.phase:
        parts.append((" · graphs: see rank 0", MUTED))
    if behind(rank, state):
        parts.append((" · behind", "bold $text-warning"))
    first = Content.assemble(*parts).truncate(width, ellipsis=True)
    return [first, _detail(host, rank, phase, state, run, width).truncate(width, ellipsis=True)]


def _detail(host: HostView, rank: RankView, phase: Phase, state: State, run: RunView, width: int) -> Content:
    spent = words.coarse(state.now - (rank.since if phase is rank.phase else run.phase_since))
    if phase is rank.phase and rank.done is not None and rank.total:
        figures = f" {100 * rank.done // rank.total:3d} %"
        pace = speed(rank, state.now) if rank.done < rank.total else None
        if pace:
            figures += f" · {pace:.1f}/s"
        figures += f" · {spent}"
        from cockpit.serving.eta import rate_eta

        left = rate_eta(rank.points, rank.total)
        if left and rank.done < rank.total:
            figures += f", ~{words.about(left)} left"
        bar = filled(rank.done / rank.total, max(6, width - 8 - len(figures)))
        return Content.assemble(label(""), bar, figures)
    if phase is Phase.WEIGHTS:
        return Content.assemble(label(""), f"{read_here(host, rank)} · {spent}")
    parts = [spent]
    if rank.detail and phase is rank.phase:
        parts.insert(0, clean(rank.detail))
    if state.left and phase is rank.phase is run.phase:
        parts.append(f"~{words.about(state.left)} until ready")
    silent = state.now - run.silent_since
    if silent > 20:
        parts.append(f"log silent for {words.coarse(silent)}")
    return Content.assemble(label(""), (" · ".join(parts), MUTED))


def read_here(host: HostView, rank: RankView) -> str:
    """Bytes read from the host's own disks since the rank began: told as that, it is no count of weights."""
    if host.sample is None or rank.disk_from is None:
        return "bytes read on this host: unknown"
    until = rank.disk_until if rank.disk_until is not None else host.sample.disk_read
    text = f"{words.size(max(0, until - rank.disk_from))} read on this host"
    if host.disk_rate:
        text += f" · {words.rate(host.disk_rate)}"
    return text


def speed(rank: RankView, now: float) -> float | None:
    """Things done a second, lately."""
    recent = [point for point in rank.points if point[0] >= now - LOOKBACK]
    if len(recent) < 2 or recent[-1][0] <= recent[0][0]:
        return None
    return (recent[-1][1] - recent[0][1]) / (recent[-1][0] - recent[0][0])


def _elapsed(state: State, run: RunView) -> str:
    if run.began is None:
        return words.coarse(state.now - run.phase_since)
    return f"{words.coarse(state.now - run.began)} since the launch"


def one_line(host: HostView, state: State) -> Content:
    """The load in a few words, for a summary."""
    run = state.run
    if run is None or not run.running:
        return load_lines(host, state, 200)[0]
    if run.ready or not host.ranks:
        return load_lines(host, state, 200)[0]
    rank = host.ranks[0]
    lines = _rank_lines(host, rank, state, 60)
    if rank.phase is Phase.WEIGHTS and rank.done is None:
        return Content.assemble(lines[0], f" · {read_here(host, rank)}")
    return lines[0]
