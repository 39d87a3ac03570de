"""One look at everything: hosts, cluster, steps and run, as they are right now. Changes nothing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from cockpit.bringup.errors import StepError, StepUnreachable
from cockpit.bringup.events import StepName, StepState
from cockpit.bringup.session import Session
from cockpit.bringup.standing import Standing, standing
from cockpit.bringup.step import Report
from cockpit.bringup.steps import all_steps
from cockpit.bringup.steps.membership import ask_membership
from cockpit.hosts.errors import HostError
from cockpit.model.facts import Member, Membership, Sample
from cockpit.model.profile import HostSpec, Role
from cockpit.probes.sample import SampleError, parse_sample, sample_command
from cockpit.serving.guard import GuardSeen, guard_state_command, parse_guard

NOT_ASKED = frozenset({StepName.PREFLIGHT, StepName.FLAGS, StepName.PROMPT})
"""Steps whose check is work of its own: a look does not do them."""


@dataclass(frozen=True, slots=True)
class HostSeen:
    """One host at one time. ``error`` says why it could not be reached, ``remedy`` what to do."""

    spec: HostSpec
    rank: int | None
    sample: Sample | None = None
    member: Member | None = None
    error: str = ""
    remedy: str = ""
    guard: GuardSeen | None = None

    @property
    def reachable(self) -> bool:
        """Whether the host answered."""
        return not self.error

    def to_json(self) -> dict[str, Any]:
        """The host as the contract has it."""
        sample, member = self.sample, self.member
        return {
            "name": self.spec.name,
            "reachable": self.reachable,
            "role": self.spec.role.value,
            "seen_at": datetime.fromtimestamp(sample.at, UTC).astimezone().isoformat() if sample else None,
            "memory": _memory_json(sample) if sample else None,
            "gpu": [_gpu_json(gpu) for gpu in sample.gpus] if sample else None,
            "ray": {"state": member.state.value, "address": member.address or None, "gpus": member.gpus}
            if member
            else None,
            "rank": self.rank,
            "guard": self.guard.to_json() if self.guard else None,
            **({"error": self.error, "remedy": self.remedy} if self.error else {}),
        }


@dataclass(frozen=True, slots=True)
class StepSeen:
    """One step's state at one time."""

    name: StepName
    report: Report


@dataclass(frozen=True, slots=True)
class Seen:
    """The whole look."""

    hosts: tuple[HostSeen, ...]
    steps: tuple[StepSeen, ...]
    run: Standing | None
    membership: Membership | None

    def to_json(self) -> dict[str, Any]:
        """The look as the contract has it."""
        return {
            "hosts": [host.to_json() for host in self.hosts],
            "steps": [
                {"name": step.name.value, "state": step.report.state.value, "reason": step.report.reason}
                for step in self.steps
            ],
            "run": self.run.to_json() if self.run else None,
        }


async def look(session: Session) -> Seen:
    """Ask every host once. A host that is gone does not keep the others from answering."""
    profile = session.profile
    seen = await asyncio.gather(*(_look_at(session, spec) for spec in profile.hosts))
    if not seen[profile.hosts.index(profile.head)].reachable:
        unknown = Report(StepState.UNKNOWN, f"{profile.head.name} can't be reached")
        steps = tuple(StepSeen(step.name, unknown) for step in all_steps())
        return Seen(tuple(seen), steps, None, None)
    membership = await ask_membership(session) if len(profile.hosts) > 1 else None
    run = await standing(session)
    members = {member.host: member for member in membership.members} if membership else {}
    hosts = tuple(replace(host, member=members.get(host.spec.name)) for host in seen)
    return Seen(hosts, await look_at_steps(session, run), run, membership)


async def _look_at(session: Session, spec: HostSpec) -> HostSeen:
    profile = session.profile
    order = (profile.head, *profile.workers)
    rank = order.index(spec) if len(order) > 1 or spec.role is Role.HEAD else None
    host = session.hosts[spec.name]
    try:
        await host.connect()
        completed, guard = await asyncio.gather(
            host.run(sample_command(spec)),
            host.run(guard_state_command(session.runtime, spec), check=False),
        )
        return HostSeen(spec, rank, parse_sample(completed.stdout), guard=parse_guard(guard.stdout))
    except (HostError, SampleError) as error:
        return HostSeen(spec, rank, error=error.message, remedy=error.remedy)


async def look_at_steps(session: Session, run: Standing | None) -> tuple[StepSeen, ...]:
    """Every step's state. What stands before a run in progress has passed; what a look can't ask is ready."""
    reports = []
    running = run is not None and run.running
    for step in all_steps():
        session.step = step.name
        if step.name is StepName.PROMPT:
            report = _prompt_state(run)
        elif step.name in NOT_ASKED:
            passed = f"passed before run {run.id}" if run is not None and running else ""
            report = Report(StepState.DONE if running else StepState.READY_TO_RUN, passed)
        elif step.name is StepName.LOAD and run is not None and running and not run.ready:
            report = Report(StepState.RUNNING, run.words, session.profile.head.name)
        else:
            try:
                report = await step.check(session)
            except StepError as error:
                away = isinstance(error, StepUnreachable) and error.host
                reason = f"{error.host} can't be reached" if away else error.told
                report = Report(StepState.UNKNOWN, reason, error.host)
        reports.append(StepSeen(step.name, report))
    return tuple(reports)


def _prompt_state(run: Standing | None) -> Report:
    if run is not None and run.ready:
        return Report(StepState.READY_TO_RUN)
    return Report(StepState.WAITING, "for the model to be ready")


def _memory_json(sample: Sample) -> dict[str, Any]:
    memory = sample.memory
    return {
        "total": memory.total,
        "available": memory.available,
        "gpu_processes": memory.gpu_processes,
        "page_cache": memory.page_cache,
        "swap_total": memory.swap_total,
        "swap_free": memory.swap_free,
        "pressure": memory.pressure,
    }


def _gpu_json(gpu: Any) -> dict[str, Any]:
    return {
        "index": gpu.index,
        "name": gpu.name,
        "utilisation": gpu.utilisation,
        "power": gpu.power,
        "temperature": gpu.temperature,
        "memory_total": gpu.total,
        "memory_used": gpu.used,
    }
