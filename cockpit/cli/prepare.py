"""Prepares the hosts: shows each task with its commands, asks, and tells how far it is."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

import click

from cockpit.bringup.events import Outcome, StepState, now
from cockpit.bringup.preparation.amounts import amount, duration
from cockpit.bringup.preparation.preparer import prepare as run
from cockpit.bringup.preparation.task import Kind, Task, TaskChanged, TaskEvent, TaskProgress, to_json
from cockpit.cli import exits, show
from cockpit.cli.output import name, rewrite, say
from cockpit.cli.verbs import session_for
from cockpit.cli.watch import MARKS
from cockpit.hosts.quoting import command_line, delimiter


async def prepare(
    profile: str, *, only: str | None, yes: bool, plan: bool, as_json: bool, trust: tuple[str, ...]
) -> int:
    """Prepare. Where nobody can be asked, ``--yes`` answers; ``plan`` shows, and does nothing."""
    asked = sys.stdin.isatty() and sys.stderr.isatty() and not as_json
    if not (asked or yes or plan):
        raise click.UsageError(
            "Each task is asked about, and there is no terminal: --yes does them, --plan shows."
        )

    async def confirm(task: Task) -> bool:
        if yes or plan:
            return yes and not plan
        return await _answered(f"{task.host}: {task.title}. Do it? [y/N]: ")

    teller = _Json() if as_json else _Lines(plan=plan)
    try:
        async with session_for(profile, trust=trust) as session:
            outcome = await run(
                session, only=Kind(only) if only else None, confirm=confirm, show=teller.show, tell=teller.tell
            )
    except asyncio.CancelledError:
        outcome = Outcome.DETACHED
    if plan and outcome is Outcome.REFUSED:
        outcome = Outcome.READY
    teller.end(outcome)
    return exits.BY_OUTCOME[outcome]


async def _answered(question: str) -> bool:
    """The answer at the terminal; meanwhile the connections and the lock are kept alive."""
    say(show.safe(question), nl=False, err=True)
    loop, come = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sys.stdin, come.set)
    try:
        await come.wait()
    finally:
        loop.remove_reader(sys.stdin)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


class _Json:
    """One object a line."""

    def show(self, tasks: Sequence[Task], notes: Sequence[str]) -> None:
        """What would be done."""
        show.as_json({"event": "plan", "tasks": [task.to_json() for task in tasks], "notes": list(notes)})
        sys.stdout.flush()

    def tell(self, event: TaskEvent) -> None:
        """What happens."""
        show.as_json(to_json(event))
        sys.stdout.flush()

    def end(self, outcome: Outcome) -> None:
        """How it ended."""
        show.as_json({"event": "end", "outcome": outcome.value, "at": now().isoformat()})


class _Lines:
    """For a person; the progress in one line that is written over, where standard output is a terminal."""

    def __init__(self, *, plan: bool) -> None:
        self._plan = plan
        self._any = False
        self._open = False
        self._said = ""

    def show(self, tasks: Sequence[Task], notes: Sequence[str]) -> None:
        """Every task with its commands, exactly as they will run."""
        for note in notes:
            say(f"? {show.safe(note)}")
        for task in tasks:
            self._any = True
            size = f", {amount(task.bytes)}" if task.bytes else ""
            say(f"○ {task.host}: {name(task.title)}{size}")
            if task.by_hand:
                say(show.indented(task.by_hand))
            for command in task.commands:
                say(f"    # {command.host}: {name(command.why)}")
                word = delimiter(command.stdin, "EOF")
                say(show.indented(command_line(command) + (f" <<'{word}'" if command.stdin else "")))
                if command.stdin:
                    say(show.indented(f"{command.stdin.rstrip(chr(10))}\n{word}"))

    def tell(self, event: TaskEvent) -> None:
        """One line for each end of a task; the progress while it lasts."""
        match event:
            case TaskProgress():
                self._progress(event)
            case TaskChanged() if event.state is StepState.RUNNING:
                say(f"{MARKS[event.state]} {event.task.host}: {name(event.task.title)}")
            case TaskChanged() if not self._plan:
                self._close()
                by_hand = event.task.by_hand and event.reason == event.task.by_hand
                reason = "yours to do, as shown above" if by_hand else event.reason
                first, _, rest = show.safe(reason).partition("\n")
                say(f"{MARKS[event.state]} {event.task.host}: {event.task.kind.value}: {first}")
                if rest:
                    say(show.indented(rest))

    def end(self, outcome: Outcome) -> None:
        """The last line."""
        self._close()
        if outcome is Outcome.DETACHED:
            say("Ended. What has come stays; run it again, and it goes on from there.")
        elif not self._any:
            say("Nothing is to be prepared.")
        elif not self._plan:
            told = {Outcome.READY: "Prepared.", Outcome.REFUSED: "Something is left to do."}
            say(told.get(outcome, "Something failed."))

    def _progress(self, event: TaskProgress) -> None:
        total = f" of {amount(event.total)}" if event.total is not None else ""
        rate = f", {amount(event.rate)}/s" if event.rate is not None else ""
        left = f", {duration(event.eta)} left" if event.eta is not None else ""
        doing = f" ({show.safe(event.doing)})" if event.doing else ""
        line = f"  {event.task.host}: {amount(event.done)}{total}{rate}{left}{doing}"
        if sys.stdout.isatty():
            rewrite(line)
            self._open = True
        elif event.doing != self._said:
            # Without a terminal no bar: what is being done, each once.
            self._said = event.doing
            say(line)

    def _close(self) -> None:
        if self._open:
            say("")
            self._open = False
