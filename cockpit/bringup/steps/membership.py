"""Membership: every expected host has joined the cluster, by its fabric address, with its GPU."""

from __future__ import annotations

import asyncio
import time

from cockpit.bringup.errors import StepFailed
from cockpit.bringup.events import StepName, StepState
from cockpit.bringup.session import Session
from cockpit.bringup.step import Planner, Report
from cockpit.bringup.steps.base import StepBase
from cockpit.bringup.steps.ray import ONE_HOST, needs_ray
from cockpit.cluster.membership import (
    Identity,
    identity_command,
    membership_command,
    parse_identity,
    parse_membership,
)
from cockpit.hosts.errors import HostError
from cockpit.model.command import Command
from cockpit.model.facts import Member, Membership, MemberState
from cockpit.runtime.prelude import NO_ENVIRONMENT

PATIENCE = 10.0
"""Seconds for the hosts to appear in Ray's node table; they are in it as soon as `ray start` returns."""

WORDS = {
    MemberState.JOINED: "joined",
    MemberState.MISSING: "expected, not joined",
    MemberState.WRONG_ADDRESS: "joined over another network",
    MemberState.UNEXPECTED: "joined, not of this profile",
}


async def ask_membership(session: Session) -> Membership:
    """The cluster as Ray's node table has it; a cluster that does not answer is not reachable, with why."""
    completed = await session.ask(membership_command(session.profile, session.runtime))
    if completed.status == NO_ENVIRONMENT:
        return Membership(False, error="no environment runs on the head")
    found = parse_membership(completed.stdout, session.profile)
    if found.reachable and any(member.state is not MemberState.JOINED for member in found.members):
        found = parse_membership(completed.stdout, session.profile, await _identities(session))
    return found


async def _identities(session: Session) -> dict[str, Identity]:
    """What the hosts that answer call themselves, and their addresses."""
    found: dict[str, Identity] = {}
    for spec in session.profile.hosts:
        host = session.hosts[spec.name]
        try:
            if host.connected:
                completed = await host.run(identity_command(session.runtime, spec))
                found[spec.name] = parse_identity(completed.stdout)
        except HostError:
            # Without its identity a strange node is told as unexpected: true, if less helpful.
            continue
    return found


def member_words(member: Member) -> str:
    """One host's place in the cluster."""
    where = f" as {member.address}" if member.address else ""
    gpus = f", {member.gpus:g} GPU" if member.address else ""
    return f"{member.host} {WORDS[member.state]}{where}{gpus}"


def membership_words(membership: Membership) -> str:
    """The cluster in words."""
    if not membership.reachable:
        return f"Ray does not answer: {membership.error}"
    return "; ".join(member_words(member) for member in membership.members)


class MembershipStep(StepBase):
    """The cluster is complete."""

    name = StepName.MEMBERSHIP
    title = "Membership"

    def plan(self, planner: Planner) -> tuple[Command, ...]:
        """Ask Ray's node table."""
        if not needs_ray(planner.profile):
            return ()
        return (membership_command(planner.profile, planner.runtime),)

    async def check(self, session: Session) -> Report:
        """Whether every host has joined."""
        if not needs_ray(session.profile):
            return ONE_HOST
        found = await ask_membership(session)
        if found.complete:
            return Report(StepState.DONE, self._count(found))
        return Report(StepState.READY_TO_RUN, membership_words(found))

    async def run(self, session: Session) -> Report:
        """Wait until every host has joined; past ``PATIENCE`` say who is missing, and how."""
        if not needs_ray(session.profile):
            return ONE_HOST
        until = time.monotonic() + PATIENCE
        while not (found := await ask_membership(session)).complete:
            if time.monotonic() > until:
                raise self._incomplete(session, found)
            await asyncio.sleep(1)
        return Report(StepState.DONE, self._count(found))

    def _incomplete(self, session: Session, found: Membership) -> StepFailed:
        joined = sum(member.state is MemberState.JOINED and member.gpus >= 1 for member in found.members)
        wrong = next((m for m in found.members if m.state is not MemberState.JOINED), None)
        gpuless = next((m for m in found.members if m.state is MemberState.JOINED and m.gpus < 1), None)
        bad = wrong or gpuless
        return StepFailed(
            self.name,
            f"{joined} of {len(session.profile.hosts)} hosts have joined Ray with a GPU. {membership_words(found)}.",
            host=bad.host if bad else session.profile.head.name,
            command=f"GET http://127.0.0.1:{session.profile.ray.dashboard_port}/api/v0/nodes",
            remedy=_remedy(session, bad),
        )

    @staticmethod
    def _count(found: Membership) -> str:
        gpus = sum(member.gpus for member in found.members)
        return f"{len(found.members)} of {len(found.members)} hosts, {gpus:g} GPUs"


def _remedy(session: Session, member: Member | None) -> str:
    word = session.profile.word
    if member is None:
        return f"See whether Ray runs: `spark-cockpit status {word}`."
    match member.state:
        case MemberState.MISSING:
            return (
                f"Ray's log on {member.host} says why: `spark-cockpit logs {word} --host {member.host} --source ray`. "
                f"`spark-cockpit down {word}` ends it, and `up` starts it anew."
            )
        case MemberState.WRONG_ADDRESS:
            return f"Take Ray down with `spark-cockpit down {word}`: it was started with another address."
        case MemberState.UNEXPECTED:
            return (
                f"Take {member.host} ({member.address}) out of this cluster, or add it to the profile's hosts."
            )
        case MemberState.JOINED:
            return (
                f"Ray sees no GPU on {member.host}: see whether `nvidia-smi -L` lists one in its environment."
            )
