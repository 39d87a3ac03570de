"""What facts do to the steps, the run and the runner's activity. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from cockpit.bringup.events import CommandEnded, CommandStarted, StepChanged, StepName, StepState
from cockpit.tui.state import STOPPED, Activity, CommandView, StepView

MOST_COMMANDS = 60
"""Commands of a step whose output is kept."""


if TYPE_CHECKING:
    from cockpit.bringup.look import StepSeen
    from cockpit.bringup.step import Report


def forget_failures(steps: tuple[StepView, ...]) -> tuple[StepView, ...]:
    """The steps when what failed may be mended: to be asked anew."""
    return tuple(StepView(step.name, step.title) if step.state in STOPPED else step for step in steps)


def fresh_steps(steps: tuple[StepView, ...]) -> tuple[StepView, ...]:
    """The steps when nothing is known of any."""
    return tuple(StepView(step.name, step.title) for step in steps)


def change_step(
    steps: tuple[StepView, ...], event: StepChanged, now: float, activity: Activity
) -> tuple[StepView, ...]:
    """The steps after the runner told of one."""
    return tuple(_changed(step, event, now, activity) if step.name is event.step else step for step in steps)


def _changed(step: StepView, event: StepChanged, now: float, activity: Activity) -> StepView:
    if event.state is StepState.RUNNING and not activity.undoing:
        again = step.state is StepState.RUNNING
        began = step.began if again and step.began is not None else now
        commands = step.commands if again else ()
        return replace(
            step,
            state=event.state,
            reason=event.reason,
            host=event.host,
            began=began,
            took=None,
            commands=commands,
        )
    state, reason = event.state, event.reason
    if activity.undoing and state in (StepState.DONE, StepState.NOT_NEEDED):
        if step.name is StepName.CONNECT:
            return replace(step, state=StepState.DONE, reason=reason, host=event.host, began=None, took=None)
        state, reason = StepState.READY_TO_RUN, f"undone: {reason}" if reason else "undone"
    took = now - step.began if step.began is not None and step.state is StepState.RUNNING else step.took
    return replace(step, state=state, reason=reason, host=event.host, began=None, took=took)


def see_steps(
    steps: tuple[StepView, ...], seen: Iterable[StepSeen], *, running: bool, busy: bool
) -> tuple[StepView, ...]:
    """The steps after the hosts were asked. What failed here stays told until it is done or tried again; what
    a look can't ask keeps what the runner found. ``running`` tells of the last run, ``busy`` of the runner
    here: a step is its to tell of only while it is at work."""
    from cockpit.bringup.look import NOT_ASKED

    reports = {one.name: one.report for one in seen}
    result = []
    for step in steps:
        report = reports.get(step.name)
        if (
            report is None
            or (busy and step.state is StepState.RUNNING)
            or (step.state in STOPPED and report.state is not StepState.DONE)
            or (
                step.name in NOT_ASKED
                and step.state is StepState.UNKNOWN
                and report.state is not StepState.DONE
            )
            or (
                step.name in NOT_ASKED
                and step.state is StepState.DONE
                and _still(step.name, report.state, running)
            )
        ):
            result.append(step)
        else:
            result.append(_seen(step, report))
    return tuple(result)


def _seen(step: StepView, report: Report) -> StepView:
    """``step`` as a look found it."""
    same = step.state is report.state
    took = step.took if same else None
    reason = step.reason if same and not report.reason else report.reason
    if report.state is StepState.RUNNING:
        # How far a load is, its log tells: a look for the steps does not read it.
        reason = ""
    began = step.began if same else None
    return replace(step, state=report.state, reason=reason, host=report.host, took=took, began=began)


def _still(name: StepName, seen: StepState, running: bool) -> bool:
    """Whether what the runner found of a step that a look does not ask still stands."""
    return running if name is StepName.PROMPT else seen in (StepState.DONE, StepState.READY_TO_RUN)


def start_command(steps: tuple[StepView, ...], event: CommandStarted) -> tuple[StepView, ...]:
    """The steps after a command was sent."""
    return tuple(
        replace(step, commands=(*step.commands, CommandView(event.command))[-MOST_COMMANDS:])
        if step.name is event.step
        else step
        for step in steps
    )


def end_command(steps: tuple[StepView, ...], event: CommandEnded) -> tuple[StepView, ...]:
    """The steps after a command came to its end."""
    return tuple(
        replace(step, commands=_ended(step.commands, event)) if step.name is event.step else step
        for step in steps
    )


def _ended(commands: tuple[CommandView, ...], event: CommandEnded) -> tuple[CommandView, ...]:
    done = False
    result = []
    for view in reversed(commands):
        if not done and view.completed is None and view.command == event.completed.command:
            view, done = replace(view, completed=event.completed), True
        result.append(view)
    return tuple(reversed(result))
