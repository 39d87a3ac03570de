"""A task of the preparation: one change on one host, shown before it is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from cockpit.bringup.events import StepState, now
from cockpit.bringup.session import Session
from cockpit.model.command import Command


class Kind(StrEnum):
    """What is prepared, in the order in which it is done: the page cache last, for a copy fills it."""

    FOLDERS = "folders"
    LEFTOVERS = "leftovers"
    IMAGE = "image"
    MODEL = "model"
    CACHE = "cache"


@dataclass(frozen=True, slots=True)
class TaskChanged:
    """A task's state changed; ``reason`` in words."""

    task: Task
    state: StepState
    reason: str = ""
    at: datetime = field(default_factory=now)


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """A task came further. ``total`` is None where it isn't known; ``rate`` per second and ``eta`` in seconds are
    None while nothing can be said. ``unit`` is ``bytes`` or ``layers``; ``doing`` says what in a word."""

    task: Task
    done: int
    total: int | None
    unit: str = "bytes"
    rate: float | None = None
    eta: float | None = None
    doing: str = ""
    at: datetime = field(default_factory=now)


TaskEvent = TaskChanged | TaskProgress
Tell = Callable[[TaskEvent], None]


@dataclass(frozen=True, slots=True)
class Task:
    """One change. ``commands`` are exactly what ``run`` runs. ``bytes`` is what has to be moved, where that is
    known. ``by_hand`` is not "" where the cockpit can't do it, and says what the operator can."""

    kind: Kind
    host: str
    title: str
    commands: tuple[Command, ...]
    bytes: int | None = None
    source: str = ""
    by_hand: str = ""
    number: int = 0

    @property
    def id(self) -> str:
        """Its name in events: kind, host and, of several, the number."""
        return f"{self.kind.value}:{self.host}" + (f":{self.number}" if self.number else "")

    async def run(self, session: Session, tell: Tell) -> str:
        """Make it so, and see that it is; what was done, in words. Raises ``StepError``. A task that is cancelled
        ends what it started on the hosts; run again, it goes on where that is possible."""
        said = [(await session.run(command)).text.strip() for command in self.commands]
        return "; ".join(text.splitlines()[-1] for text in said if text) or "done"

    def to_json(self) -> dict[str, Any]:
        """The task as the command line tells it."""
        return {
            "task": self.id,
            "kind": self.kind.value,
            "host": self.host,
            "from": self.source or None,
            "title": self.title,
            "bytes": self.bytes,
            "by_hand": self.by_hand or None,
            "commands": [
                {"host": one.host, "argv": list(one.remote_argv), "stdin": one.stdin, "why": one.why}
                for one in self.commands
            ],
        }


def to_json(event: TaskEvent) -> dict[str, Any]:
    """The event as a line of ``prepare --json``."""
    line: dict[str, Any] = {"task": event.task.id, "host": event.task.host}
    match event:
        case TaskChanged():
            line = {"event": "task", **line, "state": event.state.value}
            line |= {"reason": event.reason} if event.reason else {}
        case TaskProgress():
            line = {"event": "progress", **line, "done": event.done, "total": event.total, "unit": event.unit}
            line |= {"rate": event.rate, "eta": event.eta, "doing": event.doing}
    return line | {"at": event.at.isoformat()}
