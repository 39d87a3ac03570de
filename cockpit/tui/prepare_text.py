"""Preparation as text: the tasks and how far they are."""

from __future__ import annotations

from dataclasses import dataclass, field

from textual.content import Content

from cockpit.bringup.events import Outcome, StepState
from cockpit.bringup.preparation.amounts import amount, duration
from cockpit.bringup.preparation.task import Task, TaskChanged, TaskEvent, TaskProgress
from cockpit.hosts.quoting import command_line
from cockpit.logs.sanitise import clean

MARKS = {
    StepState.WAITING: ("○", "$muted"),
    StepState.RUNNING: ("◐", "$text-accent"),
    StepState.DONE: ("✓", "$text-success"),
    StepState.FAILED: ("✗", "$text-error"),
    StepState.REFUSED: ("–", "$text-warning"),
}
BAR = 30
"""Cells of a progress bar."""

ENDS = {
    Outcome.READY: "All that was to be prepared is prepared.",
    Outcome.REFUSED: "Something is left to do.",
    Outcome.DETACHED: "Ended. What has come stays; the next time it goes on from there.",
}


@dataclass(slots=True)
class Preparing:
    """What is known of a preparation. ``asked`` is the task that waits for an answer."""

    tasks: dict[str, Task] = field(default_factory=dict)
    states: dict[str, tuple[StepState, str]] = field(default_factory=dict)
    progress: dict[str, TaskProgress] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    asked: Task | None = None
    ended: Outcome | None = None
    error: str = ""

    def heard(self, event: TaskEvent) -> None:
        """Take in what happened."""
        match event:
            case TaskChanged():
                self.states[event.task.id] = (event.state, event.reason)
            case TaskProgress():
                self.progress[event.task.id] = event

    @property
    def running(self) -> bool:
        """Whether a task is being done."""
        return any(state is StepState.RUNNING for state, _ in self.states.values())


def preparing_lines(seen: Preparing) -> list[Content]:
    """All of it."""
    lines = [Content.styled(f"? {clean(note)}", "$text-warning") for note in seen.notes]
    for identity, task in seen.tasks.items():
        lines += _task(task, *seen.states.get(identity, (StepState.WAITING, "")), seen)
    if seen.error:
        lines.append(Content.styled(clean(seen.error, multiline=True), "$text-error"))
    elif seen.ended is not None:
        told = ENDS.get(seen.ended, "Something failed.") if seen.tasks else "Nothing is to be prepared."
        lines += [Content(""), Content.styled(told, "bold")]
    elif seen.asked is None and not seen.running:
        lines.append(Content.styled("Asking both hosts what is missing …", "$muted"))
    return lines


def _task(task: Task, state: StepState, reason: str, seen: Preparing) -> list[Content]:
    mark, style = MARKS.get(state, ("?", "$text-warning"))
    size = f"  {amount(task.bytes)}" if task.bytes else ""
    head = Content.assemble(
        (f"{mark} ", style),
        (clean(task.host), "bold $text-primary"),
        f"  {clean(task.title)}",
        (size, "$muted"),
    )
    lines = [head]
    if reason and state is not StepState.RUNNING:
        lines += [Content.styled(f"  {line}", "$muted") for line in clean(reason, multiline=True).split("\n")]
    if state is StepState.RUNNING and task.id in seen.progress:
        lines.append(progress_line(seen.progress[task.id]))
    if seen.asked is task:
        for command in task.commands:
            lines.append(Content.styled(f"  # {clean(command.host)}: {clean(command.why)}", "$muted"))
            lines.append(Content(f"  {clean(command_line(command))}"))
            script = clean(command.stdin.rstrip("\n"), multiline=True)
            lines += [Content(f"    {line}") for line in script.split("\n") if script]
    return lines


def progress_line(told: TaskProgress) -> Content:
    """A bar where the whole is known; bytes, rate, time left."""
    bar = ""
    if told.total:
        full = min(BAR, told.done * BAR // told.total)
        bar = "█" * full + "░" * (BAR - full) + " "
    whole = f" of {amount(told.total)}" if told.total is not None else ""
    rate = f", {amount(told.rate)}/s" if told.rate is not None else ""
    left = f", {duration(told.eta)} left" if told.eta is not None else ""
    doing = f" ({clean(told.doing)})" if told.doing else ""
    return Content.assemble(
        "  ", (bar, "$text-accent"), f"{amount(told.done)}{whole}{rate}{left}", (doing, "$muted")
    )
