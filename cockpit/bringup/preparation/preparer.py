"""Takes the preparation's tasks: asks the hosts, shows what would be done, and does what is confirmed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from cockpit.bringup.errors import StepError, StepFailed, StepUnreachable
from cockpit.bringup.events import Outcome, StepName, StepState
from cockpit.bringup.lock import hold
from cockpit.bringup.preparation.host_tasks import cache_tasks, folder_tasks
from cockpit.bringup.preparation.image import image_tasks
from cockpit.bringup.preparation.leftovers import leftover_tasks
from cockpit.bringup.preparation.model import model_tasks
from cockpit.bringup.preparation.task import Kind, Task, TaskChanged, Tell
from cockpit.bringup.runner import tell as in_words
from cockpit.bringup.session import Session
from cockpit.model.errors import CockpitError
from cockpit.probes.asked import Asked
from cockpit.probes.preflight import ask

STAGES: tuple[tuple[Kind, ...], ...] = (
    (Kind.FOLDERS, Kind.LEFTOVERS, Kind.IMAGE),
    (Kind.MODEL, Kind.CACHE),
)
"""What is asked about together. The model is looked for inside the runtime, which needs folders and image."""

Confirm = Callable[[Task], Awaitable[bool]]
"""Asks the operator about one task, which has been shown."""

Show = Callable[[Sequence[Task], Sequence[str]], None]
"""Shows a stage's tasks, and in words what can't be prepared."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What one look at the hosts would have done, and in words what it can't."""

    tasks: tuple[Task, ...]
    notes: tuple[str, ...]


async def look(session: Session, kinds: Sequence[Kind], *, only: bool) -> Stage:
    """Ask the hosts and plan. ``only`` tells that the operator named the kind: the page cache is then dropped
    wherever it is. Raises ``StepError``."""
    session.step = StepName.PREFLIGHT
    profile = session.profile
    asked, unknown = await ask(session.hosts, profile, session.runtime, profile.hosts, ours=False)
    tasks: list[Task] = []
    notes = [f"{', '.join(verdict.hosts)}: {verdict.observed}" for verdict in unknown]
    for kind in kinds:
        found, said = await _of_kind(session, asked, kind, only=only)
        tasks += found
        notes += said
    return Stage(tuple(tasks), tuple(notes))


async def _of_kind(session: Session, asked: Asked, kind: Kind, *, only: bool) -> tuple[list[Task], list[str]]:
    match kind:
        case Kind.FOLDERS:
            return folder_tasks(asked), []
        case Kind.LEFTOVERS:
            return await leftover_tasks(session)
        case Kind.IMAGE:
            return await image_tasks(session, asked)
        case Kind.MODEL:
            return await model_tasks(session, asked)
        case Kind.CACHE:
            return cache_tasks(asked, wanted=only), []


async def prepare(session: Session, *, only: Kind | None, confirm: Confirm, show: Show, tell: Tell) -> Outcome:
    """Every stage in turn, under the bring-up's lock. A task that fails does not keep the others from being done;
    the outcome tells: ready where all that was to be done is done, refused where something was declined or is the
    operator's own to do. Raises ``StepError`` where the hosts can't be asked."""
    session.step = StepName.PREFLIGHT
    outcomes: set[Outcome] = set()
    try:
        await session.connect()
    except CockpitError as error:
        raise StepUnreachable(session.step, error.message, remedy=error.remedy) from error
    async with hold(session, "prepare"):
        for stage in STAGES:
            kinds = [kind for kind in stage if only in (None, kind)]
            if not kinds:
                continue
            found = await look(session, kinds, only=only is not None)
            show(found.tasks, found.notes)
            for task in found.tasks:
                outcomes.add(await _one(session, task, confirm, tell))
    for worst in (Outcome.UNREACHABLE, Outcome.FAILED, Outcome.REFUSED):
        if worst in outcomes:
            return worst
    return Outcome.READY


async def _one(session: Session, task: Task, confirm: Confirm, tell: Tell) -> Outcome:
    if task.by_hand:
        tell(TaskChanged(task, StepState.REFUSED, task.by_hand))
        return Outcome.REFUSED
    if not await confirm(task):
        tell(TaskChanged(task, StepState.REFUSED, "declined; nothing was changed"))
        return Outcome.REFUSED
    tell(TaskChanged(task, StepState.RUNNING))
    try:
        reason = await task.run(session, tell)
    except StepError as error:
        tell(TaskChanged(task, StepState.FAILED, in_words(error)))
        return error.outcome
    except CockpitError as error:
        failed = StepFailed(session.step, error.message, remedy=error.remedy)
        tell(TaskChanged(task, StepState.FAILED, in_words(failed)))
        return failed.outcome
    tell(TaskChanged(task, StepState.DONE, reason))
    return Outcome.READY
