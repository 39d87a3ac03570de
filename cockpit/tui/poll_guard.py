"""A host's memory guard, as it writes of itself: asked while a run may be guarded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from cockpit.bringup.session import Session
from cockpit.hosts.errors import HostError
from cockpit.model.profile import GuardWhile, HostSpec
from cockpit.serving.guard import guard_state_command, parse_guard
from cockpit.tui import facts as f
from cockpit.tui.poll_host import Tell

GUARD_EVERY: Final = 5.0
"""Seconds: the guard itself writes as often."""


async def watch_guard(
    session: Session, spec: HostSpec, up: asyncio.Event, tell: Tell, wanted: Callable[[], bool]
) -> None:
    """Ask for the guard of ``spec`` until cancelled, while ``wanted``, and once more when it no longer is: it may
    have ended the run."""
    if session.profile.serve.guard.during is GuardWhile.OFF:
        return
    command = guard_state_command(session.runtime, spec)
    last = False
    while True:
        await up.wait()
        now = wanted()
        if now or last:
            try:
                answer = await session.hosts[spec.name].run(command, check=False)
            except HostError as error:
                tell(f.LookFailed(f"the memory guard of {spec.name}", error.told))
            else:
                tell(f.GuardTold(spec.name, parse_guard(answer.stdout)))
        last = now
        await asyncio.sleep(GUARD_EVERY)
