"""The pollers that ask the head: Ray's members, the run, the steps, /metrics."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final

from cockpit.bringup.api import api, api_healthy
from cockpit.bringup.look import look_at_steps
from cockpit.bringup.runs import last_run
from cockpit.bringup.session import Session
from cockpit.bringup.standing import Standing
from cockpit.bringup.steps.membership import ask_membership
from cockpit.bringup.steps.ray import needs_ray
from cockpit.hosts.errors import HostError
from cockpit.model.errors import CockpitError
from cockpit.model.progress import Phase
from cockpit.runtime.detached import ProcessState
from cockpit.serving.api import ApiError, metrics
from cockpit.serving.launch import Run
from cockpit.tui import facts as f
from cockpit.tui.poll_host import Tell
from cockpit.tui.state import RUN

RUN_EVERY: Final = 3.0
RAY_EVERY: Final = 5.0
STEPS_EVERY: Final = 20.0
METRICS_EVERY: Final = 2.0
"""While somebody looks at the charts; each look is a line in the serve log."""
METRICS_SELDOM: Final = 10.0
FRESH: Final = 25.0
"""Seconds for which an answer of /metrics stands for /health."""


class HeadPoller:
    """Asks the head in turns, until cancelled. ``busy`` tells whether the runner is at work: it tells of the
    steps by itself then."""

    def __init__(self, session: Session, up: asyncio.Event, tell: Tell, busy: Callable[[], bool]) -> None:
        self.session = session
        self.run_id: str | None = None
        self.ready = False
        self._up = up
        self._tell = tell
        self._busy = busy
        self.attentive = False
        self._answered_at = -FRESH
        self._steps_due = asyncio.Event()
        self._now = asyncio.Event()

    def wake(self) -> None:
        """Ask everything anew, now."""
        self._steps_due.set()
        self._now.set()

    async def watch_run(self) -> None:
        """The last run."""
        while True:
            await self._up.wait()
            await self._guarded(RUN, self._ask_run)
            self._now.clear()
            await _either(self._now, RUN_EVERY)

    async def watch_ray(self) -> None:
        """Ray's node table."""
        if not needs_ray(self.session.profile):
            self._tell(f.MembershipSeen(None))
            return
        while True:
            await self._up.wait()
            await self._guarded("Ray", self._ask_ray)
            await asyncio.sleep(RAY_EVERY)

    async def watch_steps(self) -> None:
        """Every step's own check."""
        while True:
            await self._up.wait()
            self._steps_due.clear()
            if not self._busy():
                await self._guarded("the steps", self._ask_steps)
            await _either(self._steps_due, STEPS_EVERY)

    async def watch_metrics(self) -> None:
        """/metrics, while the model is served; one forward for as long as it stands."""
        while True:
            if not self.ready:
                await asyncio.sleep(1)
                continue
            try:
                async with api(self.session) as url:
                    while self.ready:
                        self._tell(f.MetricsTaken(await metrics(url, limit=8)))
                        self._answered_at = time.monotonic()
                        await self._until_next_look()
            except (ApiError, HostError) as error:
                self._answered_at = -FRESH
                self._tell(f.MetricsFailed(error.message))
                await asyncio.sleep(5)

    async def _until_next_look(self) -> None:
        for _ in range(round(METRICS_SELDOM / METRICS_EVERY)):
            await asyncio.sleep(METRICS_EVERY)
            if self.attentive or not self.ready:
                return

    async def _is_ready(self) -> bool:
        """Whether the API answers: by a look at /metrics just now, else by /health."""
        if self.ready and time.monotonic() - self._answered_at < FRESH:
            return True
        return await api_healthy(self.session)

    async def _guarded(self, what: str, ask: Callable[[], Awaitable[None]]) -> None:
        try:
            await ask()
        except CockpitError as error:
            self._tell(f.LookFailed(what, error.told))

    async def _ask_run(self) -> None:
        run = await last_run(self.session)
        if run is None:
            self.run_id, self.ready = None, False
            self._tell(f.RunSeen(None))
            return
        running = run.process.state is ProcessState.RUNNING
        ready = running and await self._is_ready()
        if (run.id, ready) != (self.run_id, self.ready):
            self._steps_due.set()
        self.run_id, self.ready = run.id, ready
        self._tell(f.RunSeen(run.id, running, ready, run.process.status, began_at(run)))

    async def _ask_ray(self) -> None:
        self._tell(f.MembershipSeen(await ask_membership(self.session)))

    async def _ask_steps(self) -> None:
        run = await last_run(self.session)
        standing = None
        if run is not None:
            running = run.process.state is ProcessState.RUNNING
            ready = running and await self._is_ready()
            standing = Standing(run.id, running, ready, Phase.STARTING, "", run.process.status)
        seen = await look_at_steps(self.session, standing)
        if not self._busy():
            self._tell(f.StepsSeen(seen))


def began_at(run: Run) -> float | None:
    """When the run was started, in seconds since the epoch."""
    try:
        return datetime.fromisoformat(str(run.record["started_at"])).timestamp()
    except (KeyError, ValueError):
        return None


async def _either(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
