"""Launch: `vllm serve`, detached, on the head."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from cockpit.bringup.errors import StepFailed, StepUnreachable
from cockpit.bringup.events import StepName, StepState
from cockpit.bringup.runs import last_run
from cockpit.bringup.session import Session
from cockpit.bringup.step import Planner, Report
from cockpit.bringup.steps.base import StepBase, planner_of
from cockpit.cluster.environment import environment_for
from cockpit.hosts.quoting import command_line
from cockpit.model.command import Command
from cockpit.model.profile import HostSpec, Profile
from cockpit.runtime.detached import ProcessState
from cockpit.runtime.prelude import NO_ENVIRONMENT
from cockpit.serving.deep import helper_stop_command
from cockpit.serving.guard import guard_command, guard_stop_command
from cockpit.serving.launch import (
    launch_command,
    parse_launched,
)
from cockpit.serving.stop import (
    note_command,
    parse_leftovers,
    release_command,
    stop_command,
    verify_command,
)

FORCED = "forced"
"""The session's note of what the flag checks had against a launch that is forced."""


def serve_environment(profile: Profile) -> Mapping[str, str]:
    """Everything the serve's environment needs beside what the runtime gives."""
    return {**environment_for(profile, profile.head), **profile.serve.env}


class Launch(StepBase):
    """A run is running."""

    name = StepName.LAUNCH
    title = "Launch"

    def plan(self, planner: Planner) -> tuple[Command, ...]:
        """End the helper that judges flags, whose memory the run needs; start the workers' memory guards; then
        the launch on the head, with its own guard."""
        return (
            helper_stop_command(planner.profile, planner.runtime),
            *_guards(planner),
            _launch(planner),
        )

    def by_hand(self, planner: Planner) -> tuple[Command, ...]:
        """The guards and the launch: without the cockpit no helper runs."""
        return (*_guards(planner), _launch(planner))

    def undo_plan(self, planner: Planner) -> tuple[Command, ...]:
        """Note the shared memory it holds, end the run, then on every host give back what it left and see
        that nothing is left."""
        return (
            *_notes(planner),
            stop_command(planner.profile, planner.runtime),
            *_guard_stops(planner),
            *_releases(planner),
            *_verifications(planner),
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
        planner = planner_of(session)
        await session.run(helper_stop_command(planner.profile, planner.runtime), check=False)
        if not await self._running(session):
            await session.each(
                planner.profile.workers,
                lambda spec: session.run(guard_command(planner.profile, planner.runtime, spec)),
            )
        command = _launch(planner, forced=session.notes.get(FORCED, ""))
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
        planner = planner_of(session)
        await self._try_on_each(session, _notes(planner))
        stopped = await session.run(stop_command(planner.profile, planner.runtime), check=False)
        if stopped.status not in (0, NO_ENVIRONMENT):
            raise session.failed(stopped)
        await self._try_on_each(session, _guard_stops(planner))
        await self._try_on_each(session, _releases(planner))
        verify = {command.host: command for command in _verifications(planner)}
        found = await session.each(session.profile.hosts, lambda spec: session.run(verify[spec.name]))
        for host, completed in found.items():
            left = parse_leftovers(completed.stdout)
            if not left.clean:
                raise StepFailed(
                    self.name,
                    f"{host}: left after the stop: {left.words()}.",
                    host=host,
                    command=command_line(completed.command),
                )
        words = stopped.text.strip().splitlines()
        return Report(StepState.DONE, words[-1] if words else "no run was running")

    @staticmethod
    async def _running(session: Session) -> bool:
        """Whether a run is running already, whose guards then stay as they are."""
        run = await last_run(session)
        return run is not None and run.process.state is ProcessState.RUNNING

    @staticmethod
    async def _try_on_each(session: Session, commands: tuple[Command, ...]) -> None:
        """Run what only helps: a host that is away must not keep the run on the head from being ended."""
        by_host = {command.host: command for command in commands}

        async def attempt(spec: HostSpec) -> None:
            with suppress(StepUnreachable):
                await session.run(by_host[spec.name], check=False)

        await session.each(session.profile.hosts, attempt)


def _launch(planner: Planner, forced: str = "") -> Command:
    environment = serve_environment(planner.profile)
    return launch_command(planner.profile, planner.runtime, environment, forced=forced)


def _notes(planner: Planner) -> tuple[Command, ...]:
    profile, runtime = planner.profile, planner.runtime
    return tuple(note_command(profile, runtime, host) for host in profile.hosts)


def _guards(planner: Planner) -> tuple[Command, ...]:
    profile, runtime = planner.profile, planner.runtime
    return tuple(guard_command(profile, runtime, host) for host in profile.workers)


def _guard_stops(planner: Planner) -> tuple[Command, ...]:
    profile, runtime = planner.profile, planner.runtime
    return tuple(guard_stop_command(profile, runtime, host) for host in profile.hosts)


def _releases(planner: Planner) -> tuple[Command, ...]:
    profile, runtime = planner.profile, planner.runtime
    return tuple(release_command(profile, runtime, host) for host in profile.hosts)


def _verifications(planner: Planner) -> tuple[Command, ...]:
    profile, runtime = planner.profile, planner.runtime
    return tuple(
        verify_command(profile, runtime, host, (profile.serve.port,) if host is profile.head else ())
        for host in profile.hosts
    )
