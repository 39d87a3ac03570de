"""How fast something goes, and how long it will still take."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

WINDOW = 10.0
"""Seconds over which a rate is taken: rsync stands still while it compares a file that was cut short."""

_LEAST = 0.4
"""Seconds between two points before they make a rate."""


class Pace:
    """Fed with counts, tells rate (per second) and time left (seconds)."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._points: deque[tuple[float, int]] = deque()

    def at(self, done: int, total: int | None) -> tuple[float | None, float | None]:
        """``done`` of ``total`` are there now: the rate of the last seconds and the time left, None while
        nothing can be said."""
        now = self._clock()
        if self._points and done < self._points[-1][1]:
            self._points.clear()  # begun anew
        self._points.append((now, done))
        while len(self._points) > 2 and now - self._points[0][0] > WINDOW:
            self._points.popleft()
        began, first = self._points[0]
        if now - began < _LEAST:
            return None, None
        rate = (done - first) / (now - began)
        left = None if total is None or rate <= 0 else max(0.0, (total - done) / rate)
        return rate, left
