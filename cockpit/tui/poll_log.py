"""The logs: which there are on each host, and followers that keep the spools of those that are looked at."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from cockpit.bringup.session import Session
from cockpit.bringup.sources import HOST_SPOOL, follower_of, sources_of, spool_of
from cockpit.bringup.watch import host_of
from cockpit.hosts.errors import HostError
from cockpit.logs.follow import CaughtUp, FollowEvent, Grown, follow_spool
from cockpit.logs.sources import Kind, Source
from cockpit.logs.spool import Spool, SpoolInUse
from cockpit.logs.spools import prune, runs_kept, spool_root
from cockpit.model.errors import CockpitError
from cockpit.model.profile import HostSpec
from cockpit.serving.load import LoadWatch
from cockpit.tui import facts as f
from cockpit.tui.feed import Key, key_of
from cockpit.tui.poll_host import Tell

SOURCES_EVERY: Final = 20.0
CHUNK: Final = 256 * 1024

VERSION: Final = re.compile(rb"version (\d[\w.+-]{1,40})")
"""vLLM's version in its banner, among a log's first lines (0.24.0, 0.32.0)."""


class Logs:
    """The followers of one session. ``opened`` is told when a spool can be read."""

    def __init__(self, session: Session, tell: Tell, opened: Callable[[Key, Path], None]) -> None:
        self.session = session
        self._tell = tell
        self._opened = opened
        self._due = asyncio.Event()
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._paths: dict[Key, Path] = {}
        self.events: dict[Key, FollowEvent] = {}

    def wake(self) -> None:
        """Ask for the sources now."""
        self._due.set()

    # Which there are

    async def watch_sources(self, spec: HostSpec, up: asyncio.Event) -> None:
        """A host's logs, every now and then."""
        while True:
            await up.wait()
            try:
                self._tell(f.SourcesSeen(spec.name, await sources_of(self.session, spec)))
            except CockpitError as error:
                self._tell(f.LookFailed(f"the logs of {spec.name}", error.told))
            try:
                async with asyncio.timeout(SOURCES_EVERY):
                    await self._due.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(0.5)
            self._due.clear()

    # Following

    def follow(self, source: Source) -> None:
        """Keep the spool of ``source``; ``opened`` is called once it can be read."""
        key = key_of(source)
        if key in self._paths:
            self._opened(key, self._paths[key])
        if key not in self._tasks or self._tasks[key].done():
            self._tasks[key] = asyncio.create_task(self._follow(source))

    def leave(self, keep: set[Key]) -> None:
        """End all followers but those in ``keep``."""
        for key in [key for key in self._tasks if key not in keep]:
            self._tasks.pop(key).cancel()

    async def close(self) -> None:
        """End every follower."""
        tasks = list(self._tasks.values())
        self.leave(set())
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, source: Source) -> None:
        key, path = key_of(source), spool_of(self.session, source)
        await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True, mode=0o700)
        load = asyncio.create_task(self._read_load(source, path)) if source.kind is Kind.SERVE else None
        try:
            with Spool(path) as spool:
                self._open(key, path)
                await follower_of(self.session, source, spool, lambda event: self._told(key, event)).run()
        except SpoolInUse:
            self._open(key, path)
            await follow_spool(source.name, path, lambda e: self._told(key, e))
        except (HostError, OSError) as error:
            self._tell(f.LookFailed(f"the log {source.name} of {source.host}", str(error)))
        finally:
            if load is not None:
                load.cancel()
                await asyncio.gather(load, return_exceptions=True)

    def _open(self, key: Key, path: Path) -> None:
        self._paths[key] = path
        self._opened(key, path)

    def _told(self, key: Key, event: FollowEvent) -> None:
        if not isinstance(event, Grown | CaughtUp):
            self.events[key] = event

    # The load, as the serve log tells it

    async def _read_load(self, source: Source, path: Path) -> None:
        """Read the spool from its start as it grows, and tell of every step forward."""
        watch, at = LoadWatch(time.monotonic()), 0
        while True:
            data = await asyncio.to_thread(_read, path, at)
            if data:
                at += len(data)
                for step in watch.feed(data, time.monotonic()):
                    host = host_of(self.session.profile, step)
                    self._tell(f.LoadTold(source.run, host, step))
                version = VERSION.search(data) if at == len(data) else None
                self._tell(f.LogGrew(source.run, version[1].decode("ascii") if version else ""))
            await asyncio.sleep(0 if len(data) == CHUNK else 0.3)

    async def tidy(self, run: str) -> None:
        """Remove the spools of runs long gone."""
        name, current = self.session.profile.name, (run, HOST_SPOOL)
        try:
            await asyncio.to_thread(prune, spool_root(), name, keep=runs_kept(), current=current)
        except OSError as error:
            self._tell(f.LookFailed("the copies of old logs", f"{error.filename}: {error.strerror}"))


def _read(path: Path, at: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(at)
            return file.read(CHUNK)
    except OSError:
        return b""
