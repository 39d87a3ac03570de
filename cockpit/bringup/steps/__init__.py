"""The steps, one module each, in the order they are taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cockpit.bringup.names import StepName

if TYPE_CHECKING:
    from cockpit.bringup.step import Step


def all_steps() -> tuple[Step, ...]:
    """Every step, in order."""
    # Imported here: steps use each other's questions, and none may need all of them to be read first.
    from cockpit.bringup.steps.connect import Connect
    from cockpit.bringup.steps.containers import Containers
    from cockpit.bringup.steps.flags import Flags
    from cockpit.bringup.steps.launch import Launch
    from cockpit.bringup.steps.load import Load
    from cockpit.bringup.steps.membership import MembershipStep
    from cockpit.bringup.steps.preflight import Preflight
    from cockpit.bringup.steps.prompt import Prompt
    from cockpit.bringup.steps.ray import RayHead, RayWorkers

    return (
        Connect(),
        Preflight(),
        Containers(),
        RayHead(),
        RayWorkers(),
        MembershipStep(),
        Flags(),
        Launch(),
        Load(),
        Prompt(),
    )


def titles() -> dict[StepName, str]:
    """Each step's title, without loading the steps."""
    return {name: name.value.replace("-", " ").capitalize() for name in StepName}
