"""Why a step did not come to its end."""

from __future__ import annotations

from cockpit.bringup.events import Outcome, StepName
from cockpit.model.errors import CockpitError
from cockpit.model.finding import Finding


class StepError(CockpitError):
    """A step that stopped: at which host, in which command, and the line that matters."""

    outcome = Outcome.FAILED

    def __init__(
        self,
        step: StepName,
        message: str,
        *,
        host: str = "",
        command: str = "",
        line: str = "",
        remedy: str = "",
        findings: tuple[Finding, ...] = (),
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.step = step
        self.host = host
        self.command = command
        self.line = line
        self.findings = findings

    @property
    def told(self) -> str:
        """The message, and the line that matters."""
        return f"{self.message} {self.line}" if self.line and self.line not in self.message else self.message


class StepFailed(StepError):
    """The step was tried and did not work."""


class StepRefused(StepError):
    """The step would not be tried: preflight or the flag checks stand against it, or someone else is at it."""

    outcome = Outcome.REFUSED


class StepUnreachable(StepError):
    """A host could not be reached, or was lost on the way: what became of the step is unknown."""

    outcome = Outcome.UNREACHABLE


class StepStalled(StepError):
    """It runs, and will not come further by itself; the findings say why."""

    outcome = Outcome.STALLED


class StepTimeout(StepError):
    """It was still on its way when the profile's time was up."""

    outcome = Outcome.TIMEOUT
