"""Containers: one container of ours on each host, where the runtime is Docker."""

from __future__ import annotations

from cockpit.bringup.errors import StepFailed
from cockpit.bringup.events import StepName, StepState
from cockpit.bringup.session import Session
from cockpit.bringup.step import Planner, Report
from cockpit.bringup.steps.base import StepBase, planner_of
from cockpit.model.command import Command
from cockpit.model.profile import HostSpec
from cockpit.runtime.containers import Container, ContainerKind, parse_container
from cockpit.runtime.docker import DockerEnvironment

NATIVE = Report(StepState.NOT_NEEDED, "vLLM runs natively on the hosts")


async def container_of(session: Session, docker: DockerEnvironment, spec: HostSpec) -> Container:
    """The cluster's container on a host; ``StepFailed`` where Docker can't be asked."""
    completed = await session.ask(docker.container_state(spec))
    if completed.status != 0:
        raise session.failed(completed)
    return parse_container(completed.text)


class Containers(StepBase):
    """The environment that holds vLLM runs on every host."""

    name = StepName.CONTAINERS
    title = "Containers"

    def plan(self, planner: Planner) -> tuple[Command, ...]:
        """Start one container a host."""
        docker = planner.runtime
        if not isinstance(docker, DockerEnvironment):
            return ()
        return tuple(docker.container_start(host) for host in planner.profile.hosts)

    def undo_plan(self, planner: Planner) -> tuple[Command, ...]:
        """Remove our container from each host."""
        docker = planner.runtime
        if not isinstance(docker, DockerEnvironment):
            return ()
        return tuple(docker.container_remove(host) for host in planner.profile.hosts)

    async def check(self, session: Session) -> Report:
        """Whether our container runs on every host, from the profile's image and flags."""
        docker = session.runtime
        if not isinstance(docker, DockerEnvironment):
            return NATIVE
        found = await session.each(session.profile.hosts, lambda spec: container_of(session, docker, spec))
        for host, container in found.items():
            if container.kind in (ContainerKind.STALE, ContainerKind.FOREIGN):
                return Report(StepState.FAILED, container.detail, host)
        missing = [host for host, container in found.items() if container.kind is not ContainerKind.RUNNING]
        if missing:
            return Report(StepState.READY_TO_RUN, f"none on {', '.join(missing)}")
        return Report(StepState.DONE, ", ".join(f"{host} {c.id[:12]}" for host, c in found.items()))

    async def run(self, session: Session) -> Report:
        """Start what is missing; a stale or a foreign container is named and left alone."""
        commands = {command.host: command for command in self.plan(planner_of(session))}
        done = await session.each(
            session.profile.hosts, lambda spec: session.run(commands[spec.name], check=False)
        )
        for completed in done.values():
            if completed.status != 0:
                error = session.failed(completed)
                raise StepFailed(
                    self.name,
                    error.message,
                    host=error.host,
                    command=error.command,
                    line=error.line,
                    remedy=(
                        f"After a change of the profile: `spark-cockpit down {session.profile.word}`, then up again."
                        if "started from" in error.line
                        else ""
                    ),
                )
        return Report(StepState.DONE, ", ".join(f"{h} {c.text.strip()[-64:][:12]}" for h, c in done.items()))

    async def undo(self, session: Session) -> Report:
        """Remove our containers, by id, and look again."""
        commands = {command.host: command for command in self.undo_plan(planner_of(session))}
        if not commands:
            return NATIVE
        done = await session.each(session.profile.hosts, lambda spec: session.run(commands[spec.name]))
        return Report(StepState.DONE, ", ".join(f"{h}: {c.text.strip()[:40]}" for h, c in done.items()))
