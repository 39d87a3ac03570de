"""What most steps have in common: nothing to undo, and a plan that is all there is to them."""

from __future__ import annotations

from cockpit.bringup.events import StepName, StepState
from cockpit.bringup.session import Session
from cockpit.bringup.step import Planner, Report
from cockpit.model.command import Command


class StepBase:
    """Defaults of a step."""

    name: StepName
    title: str

    def plan(self, planner: Planner) -> tuple[Command, ...]:
        """Nothing to run."""
        return ()

    def by_hand(self, planner: Planner) -> tuple[Command, ...]:
        """The plan."""
        return self.plan(planner)

    def undo_plan(self, planner: Planner) -> tuple[Command, ...]:
        """Nothing to undo."""
        return ()

    async def undo(self, session: Session) -> Report:
        """Nothing to undo."""
        return Report(StepState.NOT_NEEDED, "nothing to undo")


def planner_of(session: Session) -> Planner:
    """What the session's plans are made from."""
    return Planner(session.profile, session.runtime)
