"""The logs: which there are on each host, and followers that keep the spools of those that are looked at."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from cockpit.bringup.session import Session
from cockpit.bringup.watch import host_of
from cockpit.hosts.errors import HostError
from cockpit.logs.follow import CaughtUp, Follower, FollowEvent, Grown, JournalFollower, follow_spool
from cockpit.logs.sources import KERNEL_TEXT, SERVE_TEXT, Kind, Reach, Source, parse_sources, ray_text
from cockpit.logs.spool import Spool, SpoolInUse, prune, spool_path, spool_root
from cockpit.model.command import Command
from cockpit.model.errors import CockpitError
from cockpit.model.profile import HostSpec
from cockpit.serving.load import LoadWatch
from cockpit.tui import facts as f
from cockpit.tui.poll_host import Tell

SOURCES_EVERY: Final = 20.0
RUNS_KEPT: Final = 10
CHUNK: Final = 256 * 1024

VERSION: Final = re.compile(rb"version (\d[\w.+-]{1,40})")
"""vLLM's version in its banner, among a log's first lines (0.24.0, 0.32.0)."""

Key = tuple[str, str, str]
"""A log: host, source, run ("" where it belongs to none)."""


def key_of(source: Source) -> Key:
    """The log of a source."""
    return source.host, source.name, source.run


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
                self._tell(f.SourcesSeen(spec.name, await self._sources(spec)))
            except CockpitError as error:
                self._tell(f.LookFailed(f"the logs of {spec.name}", error.message))
            try:
                async with asyncio.timeout(SOURCES_EVERY):
                    await self._due.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(0.5)
            self._due.clear()

    async def _sources(self, spec: HostSpec) -> tuple[Source, ...]:
        runtime = self.session.runtime
        texts = [runtime.host_script(spec, SERVE_TEXT + KERNEL_TEXT, "see which logs there are")]
        texts.append(runtime.script(spec, ray_text(), "see which logs Ray has"))
        output = b"".join([(await self.session.ask(text)).stdout for text in texts])
        return parse_sources(spec.name, output)

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
        key, profile = key_of(source), self.session.profile
        path = spool_path(spool_root(), profile.name, source.run or "host", source.host, source.name)
        await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True, mode=0o700)
        load = asyncio.create_task(self._read_load(source, path)) if source.kind is Kind.SERVE else None
        try:
            with Spool(path) as spool:
                self._open(key, path)
                await self._follower(source, spool).run()
        except SpoolInUse:
            self._open(key, path)
            await follow_spool(source.name, lambda: path.stat().st_size, lambda e: self._told(key, e))
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

    def _follower(self, source: Source, spool: Spool) -> Follower:
        profile, runtime = self.session.profile, self.session.runtime
        spec, host = profile.host(source.host), self.session.hosts[source.host]
        key = key_of(source)

        def build(text: str, why: str) -> Command:
            inside = source.reach is Reach.ENVIRONMENT
            return runtime.script(spec, text, why) if inside else runtime.host_script(spec, text, why)

        def told(event: FollowEvent) -> None:
            self._told(key, event)

        if source.reach is Reach.JOURNAL:
            kind = "container" if source.kind is Kind.CONTAINER else source.path
            return JournalFollower(source.name, host, build, kind, source.path, spool, told)
        return Follower(source.name, host, build, source.path, spool, told)

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

    def tidy(self, run: str) -> None:
        """Remove the spools of runs long gone."""
        prune(spool_root(), self.session.profile.name, keep=RUNS_KEPT, current=(run, "host"))


def _read(path: Path, at: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(at)
            return file.read(CHUNK)
    except OSError:
        return b""
