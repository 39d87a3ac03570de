"""Logs of several launches told apart: which of the logs that were given belong together. Pure."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cockpit.diagnosis.candidates import SERVING
from cockpit.diagnosis.clock import of_record
from cockpit.diagnosis.reading import Hit, Reading
from cockpit.model.finding import Explanation, Read

_FOLLOWS = re.compile(r"'headless': True|'node_rank': [1-9]")
"""Arguments of a rank that another node's launch leads."""


@dataclass(slots=True)
class Launch:
    """The logs of one launch; ``begin`` is the first sign of its beginning, None where none was seen. ``span`` is
    when it wrote, in seconds of ``clock``, None where no record has a time."""

    begin: Hit | None
    readings: list[Reading]
    span: tuple[int, int] | None = field(default=None)

    @property
    def main(self) -> Reading:
        """The log that it is named by."""
        return self.readings[0]


def launches(readings: Sequence[Reading]) -> list[Launch]:
    """The launches, the newest first. Logs without a beginning of their own belong to the launch of their folder, or
    to the one that wrote at the same time; what has no time, to every launch of its folder. Logs in which nothing
    is known belong to none where there are several."""
    found: list[Launch] = []
    others: list[Reading] = []
    for one in readings:
        begin = _begin(one)
        if begin is None:
            others.append(one)
            continue
        same = next((launch for launch in found if _same(launch, one, begin)), None)
        if same is None:
            found.append(Launch(begin, [one], _span(one)))
        else:
            same.readings.append(one)
    if len(found) < 2:
        return [Launch(None, list(readings))]
    for one in others:
        if one.hits or one.blocks or one.source.role not in SERVING:
            _add(one, found)
    return sorted(found, key=lambda launch: launch.span[1] if launch.span else -1, reverse=True)


def _begin(one: Reading) -> Hit | None:
    """The beginning that a log tells of, if it is that of a launch and not of a rank that follows."""
    if one.source.role not in SERVING:
        return None
    begins = sorted((hit for hit in one.hits if hit.signature.role == "begin"), key=lambda hit: hit.line)
    if not begins or any(_FOLLOWS.search(hit.text) for hit in begins):
        return None
    return begins[0]


def _same(launch: Launch, one: Reading, begin: Hit) -> bool:
    """Whether it is another copy of a launch's log, or what another host says of the same launch."""
    hosts = {other.source.host for other in launch.readings}
    beside = Path(launch.main.source.name).parent == Path(one.source.name).parent
    if beside and one.source.host and "" not in hosts and one.source.host not in hosts:
        return True
    first = launch.begin
    return first is not None and (first.head.time, first.head.pid, first.text) == (
        begin.head.time,
        begin.head.pid,
        begin.text,
    )


def _span(one: Reading) -> tuple[int, int] | None:
    times = [time for hit in one.hits if (time := of_record(hit.head.time)) is not None]
    return (min(times), max(times)) if times else None


def _add(one: Reading, found: list[Launch]) -> None:
    """Puts a log without a beginning where it belongs."""
    folder = Path(one.source.name).parent
    near = [launch for launch in found if Path(launch.main.source.name).parent == folder] or found
    span = _span(one)
    if span is not None and len(near) > 1:
        near = [min(near, key=lambda launch: _apart(launch.span, span))]
    for launch in near:
        launch.readings.append(one)


def _apart(one: tuple[int, int] | None, other: tuple[int, int]) -> int:
    """Seconds between two spans, negative by how much they overlap."""
    return 1 << 40 if one is None else max(one[0], other[0]) - min(one[1], other[1])


def together(told: Sequence[tuple[Launch, Explanation]]) -> Explanation:
    """What several launches say, as one: what failed first, the newest of them first."""
    order = {"failed": 0, "stalled": 1}
    ranked = sorted(told, key=lambda pair: order.get(pair[1].status, 2))
    faults = tuple(finding for _, one in ranked if one.fault for finding in one.findings)
    first = ranked[0][1]
    common = os.path.commonpath([Path(launch.main.source.name).absolute().parent for launch, _ in told])
    each = "; ".join(
        f"{os.path.relpath(launch.main.source.name, common)}: {_words(one)}" for launch, one in ranked
    )
    words = f"{len(told)} launches were read, each by itself: {each}."
    return Explanation(first.status, faults or first.findings, (words, *first.next))


def _words(told: Explanation) -> str:
    return f"{told.status} ({told.findings[0].kind})" if told.fault else told.status


def read_of(readings: Sequence[Reading], told: Sequence[tuple[Launch, Explanation]]) -> Iterator[Read]:
    """Which logs were read, and how the launch that each belongs to went."""
    for one in readings:
        own = [
            number
            for number, (launch, _) in enumerate(told, 1)
            if any(one is other for other in launch.readings)
        ]
        status = told[own[0] - 1][1].status if len(own) == 1 else "unknown"
        yield Read(one.source.name, one.source.role, one.source.host, own[0] if len(own) == 1 else None, status)
