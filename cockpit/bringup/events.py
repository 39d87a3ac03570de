"""What the runner tells its watchers: the command line and the screen show the same events."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from cockpit.bringup.names import Outcome as Outcome
from cockpit.bringup.names import StepName as StepName
from cockpit.bringup.names import StepState as StepState
from cockpit.model.command import Command, Completed
from cockpit.model.finding import Finding, Problem
from cockpit.model.progress import Phase
from cockpit.model.verdict import Verdict


def now() -> datetime:
    """The time, with its zone."""
    return datetime.now().astimezone()


@dataclass(frozen=True, slots=True)
class StepChanged:
    """A step's state changed. ``reason`` says why, in words; ``host`` where it is one host's doing."""

    step: StepName
    state: StepState
    reason: str = ""
    host: str = ""
    at: datetime = field(default_factory=now)


@dataclass(frozen=True, slots=True)
class CommandStarted:
    """A command was sent to a host."""

    step: StepName
    command: Command
    at: datetime = field(default_factory=now)


@dataclass(frozen=True, slots=True)
class CommandEnded:
    """A command came to its end."""

    step: StepName
    completed: Completed
    at: datetime = field(default_factory=now)


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """A rank came further. ``eta`` in seconds from now, None where nothing is known."""

    host: str
    rank: int | None
    phase: Phase
    done: int | None = None
    total: int | None = None
    unit: str = ""
    eta: float | None = None
    detail: str = ""
    at: datetime = field(default_factory=now)


@dataclass(frozen=True, slots=True)
class Found:
    """A cause was found."""

    finding: Finding
    at: datetime = field(default_factory=now)


@dataclass(frozen=True, slots=True)
class FlagsJudged:
    """The flags were judged, by the vLLM of that version."""

    vllm: str
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Surveyed:
    """Preflight's verdicts, and the cabling as text ("" where nothing is known of it)."""

    verdicts: tuple[Verdict, ...]
    cabling: str = ""


@dataclass(frozen=True, slots=True)
class Answered:
    """A piece of the test prompt's answer came; ``reasoning`` and ``text`` are kept apart."""

    text: str = ""
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class Ended:
    """The last event. ``run`` is the run's id, "" where none was started."""

    outcome: Outcome
    run: str = ""
    at: datetime = field(default_factory=now)


Event = (
    StepChanged
    | CommandStarted
    | CommandEnded
    | LoadProgress
    | Found
    | FlagsJudged
    | Surveyed
    | Answered
    | Ended
)


def to_json(event: Event) -> dict[str, Any] | None:
    """The event as a line of ``up --json``; None for those the contract has no line for."""
    match event:
        case StepChanged():
            line: dict[str, Any] = {"event": "step", "step": event.step.value, "state": event.state.value}
            line |= {key: value for key, value in (("host", event.host), ("reason", event.reason)) if value}
            return line | {"at": event.at.isoformat()}
        case LoadProgress():
            line = {"event": "progress", "host": event.host, "rank": event.rank, "phase": event.phase.value}
            optional = ("done", "total", "unit", "eta", "detail")
            line |= {key: getattr(event, key) for key in optional if getattr(event, key) not in (None, "")}
            return line | {"at": event.at.isoformat()}
        case Found():
            return {"event": "finding", **event.finding.to_json(), "at": event.at.isoformat()}
        case Ended():
            run = {"run": event.run} if event.run else {}
            return {"event": "end", "outcome": event.outcome.value, **run, "at": event.at.isoformat()}
        case _:
            return None
