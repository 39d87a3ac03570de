"""Ray head and Ray workers."""

from __future__ import annotations

from cockpit.bringup.events import StepName, StepState
from cockpit.bringup.session import Session
from cockpit.bringup.step import Planner, Report
from cockpit.bringup.steps.base import StepBase, planner_of
from cockpit.cluster.backend import Backend, backend_of
from cockpit.cluster.ray import (
    RayProcess,
    head_command,
    parse_state,
    state_command,
    stop_command,
    token_command,
    worker_command,
)
from cockpit.model.command import Command
from cockpit.model.profile import HostSpec, Profile
from cockpit.runtime.detached import Process, ProcessState
from cockpit.runtime.prelude import NO_ENVIRONMENT

ONE_HOST = Report(StepState.NOT_NEEDED, "one host needs no Ray")


async def ray_on(session: Session, spec: HostSpec) -> RayProcess:
    """The cluster's Ray on a host; absent where its environment is gone."""
    completed = await session.ask(state_command(session.profile, session.runtime, spec))
    if completed.status == NO_ENVIRONMENT:
        return RayProcess(Process(ProcessState.ABSENT))
    if completed.status != 0:
        raise session.failed(completed)
    return parse_state(completed.text)


def needs_ray(profile: Profile) -> bool:
    """Whether the hosts are joined by Ray; raises ``ClusterError`` for what is not there yet."""
    return backend_of(profile) is Backend.RAY


async def check_ray(session: Session, specs: tuple[HostSpec, ...]) -> Report:
    """Whether the cluster's Ray runs on each of ``specs``."""
    if not needs_ray(session.profile):
        return ONE_HOST
    found = await session.each(specs, lambda spec: ray_on(session, spec))
    missing = [name for name, ray in found.items() if ray.process.state is not ProcessState.RUNNING]
    starting = [name for name, ray in found.items() if name not in missing and not ray.up]
    if not missing and not starting:
        return Report(StepState.DONE, f"running on {', '.join(found)}")
    if not missing:
        return Report(StepState.READY_TO_RUN, f"still starting on {', '.join(starting)}", starting[0])
    died = [name for name in missing if _died(found[name].process)]
    words = f"not running on {', '.join(missing)}" + (f"; it died on {', '.join(died)}" if died else "")
    return Report(StepState.READY_TO_RUN, words, missing[0] if len(missing) == 1 else "")


def _died(process: Process) -> bool:
    """Whether it ended by itself: a stop leaves 0, or SIGTERM's or SIGINT's status."""
    if process.state is ProcessState.ENDED:
        return process.status not in (0, 143, 130)
    return process.state is ProcessState.GONE


async def stop_ray(session: Session, specs: tuple[HostSpec, ...]) -> Report:
    """Stop the cluster's Ray on each of ``specs``; each host verifies that nothing of it is left."""
    if not needs_ray(session.profile):
        return ONE_HOST

    async def stop(spec: HostSpec) -> str:
        command = stop_command(session.profile, session.runtime, spec)
        completed = await session.run(command, check=False)
        if completed.status == NO_ENVIRONMENT:
            return "nothing runs"
        if completed.status != 0:
            raise session.failed(completed)
        return completed.text.strip().splitlines()[-1] if completed.text.strip() else "stopped"

    found = await session.each(specs, stop)
    return Report(StepState.DONE, "; ".join(f"{name}: {words}" for name, words in found.items()))


class RayHead(StepBase):
    """Ray's head runs on the head host."""

    name = StepName.RAY_HEAD
    title = "Ray head"

    def plan(self, planner: Planner) -> tuple[Command, ...]:
        """`ray start --head`, detached."""
        if not needs_ray(planner.profile):
            return ()
        return (head_command(planner.profile, planner.runtime),)

    def undo_plan(self, planner: Planner) -> tuple[Command, ...]:
        """End it."""
        if not needs_ray(planner.profile):
            return ()
        return (stop_command(planner.profile, planner.runtime, planner.profile.head),)

    async def check(self, session: Session) -> Report:
        """Whether it runs."""
        return await check_ray(session, (session.profile.head,))

    async def run(self, session: Session) -> Report:
        """Start it."""
        if not needs_ray(session.profile):
            return ONE_HOST
        (command,) = self.plan(planner_of(session))
        await session.run(command)
        profile = session.profile
        return Report(StepState.DONE, f"{profile.head.cluster_address}:{profile.ray.port}", command.host)

    async def undo(self, session: Session) -> Report:
        """End it."""
        return await stop_ray(session, (session.profile.head,))


class RayWorkers(StepBase):
    """Ray runs on every worker and has joined the head."""

    name = StepName.RAY_WORKERS
    title = "Ray workers"

    def plan(self, planner: Planner) -> tuple[Command, ...]:
        """The cluster's token, then `ray start --address` on each worker."""
        profile, runtime = planner.profile, planner.runtime
        if not needs_ray(profile):
            return ()
        return (
            token_command(profile, runtime),
            *(worker_command(profile, runtime, host) for host in profile.workers),
        )

    def undo_plan(self, planner: Planner) -> tuple[Command, ...]:
        """End them."""
        profile, runtime = planner.profile, planner.runtime
        if not needs_ray(profile):
            return ()
        return tuple(stop_command(profile, runtime, host) for host in reversed(profile.workers))

    async def check(self, session: Session) -> Report:
        """Whether it runs on every worker."""
        return await check_ray(session, session.profile.workers)

    async def run(self, session: Session) -> Report:
        """Start it on every worker at once."""
        profile = session.profile
        if not needs_ray(profile):
            return ONE_HOST
        token, *starts = self.plan(planner_of(session))
        await session.run(token)
        commands = {command.host: command for command in starts}
        await session.each(profile.workers, lambda spec: session.run(commands[spec.name]))
        return Report(StepState.DONE, f"running on {', '.join(commands)}")

    async def undo(self, session: Session) -> Report:
        """End it on every worker."""
        return await stop_ray(session, session.profile.workers)
