"""Opens a session: the profile's hosts and its runtime, nothing connected yet."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from cockpit.bringup.events import Event
from cockpit.bringup.session import Session
from cockpit.hosts.errors import HostKeyUnknown
from cockpit.hosts.factory import open_host
from cockpit.model.profile import Profile
from cockpit.runtime.environment import environment

Ask = Callable[[HostKeyUnknown], Awaitable[bool]]


@asynccontextmanager
async def open_session(
    profile: Profile,
    *,
    emit: Callable[[Event], None] | None = None,
    ask: Ask | None = None,
    trust: frozenset[str] = frozenset(),
    forced: bool = False,
) -> AsyncIterator[Session]:
    """A session for ``profile``; its connections are closed on leaving, what runs on the hosts goes on.

    ``ask`` is shown an unknown host key; without it, only fingerprints in ``trust`` are accepted.
    """
    given: dict[str, str] = {}
    hosts = {
        spec.name: open_host(
            spec,
            ssh_config=profile.ssh_config,
            ask=ask,
            trust=trust,
            secrets=lambda: {**os.environ, **given},
        )
        for spec in profile.hosts
    }
    session = Session(profile, hosts, environment(profile), forced=forced, secrets=given)
    if emit is not None:
        session.emit = emit
    try:
        yield session
    finally:
        await asyncio.gather(*(host.close() for host in hosts.values()))
