"""The Step protocol: one button of the bring-up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from cockpit.bringup.events import StepName, StepState
from cockpit.bringup.session import Session
from cockpit.model.command import Command
from cockpit.model.profile import Profile
from cockpit.runtime.runtime import Runtime


@dataclass(frozen=True, slots=True)
class Report:
    """What a check saw. ``reason`` in words; ``host`` where one host decides."""

    state: StepState
    reason: str = ""
    host: str = ""


@dataclass(frozen=True, slots=True)
class Planner:
    """What a plan is made from: the declared alone, so that it touches nothing."""

    profile: Profile
    runtime: Runtime


class Step(Protocol):
    """One step. ``check`` and the plans change nothing; ``run`` and ``undo`` raise ``StepError``."""

    @property
    def name(self) -> StepName:
        """Its name in the command line's contract."""
        ...

    @property
    def title(self) -> str:
        """Its name on the screen."""
        ...

    async def check(self, session: Session) -> Report:
        """Is it already so? Asks the hosts."""
        ...

    def plan(self, planner: Planner) -> tuple[Command, ...]:
        """The exact commands that ``run`` runs, per host."""
        ...

    def by_hand(self, planner: Planner) -> tuple[Command, ...]:
        """The commands that do the same without the cockpit: the plan, where the step has no more to it."""
        ...

    async def run(self, session: Session) -> Report:
        """Make it so; the report's state is done or not-needed."""
        ...

    def undo_plan(self, planner: Planner) -> tuple[Command, ...]:
        """The exact commands that ``undo`` runs; empty where nothing is to undo."""
        ...

    async def undo(self, session: Session) -> Report:
        """Take it back, and verify that nothing of it is left."""
        ...
