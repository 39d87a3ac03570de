"""Names the cause of what logs show: what happened, on which host, in which line, and what to change.

Logs -> attempts -> hits of signatures and tracebacks -> candidates -> the best one. Pure: bytes in, an
``Explanation`` out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cockpit.diagnosis import ends, findings, measured, stacks
from cockpit.diagnosis.apart import apart
from cockpit.diagnosis.candidates import (
    DEADLY,
    FAR,
    Attempt,
    Candidate,
    attempt,
    candidates,
    hints,
    names_of,
    of_launch,
)
from cockpit.diagnosis.launches import launches, read_of, together
from cockpit.diagnosis.reading import Reading, read
from cockpit.diagnosis.situation import Situation, situation
from cockpit.diagnosis.sources import NO_LOGS, Source
from cockpit.model.finding import Explanation, Finding, Severity

_NO_HOSTS: Mapping[str, str] = {}


def explain(sources: Sequence[Source], hosts: Mapping[str, str] = _NO_HOSTS) -> Explanation:
    """What the logs of a launch say. ``hosts`` maps a cluster address to the host's name.

    With several attempts in a log (a restart loop) the last one is explained; as long as it has neither
    come up nor failed, the one before. Logs of several launches are explained launch by launch.
    """
    logs = apart([source for source in sources if source.role not in NO_LOGS])
    readings = [read(source, index) for index, source in enumerate(logs)]
    each = [(one, ends.told_mixed(_of_logs(one.readings, hosts), one.readings)) for one in launches(readings)]
    told = together(each) if len(each) > 1 else each[0][1]
    told = replace(told, read=tuple(read_of(readings, each)))
    told = measured.told_with(told, sources, weights=ends.loads_weights(readings))
    told = stacks.told_with(told, sources)
    return replace(told, next=(*told.next, *(source.note for source in sources if source.note)))


def _of_logs(readings: Sequence[Reading], hosts: Mapping[str, str]) -> Explanation:
    if not readings:
        return Explanation("unknown", next=("There is no log to read.",))
    told = _explain([attempt(one, one.attempts - 1) for one in readings], hosts)
    if told.status in ("loading", "unknown") and any(one.attempts > 1 for one in readings):
        before = _explain([attempt(one, max(0, one.attempts - 2)) for one in readings], hosts)
        if before.status == "failed":
            return before
    if told.status == "unknown":
        return replace(told, next=(*ends.no_log(readings), *told.next))
    return told


def _explain(tried: list[Attempt], hosts: Mapping[str, str]) -> Explanation:
    facts = situation(hit for one in tried for hit in one.hits)
    items = of_launch([item for one in tried for item in candidates(one)], tried, ends.gone(tried))
    ranked = sorted(items, key=lambda item: item.rank)
    stopped = any(one.serves and one.stop < FAR for one in tried)
    if ranked and not (stopped and all(_after_stop(item, tried) for item in ranked)):
        return _failed(ranked, tried, hosts, facts)
    return ends.without_fault(tried, hosts, facts)


def _after_stop(item: Candidate, tried: list[Attempt]) -> bool:
    """Whether it is what one rank says of the other's stop."""
    return item.role in DEADLY and all(
        one.stop >= FAR for one in tried if one.reading.index == item.reading.index
    )


def _failed(
    ranked: list[Candidate], tried: list[Attempt], hosts: Mapping[str, str], facts: Situation
) -> Explanation:
    best = ranked[0]
    deeper = hints(tried, names_of(best), best.hit.ip if best.hit else "")
    if deeper:
        return Explanation("failed", (findings.of_hit(deeper[0], tried, hosts, facts, also=best),))
    if best.role in ("effect", "vague", "wrapper"):
        stalled = next(ends.stalls(tried, waiting=False), None)
        if stalled is not None:
            return Explanation("failed", (findings.of_hit(stalled, tried, hosts, facts, also=best),))
    if best.raised is not None:
        return Explanation("failed", (findings.of_exception(best, hosts, facts),), ends.collect(tried))
    assert best.hit is not None
    if not best.hit.signature.kind:
        return Explanation("unknown", next=ends.unknown(best, tried))
    found = _named(best, tried, hosts, facts)
    words = best.hit.signature.next
    return Explanation("failed", (found,), words or (() if best.role == "cause" else ends.collect(tried)))


def _named(best: Candidate, tried: list[Attempt], hosts: Mapping[str, str], facts: Situation) -> Finding:
    assert best.hit is not None
    return findings.of_hit(best.hit, tried, hosts, facts, severity=Severity.ERROR)
