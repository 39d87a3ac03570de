"""The API that the run serves, reached through the head's SSH connection."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cockpit.bringup.session import Session
from cockpit.hosts.errors import HostError
from cockpit.model.profile import Profile
from cockpit.serving.api import health

ANY = frozenset({"", "0.0.0.0", "::", "localhost"})


def api_address(profile: Profile) -> str:
    """The address the API listens on, as the head itself reaches it."""
    declared = str(profile.serve.flags.get("host") or "")
    return "127.0.0.1" if declared in ANY else declared


def api_url(profile: Profile) -> str:
    """The API's base URL, as the head itself reaches it."""
    address = api_address(profile)
    bracketed = f"[{address}]" if ":" in address else address
    return f"http://{bracketed}:{profile.serve.port}"


@asynccontextmanager
async def api(session: Session) -> AsyncIterator[str]:
    """The API's base URL on this machine, for the time of the context."""
    async with session.head.forward(session.profile.serve.port, api_address(session.profile)) as port:
        yield f"http://127.0.0.1:{port}"


async def api_healthy(session: Session) -> bool:
    """Whether /health answers 200 right now."""
    try:
        async with api(session) as url:
            return await health(url) == 200
    except HostError:
        return False
