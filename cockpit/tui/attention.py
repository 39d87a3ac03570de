"""What the screen does by itself: it shows what the operator should see next, unless a prompt is being written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cockpit.bringup.events import Outcome, StepName, StepState
from cockpit.tui.intents.looking import show_host_details
from cockpit.tui.intents.steps import show_step
from cockpit.tui.state import STOPPED, HostView, StepView
from cockpit.tui.widgets.panes import mistakes_content

if TYPE_CHECKING:
    from cockpit.tui.app import CockpitApp
    from cockpit.tui.state import State

BADLY: Final = frozenset({Outcome.UNREACHABLE, Outcome.TIMEOUT, Outcome.STALLED, Outcome.FAILED})
"""Outcomes after which the step that is unknown is the one to look at."""


class Attention:
    """Compares each painted state with the one before."""

    def __init__(self, app: CockpitApp) -> None:
        self._app = app
        self._had_finding = False
        self._had_cause = False
        self._running: StepName | None = None
        self._by_itself = False
        self._had_failure: StepName | None = None
        self._was_asking = False
        self._told_error = ""

    def follow(self, state: State) -> None:
        """A cause when it is found, the step that failed, the test prompt's answer, the new run's log."""
        self._profile(state)
        caused = state.explanation is not None and state.explanation.fault
        found = caused or bool(state.refused) or bool(state.blocked)
        if found and not self._had_finding:
            self._app.show("why", focus=not self._app.cockpit.lower.writing)
        if caused and not self._had_cause:
            self._app.logs.stand_at_evidence()
        self._had_finding, self._had_cause = found, caused
        self._failure(state, found)
        self._prompt(state)
        self._work(state)
        self._app.logs.follow_run()
        self._app.logs.keep_up()
        self._details(state)

    def _profile(self, state: State) -> None:
        """A profile that can't be used has the screen, whole, until it can."""
        error = state.profile_error
        if error == self._told_error:
            return
        self._told_error = error
        cockpit = self._app.cockpit
        cockpit.set_class(bool(error), "-no-profile")
        if error:
            cockpit.lower.show_details(*mistakes_content(error))
            self._app.show("details", focus=True)
        else:
            self._app.show("log")
            cockpit.steps.focus()

    def _work(self, state: State) -> None:
        """What a step runs is shown as it runs, until there is a log of the run, or something else is looked at."""
        lower = self._app.cockpit.lower
        running = next((step for step in state.steps if step.state is StepState.RUNNING), None)
        began = running is not None and state.activity.busy and running.name is not self._running
        self._running = running.name if running else None
        logged = running is not None and running.name in (StepName.LOAD, StepName.PROMPT)
        if began and logged and self._by_itself and lower.pane == "details":
            self._by_itself = False
            self._app.show("log")
        elif began and not logged and lower.pane in ("log", "details", "why") and not lower.focused_within:
            self._by_itself = True
            show_step(self._app)
            self._app.show("details")

    def _details(self, state: State) -> None:
        """A step's details go on while it runs; so do a host's."""
        lower = self._app.cockpit.lower
        if lower.pane != "details":
            return
        if isinstance(lower.subject, StepView) and state.step(lower.subject.name) is not lower.subject:
            show_step(self._app)
        elif isinstance(lower.subject, HostView):
            show_host_details(self._app, lower.subject.name)

    def _prompt(self, state: State) -> None:
        asking = state.step(StepName.PROMPT).state is StepState.RUNNING
        if asking and not self._was_asking:
            self._app.show("prompt")
        self._was_asking = asking

    def _failure(self, state: State, found: bool) -> None:
        """A step that failed here is selected, and shows why unless its cause is shown already."""
        ended = state.activity.outcome in BADLY and not state.activity.busy
        failed = next(
            (
                step.name
                for step in state.steps
                if step.state in STOPPED or (ended and step.state is StepState.UNKNOWN and step.reason)
            ),
            None,
        )
        if failed is not None and failed is not self._had_failure and not self._app.cockpit.lower.writing:
            self._app.cockpit.steps.selected = failed
            if not found:
                show_step(self._app)
                self._app.show("details")
        self._had_failure = failed
