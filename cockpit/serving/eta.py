"""How long a load will still take: from the same profile's earlier runs, else from the rate so far."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from statistics import median

from cockpit.model.progress import ORDER, Phase

WINDOW = 60.0
"""Seconds of the past that a rate is taken from."""


def rate_eta(points: Sequence[tuple[float, float]], total: float) -> float | None:
    """Seconds until ``total``, from points (time in seconds, amount done) in order, over the last
    ``WINDOW``; None where nothing moves or there is too little to tell."""
    if len(points) < 2:
        return None
    now, done = points[-1]
    then, before = next(point for point in points if point[0] >= now - WINDOW)
    if now <= then or done <= before:
        return None
    return max(0.0, (total - done) * (now - then) / (done - before))


def phase_eta(earlier: Sequence[Mapping[Phase, float]], phase: Phase, elapsed: float) -> float | None:
    """Seconds until ready, from how long each phase took in earlier runs (median), when ``phase`` has gone
    on for ``elapsed``; None without an earlier run that had this phase."""
    here = [run[phase] for run in earlier if phase in run]
    if not here:
        return None
    later = [
        median(run.get(other, 0.0) for run in earlier)
        for other in Phase
        if ORDER[other] > ORDER[phase] and other is not Phase.READY
    ]
    return max(0.0, median(here) - elapsed) + sum(later)


def phase_durations(began: Mapping[Phase, float]) -> dict[Phase, float]:
    """How long each phase of a finished load took, from when each began (seconds); READY, the end, has none."""
    steps = sorted(began.items(), key=lambda item: (item[1], ORDER[item[0]]))
    return {phase: end - start for (phase, start), (_, end) in itertools.pairwise(steps)}
