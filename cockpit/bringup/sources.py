"""The logs of a profile's hosts: which there are, where their local copies lie, what keeps these up to date."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cockpit.bringup.session import Session
from cockpit.bringup.steps.containers import container_of
from cockpit.cluster.arguments import temp_dir
from cockpit.logs.follow import Follower, FollowEvent, JournalFollower
from cockpit.logs.sources import (
    KERNEL_TEXT,
    SERVE_TEXT,
    Kind,
    Reach,
    Source,
    container_source,
    parse_sources,
    ray_text,
)
from cockpit.logs.spool import Spool
from cockpit.logs.spools import spool_path, spool_root
from cockpit.model.command import Command
from cockpit.model.profile import HostSpec
from cockpit.runtime.docker import DockerEnvironment

HOST_SPOOL = "host"
"""The spool folder of what belongs to no run: Ray's logs, the container's, the kernel's."""


async def sources_of(session: Session, spec: HostSpec) -> tuple[Source, ...]:
    """The logs a host has right now; Ray's only where its environment runs."""
    runtime, profile = session.runtime, session.profile
    texts = (
        runtime.host_script(spec, SERVE_TEXT + KERNEL_TEXT, "see which logs there are"),
        runtime.script(spec, ray_text(temp_dir(profile, spec)), "see which logs Ray has"),
    )
    output = b"".join([(await session.ask(text)).stdout for text in texts])
    found = parse_sources(spec.name, output)
    if isinstance(runtime, DockerEnvironment):
        container = await container_of(session, runtime, spec)
        if container.id:
            found = (*found, container_source(spec.name, container.id))
    return found


def spool_of(session: Session, source: Source) -> Path:
    """Where the local copy of a log lies."""
    run = source.run or HOST_SPOOL
    return spool_path(spool_root(), session.profile.name, run, source.host, source.name)


def follower_of(
    session: Session, source: Source, spool: Spool, tell: Callable[[FollowEvent], None]
) -> Follower:
    """What keeps ``spool`` the exact copy of ``source``."""
    runtime, host = session.runtime, session.hosts[source.host]
    spec = session.profile.host(source.host)

    def build(text: str, why: str) -> Command:
        inside = source.reach is Reach.ENVIRONMENT
        return runtime.script(spec, text, why) if inside else runtime.host_script(spec, text, why)

    if source.reach is Reach.JOURNAL:
        if source.kind is not Kind.CONTAINER:
            return JournalFollower(source.name, host, build, source.path, source.path, spool, tell)

        async def locate() -> str:
            if not isinstance(runtime, DockerEnvironment):
                return ""
            return (await container_of(session, runtime, spec)).id

        return JournalFollower(source.name, host, build, "container", source.path, spool, tell, locate=locate)
    return Follower(source.name, host, build, source.path, spool, tell)
