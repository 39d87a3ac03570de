"""Connect: an SSH connection to each host."""

from __future__ import annotations

from cockpit.bringup.errors import StepUnreachable
from cockpit.bringup.events import StepName, StepState
from cockpit.bringup.session import Session
from cockpit.bringup.step import Planner, Report
from cockpit.bringup.steps.base import StepBase
from cockpit.hosts.errors import HostError
from cockpit.model.command import Command
from cockpit.model.profile import HostSpec


class Connect(StepBase):
    """Each host answers."""

    name = StepName.CONNECT
    title = "Connect"

    def plan(self, planner: Planner) -> tuple[Command, ...]:
        """One harmless command a host."""
        return tuple(
            Command(host.name, ("uname", "-srm"), "see that the host answers", limit=10)
            for host in planner.profile.hosts
        )

    async def check(self, session: Session) -> Report:
        """Whether a connection to each host stands."""
        missing = [name for name, host in session.hosts.items() if not host.connected]
        if not missing:
            return Report(StepState.DONE, ", ".join(session.hosts))
        return Report(StepState.READY_TO_RUN, f"not connected: {', '.join(missing)}")

    async def run(self, session: Session) -> Report:
        """Connect to all hosts at once; every host that can't be reached is named."""
        failures: list[HostError] = []

        async def connect(spec: HostSpec) -> None:
            try:
                await session.hosts[spec.name].connect()
            except HostError as error:
                failures.append(error)

        await session.each(session.profile.hosts, connect)
        if failures:
            raise StepUnreachable(
                self.name,
                "\n".join(error.message for error in failures),
                host=failures[0].host if len(failures) == 1 else "",
                remedy="\n".join(dict.fromkeys(error.remedy for error in failures if error.remedy)),
            )
        for command in self.plan(Planner(session.profile, session.runtime)):
            await session.run(command)
        return Report(StepState.DONE, ", ".join(session.hosts))
