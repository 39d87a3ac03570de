"""Launch: `vllm serve`, detached, on the head."""

from __future__ import annotations

from collections.abc import Mapping

from cockpit.bringup.errors import StepFailed
from cockpit.bringup.events import StepName, StepState
from cockpit.bringup.session import Session
from cockpit.bringup.step import Planner, Report
from cockpit.bringup.steps.base import StepBase, planner_of
from cockpit.cluster.environment import environment_for
from cockpit.hosts.quoting import join
from cockpit.model.command import Command
from cockpit.model.profile import HostSpec, Profile
from cockpit.runtime.detached import ProcessState
from cockpit.runtime.prelude import NO_ENVIRONMENT
from cockpit.serving.launch import (
    Run,
    launch_command,
    parse_launched,
    parse_run_state,
    run_state_command,
)
from cockpit.serving.stop import note_command, parse_leftovers, stop_command, verify_command


async def last_run(session: Session) -> Run | None:
    """The last run as the head has it; None where there never was one, or its environment is gone."""
    completed = await session.ask(run_state_command(session.profile, session.runtime))
    if completed.status == NO_ENVIRONMENT:
        return None
    if completed.status != 0:
        raise session.failed(completed)
    return parse_run_state(completed.stdout)


def serve_environment(profile: Profile) -> Mapping[str, str]:
    """Everything the serve's environment needs beside what the runtime gives."""
    return {**environment_for(profile, profile.head), **profile.serve.env}


class Launch(StepBase):
    """A run is running."""

    name = StepName.LAUNCH
    title = "Launch"

    def plan(self, planner: Planner) -> tuple[Command, ...]:
        """The launch on the head."""
        return (launch_command(planner.profile, planner.runtime, serve_environment(planner.profile)),)

    def undo_plan(self, planner: Planner) -> tuple[Command, ...]:
        """Note the shared memory it holds, end the run, then look on every host for what is left of it."""
        profile, runtime = planner.profile, planner.runtime
        return (
            *(note_command(profile, runtime, host) for host in profile.hosts),
            stop_command(profile, runtime),
            *(verify_command(profile, runtime, host, _ports(profile, host)) for host in profile.hosts),
        )

    async def check(self, session: Session) -> Report:
        """Whether a run is running."""
        run = await last_run(session)
        if run is None:
            return Report(StepState.READY_TO_RUN)
        session.notes["run"] = run.id
        if run.process.state is ProcessState.RUNNING:
            return Report(StepState.DONE, f"run {run.id}", session.profile.head.name)
        ended = (
            f"the last run, {run.id}, ended with exit status {run.process.status}"
            if run.process.state is ProcessState.ENDED
            else f"the last run, {run.id}, is gone and left no exit status"
        )
        return Report(StepState.READY_TO_RUN, ended, session.profile.head.name)

    async def run(self, session: Session) -> Report:
        """Launch, unless a run is running."""
        (command,) = self.plan(planner_of(session))
        completed = await session.run(command)
        try:
            launched = parse_launched(completed.stdout)
        except ValueError as error:
            raise session.failed(completed, f"{command.host}: the launch gave no run's id: {error}.") from error
        session.notes["run"] = launched.run
        word = "" if launched.started else "already running: "
        return Report(StepState.DONE, f"{word}run {launched.run}", command.host)

    async def undo(self, session: Session) -> Report:
        """End the run and verify on every host that its processes, ports and memory are free."""
        count = len(session.profile.hosts)
        plan = self.undo_plan(planner_of(session))
        note, stop, verify = _by_host(plan[:count]), plan[count], _by_host(plan[count + 1 :])
        await session.each(session.profile.hosts, lambda spec: session.run(note[spec.name], check=False))
        stopped = await session.run(stop, check=False)
        if stopped.status not in (0, NO_ENVIRONMENT):
            raise session.failed(stopped)
        found = await session.each(session.profile.hosts, lambda spec: session.run(verify[spec.name]))
        for host, completed in found.items():
            left = parse_leftovers(completed.stdout)
            if not left.clean:
                raise StepFailed(
                    self.name,
                    f"{host}: left after the stop: {left.words()}.",
                    host=host,
                    command=join(completed.command.remote_argv),
                )
        words = stopped.text.strip().splitlines()
        return Report(StepState.DONE, words[-1] if words else "no run was running")


def _ports(profile: Profile, host: HostSpec) -> tuple[int, ...]:
    """The ports a run holds on ``host``."""
    return (profile.serve.port,) if host is profile.head else ()


def _by_host(commands: tuple[Command, ...]) -> dict[str, Command]:
    return {command.host: command for command in commands}
