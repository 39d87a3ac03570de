"""Preflight: what stands in the way, on which host, before anything is started."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from cockpit.bringup.errors import StepRefused
from cockpit.bringup.events import StepName, StepState, Surveyed
from cockpit.bringup.runs import last_run
from cockpit.bringup.session import Session
from cockpit.bringup.step import Planner, Report
from cockpit.bringup.steps.base import StepBase
from cockpit.bringup.steps.ray import needs_ray, ray_on
from cockpit.cluster.environment import environment_for
from cockpit.hosts.errors import HostError
from cockpit.hosts.host import Host
from cockpit.model.command import Command
from cockpit.model.profile import HostSpec
from cockpit.model.verdict import Grade, Verdict
from cockpit.probes.asked import busy, merged
from cockpit.probes.checks_fabric import rdma_ends
from cockpit.probes.inside import comparable, inside, inside_command, parse_inside
from cockpit.probes.measure import throughput
from cockpit.probes.measure_rdma import End, rdma_bandwidth
from cockpit.probes.preflight import Survey, ask, commands, judged
from cockpit.runtime.detached import ProcessState
from cockpit.runtime.prelude import NO_ENVIRONMENT
from cockpit.serving.launch import Run


async def preflight_verdicts(session: Session, *, measure: bool = False) -> tuple[Verdict, ...]:
    """The verdicts of ``survey_hosts``."""
    return (await survey_hosts(session, measure=measure)).verdicts


async def survey_hosts(session: Session, *, measure: bool = False) -> Survey:
    """Every verdict, those about hosts that can't be reached first, and the cabling. ``measure`` also fills the
    fabric with bytes, for a few seconds in each direction."""
    profile = session.profile

    async def connect(spec: HostSpec) -> Verdict | None:
        try:
            await session.hosts[spec.name].connect()
        except HostError as error:
            return Verdict("connect", (spec.name,), Grade.UNKNOWN, error.what, remedy=error.remedy)
        return None

    unreached = [v for v in await asyncio.gather(*(connect(spec) for spec in profile.hosts)) if v]
    reached = {name: host for name, host in session.hosts.items() if host.connected}
    specs = [spec for spec in profile.hosts if spec.name in reached]
    (asked, unknown), ours = await asyncio.gather(
        ask(reached, profile, session.runtime, specs, ours=False), _ports_are_ours(session, reached)
    )
    found = judged(replace(asked, ours=ours), unknown)
    running = await _inside(session, reached) if ours else ()
    measured = await _measured(session, reached, rdma_ends(asked)) if measure else ()
    return Survey((*unreached, *found.verdicts, *running, *measured), found.cabling)


async def _inside(session: Session, reached: Mapping[str, Host]) -> tuple[Verdict, ...]:
    """What this cluster's processes run with, compared with the profile as it is now."""

    async def ask(spec: HostSpec) -> list[Verdict]:
        expected = comparable(environment_for(session.profile, spec))
        completed = await session.ask(inside_command(session.runtime, spec, expected))
        if completed.status == NO_ENVIRONMENT:
            return []
        try:
            seen = parse_inside(completed.stdout)
        except ValueError as error:
            why = "What runs may have another environment than the profile's."
            return [Verdict("inside", (spec.name,), Grade.UNKNOWN, f"Not told: {error}", why, busy(spec.name))]
        own = session.profile.serve.env  # the serve's own, which go before
        kept = {name: value for name, value in expected.items() if name not in own}
        return list(inside(session.profile.word, spec.name, kept, seen))

    specs = [spec for spec in session.profile.hosts if spec.name in reached]
    return merged(verdict for found in await asyncio.gather(*map(ask, specs)) for verdict in found)


async def _measured(
    session: Session, reached: Mapping[str, Host], ends: Mapping[str, End]
) -> tuple[Verdict, ...]:
    """The throughput by TCP and, where both have it, by RDMA: from the head to each worker that is reached, and
    back; one after the other."""
    profile, found = session.profile, []
    for worker in profile.workers:
        for sender, receiver in ((profile.head, worker), (worker, profile.head)):
            if sender.name in reached and receiver.name in reached:
                found.append(await throughput(reached, session.runtime, sender, receiver))
                if sender.name in ends and receiver.name in ends:
                    one, two = ends[sender.name], ends[receiver.name]
                    found.append(await rdma_bandwidth(reached, session.runtime, one, two))
    return tuple(found)


async def _ports_are_ours(session: Session, reached: Mapping[str, Host]) -> bool:
    """Whether the ports may be taken by this very cluster's Ray or run."""
    if session.profile.head.name not in reached:
        return False
    if not needs_ray(session.profile):
        return _runs(await last_run(session))
    run, ray = await asyncio.gather(last_run(session), ray_on(session, session.profile.head))
    return _runs(run) or ray.process.state is ProcessState.RUNNING


def _runs(run: Run | None) -> bool:
    return run is not None and run.process.state is ProcessState.RUNNING


class Preflight(StepBase):
    """Nothing stands in the way."""

    name = StepName.PREFLIGHT
    title = "Preflight"

    def plan(self, planner: Planner) -> tuple[Command, ...]:
        """The questions, a few a host."""
        return commands(planner.profile, planner.runtime)

    async def check(self, session: Session) -> Report:
        """What a run in progress stands on has passed; else it is asked anew."""
        run = await last_run(session)
        if run is not None and run.process.state is ProcessState.RUNNING:
            return Report(StepState.DONE, f"run {run.id} is running")
        return Report(StepState.READY_TO_RUN)

    async def run(self, session: Session) -> Report:
        """Ask; what is blocked refuses the bring-up, unless forced."""
        needs_ray(session.profile)
        found = await survey_hosts(session)
        verdicts = found.verdicts
        session.emit(Surveyed(verdicts, found.cabling))
        blocked = [verdict for verdict in verdicts if verdict.grade is Grade.BLOCKED]
        if blocked and not session.forced:
            raise StepRefused(
                self.name,
                "\n".join(_told(verdict) for verdict in blocked),
                host=blocked[0].hosts[0] if len(blocked) == 1 and len(blocked[0].hosts) == 1 else "",
                remedy="\n".join(dict.fromkeys(verdict.remedy for verdict in blocked if verdict.remedy)),
            )
        return Report(StepState.DONE, counted(verdicts))


def _told(verdict: Verdict) -> str:
    why = f" {verdict.why}" if verdict.why else ""
    return f"{', '.join(verdict.hosts)}: {verdict.observed}{why}"


def counted(verdicts: tuple[Verdict, ...]) -> str:
    """How many verdicts there are of each grade."""
    counts = {grade: sum(verdict.grade is grade for verdict in verdicts) for grade in Grade}
    return ", ".join(f"{count} {grade.value}" for grade, count in counts.items() if count)
