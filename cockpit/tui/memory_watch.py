"""Where a host's memory is heading, and what the guard says of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from textual.content import Content

from cockpit.logs.sanitise import clean
from cockpit.tui import words
from cockpit.tui.state import HostView, Point, State

LOOKBACK: Final = 15.0
"""Seconds that the trend is taken from."""
SOON: Final = 120.0
"""Seconds: memory that would reach the reserve within them is warned of."""
MOST_RESERVE: Final = 8 * words.GIB
"""What the guard keeps free where the profile does not say: this, or a 15th of the memory where that is less."""


def reserve(host: HostView, state: State) -> int | None:
    """Bytes of available memory below which the guard ends the host's ranks; None where nothing guards."""
    profile = state.profile
    if profile is None or profile.serve.guard.during == "off":
        return None
    if host.guard is not None and host.guard.reserve:
        return host.guard.reserve
    if profile.serve.guard.reserve:
        return profile.serve.guard.reserve
    return min(MOST_RESERVE, host.sample.memory.total // 15) if host.sample else None


def falling(history: Sequence[Point], now: float) -> float | None:
    """Bytes a second by which available memory shrank lately; None without two samples of that time."""
    recent = [point for point in history if point.at >= now - LOOKBACK]
    if len(recent) < 2 or recent[-1].at <= recent[0].at:
        return None
    return (recent[-1].used - recent[0].used) / (recent[-1].at - recent[0].at)


def time_left(host: HostView, state: State) -> float | None:
    """Seconds until the reserve is reached if it goes on like this; None where it is not going there."""
    kept, speed = reserve(host, state), falling(host.history, state.now)
    if host.sample is None or kept is None or not speed or speed <= 0:
        return None
    return max(0.0, (host.sample.memory.available - kept) / speed)


def _watched(state: State) -> bool:
    """Whether the guard watches now: by default only until the model is ready."""
    ready = state.run is not None and state.run.ready
    return not ready or (state.profile is not None and state.profile.serve.guard.during == "serving")


def warning(host: HostView, state: State) -> str:
    """The early warning, "" where there is no need for one."""
    run, kept = state.run, reserve(host, state)
    if run is None or not run.running or host.sample is None or kept is None or not _watched(state):
        return ""
    left = time_left(host, state)
    speed = falling(host.history, state.now)
    if left is not None and left < SOON and speed:
        return f"reserve of {words.size(kept)} in ~{words.about(left)}, at {words.size(speed)}/s"
    if host.sample.memory.available < 2 * kept:
        return f"{words.size(host.sample.memory.available)} available, reserve {words.size(kept)}"
    return ""


def guard_line(host: HostView, state: State) -> Content | None:
    """The guard in one line; None while there is nothing to guard."""
    guard, run = host.guard, state.run
    own = guard is not None and run is not None and (not guard.run or run.id in guard.run)
    if guard is not None and run is not None and own and guard.state == "stopped" and not run.running:
        return Content.assemble(("✗ it ended the ranks: ", "bold $text-error"), clean(guard.reason))
    if run is None or not run.running or state.profile is None:
        return None
    if (soon := warning(host, state)) != "":
        return Content.styled(f"▲ {soon}", "bold $text-warning")
    if state.profile.serve.guard.during == "off":
        return Content.styled("off: nothing keeps the host from running out of memory", "$muted")
    if not _watched(state):
        return Content.styled("over: it watched the load", "$muted")
    if guard is None:
        return Content.styled("not seen yet", "$muted")
    if guard.state == "ended":
        return Content.styled(f"no longer needed · lowest {words.size(guard.lowest)}", "$muted")
    if guard.state != "watching":
        return Content.assemble(("▲ ", "bold $text-warning"), clean(f"{guard.state}: {guard.reason}"))
    return Content.assemble(
        ("┃", "bold $text-error"), f" {words.size(guard.reserve)} kept free · lowest {words.size(guard.lowest)}"
    )
