"""Shows a runner's events as plain lines, or as JSON lines."""

from __future__ import annotations

import sys
import time

from cockpit.bringup.events import (
    Answered,
    CommandStarted,
    Ended,
    Event,
    Found,
    LoadProgress,
    Outcome,
    StepChanged,
    StepName,
    StepState,
    to_json,
)
from cockpit.bringup.steps import titles
from cockpit.cli import show
from cockpit.cli.output import name, rewrite, say
from cockpit.hosts.quoting import command_line

MARKS = {
    StepState.DONE: "✓",
    StepState.NOT_NEEDED: "–",
    StepState.FAILED: "✗",
    StepState.REFUSED: "✗",
    StepState.UNKNOWN: "?",
    StepState.WAITING: "○",
    StepState.READY_TO_RUN: "○",
    StepState.RUNNING: "◐",
}

ENDS = {
    Outcome.READY: "Ready.",
    Outcome.DOWN: "Down: nothing of this profile runs any more.",
    Outcome.FAILED: "Failed.",
    Outcome.STALLED: "Stalled: it runs, and will not come further by itself.",
    Outcome.TIMEOUT: "The profile's time was up before it was ready; it goes on on the hosts.",
    Outcome.REFUSED: "Refused.",
    Outcome.UNREACHABLE: "A host can't be reached: what became of the last step there is unknown.",
    Outcome.DETACHED: "Detached: everything on the hosts goes on.",
}


class Lines:
    """A watcher that writes lines for a person, to standard output. ``last`` is the last step to be taken."""

    def __init__(self, *, verbose: bool = False, last: StepName = StepName.PROMPT) -> None:
        self.verbose = verbose
        self._last = last
        self._started: dict[StepName, float] = {}
        self._last_progress: dict[tuple[str, int | None], str] = {}
        self._answer_open = False

    def __call__(self, event: Event) -> None:
        """Write what ``event`` has to say."""
        match event:
            case StepChanged():
                self._step(event)
            case CommandStarted() if self.verbose:
                command = event.command
                say(show.indented(f"{command.host}: {command_line(command)}", "    "))
            case LoadProgress():
                self._progress(event)
            case Found():
                show.finding(event.finding)
            case Answered():
                self._answered(event)
            case Ended():
                self._close_answer()
                run = f" Run {event.run}." if event.run else ""
                say(self._end(event.outcome) + run)
            case _:
                pass

    def _end(self, outcome: Outcome) -> str:
        """What stands at the end; steps that were not to be taken make nothing ready."""
        if outcome is Outcome.READY and self._last is not StepName.PROMPT:
            return f"Done, through {titles()[self._last]}."
        return ENDS[outcome]

    def _step(self, event: StepChanged) -> None:
        self._close_answer()
        if event.state is StepState.RUNNING:
            self._started.setdefault(event.step, time.monotonic())
            if sys.stdout.isatty():
                rewrite(f"{MARKS[event.state]} {titles()[event.step]:<12} …")
            return
        took = time.monotonic() - self._started.pop(event.step, time.monotonic())
        first, _, rest = show.safe(event.reason).partition("\n")
        timing = f"  {took:.1f} s" if took >= 0.05 else ""
        say(f"{MARKS[event.state]} {titles()[event.step]:<12} {first}{timing}")
        if rest:
            say(show.indented(rest))

    def _progress(self, event: LoadProgress) -> None:
        rank = "" if event.rank is None else f" rank {event.rank}"
        count = ""
        if event.done is not None:
            total = f" of {event.total}" if event.total is not None else ""
            count = f" {event.done}{total} {event.unit}".rstrip()
        eta = f", about {event.eta:.0f} s left" if event.eta is not None else ""
        detail = f" ({name(event.detail)})" if event.detail else ""
        line = f"  {event.host}{rank}: {event.phase.value}{count}{eta}{detail}"
        if self._last_progress.get((event.host, event.rank)) != line:
            self._last_progress[event.host, event.rank] = line
            say(line)

    def _answered(self, event: Answered) -> None:
        if not self._answer_open and (event.text or event.reasoning):
            say("")
            self._answer_open = True
        say(show.safe(event.reasoning + event.text), nl=False)

    def _close_answer(self) -> None:
        if self._answer_open:
            say("")
            self._answer_open = False


def json_lines(event: Event) -> None:
    """A watcher that writes one JSON object a line."""
    line = to_json(event)
    if line is not None:
        show.as_json(line)
        sys.stdout.flush()
