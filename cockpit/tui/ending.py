"""How a run stands that is over, or that nobody answers for, in words. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from cockpit.tui import words
from cockpit.tui.state import State


@dataclass(frozen=True, slots=True)
class Ending:
    """A mark, a style, and the words after "the last run"."""

    mark: str
    style: str
    words: str


def ended(state: State) -> Ending:
    """The ending of the last run, which is over; its logs count for more than its exit status. A stop by the
    operator is no failure, whatever the status."""
    run, told = state.run, state.explanation
    status = None if run is None else run.exit_status
    code = "no exit status" if status is None else f"exit status {status}"
    if told is not None and told.fault:
        return Ending("✗", "$text-error", f"failed, {code}")
    if told is not None and told.status == "stopped":
        return Ending("○", "$muted", f"was stopped, {code}")
    if status == 0:
        return Ending("○", "$muted", f"ended, {code}")
    return Ending("✗", "$text-warning", f"ended, {code}")


def last_seen(state: State) -> str:
    """How the last run stood when its host last answered: a run that went on then may have ended since."""
    run = state.run
    if run is None:
        return ""
    how = "was ready" if run.ready else "was loading" if run.running else ended(state).words
    return f"{how} {words.coarse(state.now - run.seen_at)} ago"
