"""What the screen does by itself: it shows what the operator should see next, unless a prompt is being written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cockpit.bringup.events import StepName, StepState
from cockpit.tui.intents.steps import show_step
from cockpit.tui.reduce_steps import STOPPED

if TYPE_CHECKING:
    from cockpit.tui.app import CockpitApp
    from cockpit.tui.state import State


class Attention:
    """Compares each painted state with the one before."""

    def __init__(self, app: CockpitApp) -> None:
        self._app = app
        self._had_finding = False
        self._had_failure: StepName | None = None
        self._was_asking = False

    def follow(self, state: State) -> None:
        """A cause when it is found, the step that failed, the test prompt's answer, the new run's log."""
        found = bool(state.explanation and state.explanation.findings) or bool(state.refused)
        if found and not self._had_finding:
            self._app.show("why", focus=not self._app.cockpit.lower.writing)
        self._had_finding = found
        self._failure(state, found)
        self._prompt(state)
        self._app.logs.follow_run()

    def _prompt(self, state: State) -> None:
        asking = state.step(StepName.PROMPT).state is StepState.RUNNING
        if asking and not self._was_asking:
            self._app.show("prompt")
        self._was_asking = asking

    def _failure(self, state: State, found: bool) -> None:
        """A step that failed here is selected, and shows why unless its cause is shown already."""
        failed = next((step.name for step in state.steps if step.state in STOPPED), None)
        if failed is not None and failed is not self._had_failure and not self._app.cockpit.lower.writing:
            self._app.cockpit.steps.selected = failed
            if not found:
                show_step(self._app)
                self._app.show("details")
        self._had_failure = failed
