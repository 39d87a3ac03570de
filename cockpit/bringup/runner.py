"""The runner: takes the steps in order, forwards and back. The command line and the screen share it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from cockpit.bringup.errors import StepError, StepFailed
from cockpit.bringup.events import Ended, Found, Outcome, StepChanged, StepName, StepState
from cockpit.bringup.lock import hold
from cockpit.bringup.session import Session
from cockpit.bringup.step import Planner, Report, Step
from cockpit.bringup.steps import all_steps
from cockpit.model.command import Command
from cockpit.model.errors import CockpitError

SETTLED = frozenset({StepState.DONE, StepState.NOT_NEEDED})


@dataclass(frozen=True, slots=True)
class Planned:
    """A step's commands, as they would run."""

    step: Step
    commands: tuple[Command, ...]


def plan(planner: Planner, steps: Sequence[Step] | None = None) -> tuple[Planned, ...]:
    """Every command of every step; touches nothing."""
    return tuple(Planned(step, step.plan(planner)) for step in steps or all_steps())


class Runner:
    """Takes a session's steps to their end states. One at a time: the lock on the head host sees to it."""

    def __init__(self, session: Session, steps: Sequence[Step] | None = None) -> None:
        self.session = session
        self.steps: tuple[Step, ...] = tuple(steps or all_steps())

    def step(self, name: StepName) -> Step:
        """The step called ``name``."""
        return next(step for step in self.steps if step.name is name)

    async def up(self, through: StepName = StepName.PROMPT) -> Outcome:
        """Every step up to ``through``; the last event tells the outcome, which is also returned.

        Cancelled, it detaches: what runs on the hosts goes on.
        """
        wanted = self.steps[: [step.name for step in self.steps].index(through) + 1]
        try:
            await self._settle(wanted[0])
            self.session.step = wanted[min(1, len(wanted) - 1)].name
            async with hold(self.session, "up"):
                for step in wanted[1:]:
                    await self._settle(step)
            outcome = Outcome.READY
        except StepError as error:
            outcome = error.outcome
            self._tell(error)
        except asyncio.CancelledError:
            self.session.emit(Ended(Outcome.DETACHED, self.session.notes.get("run", "")))
            raise
        self.session.emit(Ended(outcome, self.session.notes.get("run", "")))
        return outcome

    async def down(self, keep: frozenset[StepName] = frozenset()) -> Outcome:
        """Undo every step in reverse, except those in ``keep``.

        Goes on past a failure, and past a worker that can't be reached, to undo the rest; the outcome tells.
        """
        outcome = Outcome.DOWN
        try:
            try:
                await self._settle(self.steps[0])
            except StepError as error:
                if not self.session.head.connected:
                    raise
                self._tell(error)
                outcome = error.outcome
            self.session.step = self.steps[-1].name
            async with hold(self.session, "down"):
                for step in reversed(self.steps[1:]):
                    if step.name not in keep:
                        outcome = await self._undo(step, outcome)
        except StepError as error:
            outcome = error.outcome
            self._tell(error)
        except asyncio.CancelledError:
            self.session.emit(Ended(Outcome.DETACHED))
            raise
        self.session.emit(Ended(outcome))
        return outcome

    async def run_one(self, name: StepName) -> Report:
        """Run a single step under the lock; raises ``StepError``."""
        await self._settle(self.steps[0])
        async with hold(self.session, name.value):
            return await self._guarded(self.step(name), again=True)

    async def undo_one(self, name: StepName) -> None:
        """Undo a single step under the lock; raises ``StepError``."""
        await self._settle(self.steps[0])
        async with hold(self.session, f"undo {name.value}"):
            report = await self._told(self.step(name), undo=True)
            self._changed(self.step(name), report)

    async def _undo(self, step: Step, outcome: Outcome) -> Outcome:
        try:
            report = await self._told(step, undo=True)
        except StepError as error:
            self._tell(error)
            return error.outcome
        self._changed(step, report)
        return outcome

    async def _settle(self, step: Step) -> None:
        """Bring one step to its end state, checking first whether it is there already."""
        await self._guarded(step, again=False)

    async def _guarded(self, step: Step, *, again: bool) -> Report:
        self.session.step = step.name
        self.session.emit(StepChanged(step.name, StepState.RUNNING))
        report = await self._told(step, check=True)
        if report.state not in SETTLED or (again and report.state is not StepState.NOT_NEEDED):
            report = await self._told(step)
        self._changed(step, report)
        return report

    async def _told(self, step: Step, *, check: bool = False, undo: bool = False) -> Report:
        """One call of a step; an error that is not a step's own yet becomes one."""
        self.session.step = step.name
        call = step.check if check else step.undo if undo else step.run
        try:
            return await call(self.session)
        except StepError:
            raise
        except CockpitError as error:
            raise StepFailed(step.name, error.message, remedy=error.remedy) from error

    def _changed(self, step: Step, report: Report) -> None:
        self.session.emit(StepChanged(step.name, report.state, report.reason, report.host))

    def _tell(self, error: StepError) -> None:
        refused = error.outcome is Outcome.REFUSED
        unknown = error.outcome is Outcome.UNREACHABLE
        state = StepState.REFUSED if refused else StepState.UNKNOWN if unknown else StepState.FAILED
        self.session.emit(StepChanged(error.step, state, tell(error), error.host))
        for finding in error.findings:
            self.session.emit(Found(finding))


def tell(error: StepError) -> str:
    """A step's error in full: what happened, the command, the line that matters, what to do."""
    parts = [error.message]
    if error.command:
        parts.append(f"Command: {error.command}")
    if error.line:
        parts.append(f"Line: {error.line}")
    if error.remedy:
        parts.append(error.remedy)
    return "\n".join(parts)
