"""Following a source on a host into its spool, for as long as it takes.

``Follower.run`` never ends by itself: a lost link, a host that is down, a source that is not there yet are
told and tried again. Watchers get events; the bytes are in the spool.
"""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

from cockpit.hosts.errors import AuthenticationFailed, HostConfigError, HostError, HostKeyError
from cockpit.hosts.host import Host, Stream
from cockpit.logs.frames import Data, FrameError, Frames, Note
from cockpit.logs.marks import Mark
from cockpit.logs.spool import Spool
from cockpit.model.command import Command
from cockpit.model.errors import CockpitError

LEASE: Final = 900
"""Seconds after which a follower on a host ends by itself, to be started anew where it stopped: one whose
reader vanished without a trace must not stay."""
SILENCE: Final = 15.0
"""Seconds without a byte (a follower says every 3 that it lives) after which the link counts as lost."""
_DELAYS: Final = (0.2, 0.5, 1.0, 2.0, 5.0)
_LOOK_AT_DISK: Final = 1.0

Build = Callable[[str, str], Command]
"""Makes a command of sh text and why it is run: ``Runtime.script`` or ``host_script`` for one host."""


@dataclass(frozen=True, slots=True)
class Grown:
    """The spool now has ``size`` bytes."""

    source: str
    size: int


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """The spool holds all that the source has at present: ``size`` bytes."""

    source: str
    size: int


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes are missing, or the file changed, on the host."""

    source: str
    mark: Mark


@dataclass(frozen=True, slots=True)
class Lost:
    """Nothing comes from the host since ``since`` (seconds since the epoch); it is tried again."""

    source: str
    since: float
    why: str


@dataclass(frozen=True, slots=True)
class Resumed:
    """Bytes come again, or for the first time, after ``after`` seconds without."""

    source: str
    after: float


@dataclass(frozen=True, slots=True)
class Waiting:
    """There is no such file on the host yet, or any more; it is picked up when it appears."""

    source: str


@dataclass(frozen=True, slots=True)
class Full:
    """The disk here takes no more: the last bytes are kept in memory, the rest stays on the host."""

    source: str
    why: str


@dataclass(frozen=True, slots=True)
class HasRoom:
    """The disk here takes bytes again."""

    source: str


FollowEvent = Grown | CaughtUp | Gap | Lost | Resumed | Waiting | Full | HasRoom


class _StartAnew(Exception):
    """The follower on the host has to be started again, at the spool's end."""


class _NoRoom(Exception):
    """Nothing more can be taken before the disk here has room."""


def remote_text(module: str, *arguments: str) -> str:
    """sh text that runs a module of this room on a host, by the host's ``python3``."""
    code = files("cockpit.logs").joinpath(f"{module}.py").read_text(encoding="utf-8")
    words = " ".join(shlex.quote(argument) for argument in arguments)
    return f"exec python3 -c {shlex.quote(code)} {words}\n"


class Follower:
    """Follows one file on ``host`` into ``spool``. ``build`` makes the command where the file lives."""

    def __init__(
        self,
        source: str,
        host: Host,
        build: Build,
        path: str,
        spool: Spool,
        tell: Callable[[FollowEvent], None],
        *,
        lease: int = LEASE,
    ) -> None:
        self.source = source
        self.spool = spool
        self._host = host
        self._build = build
        self._path = path
        self._tell = tell
        self._lease = lease
        self._lost_since: float | None = time.time()
        self._attempt = 0
        self._gap: Mark | None = None
        self._told_size = spool.reached
        self._full = False

    async def run(self) -> None:
        """Follow until cancelled. Raises ``HostKeyError``, ``AuthenticationFailed`` or ``HostConfigError``,
        which no waiting mends."""
        while True:
            try:
                await self._host.connect()
                await self._prepare()
                async with self._host.open(self.command()) as stream:
                    await self._pump(stream)
            except _StartAnew:
                continue
            except _NoRoom:
                await self._room()
                continue
            except (HostKeyError, AuthenticationFailed, HostConfigError) as error:
                self._lose(error.message)
                raise
            except (CockpitError, TimeoutError, FrameError) as error:
                self._lose(_why(error))
            await asyncio.sleep(_DELAYS[min(self._attempt, len(_DELAYS) - 1)])
            self._attempt += 1

    async def _prepare(self) -> None:
        """What is to be known before the next start."""

    def command(self) -> Command:
        """What runs on the host next."""
        point = self.spool.resume_point()
        text = remote_text(
            "remote_follow",
            self._path,
            str(point.offset),
            str(point.size),
            point.digest,
            "-" if point.device is None else str(point.device),
            "-" if point.inode is None else str(point.inode),
            str(self._lease),
        )
        return self._build(text, f"follow {self._path}")

    async def _pump(self, stream: Stream) -> None:
        frames = Frames()
        self._gap = None
        while True:
            async with asyncio.timeout(SILENCE):
                data = await stream.read()
            if not data:
                raise HostError(self._host.name, await self._ending(stream))
            for frame in frames.feed(data):
                if isinstance(frame, Data):
                    self.spool.append(frame.data)
                else:
                    self._tell_growth()
                    self._note(frame)
            self._tell_growth()
            if self.spool.full:
                self._try_disk()
            self._tell_disk()

    def _tell_growth(self) -> None:
        if self.spool.reached != self._told_size:
            self._told_size = self.spool.reached
            self._tell(Grown(self.source, self.spool.reached))

    def _tell_disk(self) -> None:
        if bool(self.spool.full) is not self._full:
            self._full = bool(self.spool.full)
            self._tell(Full(self.source, self.spool.full) if self._full else HasRoom(self.source))

    def _try_disk(self) -> None:
        """See whether the disk here takes bytes again."""
        if not self.spool.retry() and self.spool.dropped and self.spool.has_room():
            self.spool.forget_waiting()
            self._tell_disk()
            raise _StartAnew

    async def _room(self) -> None:
        """Wait until the disk here has room for what waits, and for more."""
        self._tell_disk()
        while not self.spool.has_room():  # noqa: ASYNC110 - a disk tells nobody that it has room
            await asyncio.sleep(_LOOK_AT_DISK)
        if not self.spool.retry():
            self.spool.forget_waiting()
        self._tell_disk()

    def _note(self, note: Note) -> None:
        match note.kind, note.words:
            case "F", (device, inode, offset, boot):
                self._begin(int(device), int(inode), int(offset), boot.strip("-"))
            case "G", (kind, size, exact):
                self._gap = Mark(self.spool.size, kind, int(size), exact == "1")
            case "W", _:
                self._found()
                self._tell(Waiting(self.source))
            case "X", (why,):
                raise HostError(self._host.name, f"{why}.")
            case "L", _:
                raise _StartAnew
            case "E", _:
                self._tell(CaughtUp(self.source, self.spool.reached))
            case "H", _:
                pass
            case _:
                raise FrameError(f"{note.kind} {note.words}")

    def _begin(self, device: int, inode: int, offset: int, boot: str) -> None:
        if self.spool.full and not self.spool.retry():
            # What waits in memory belongs before the change: it must be on disk, or be read again, first.
            raise _NoRoom
        self._found()
        gap = self.spool.begin(device, inode, offset, self._gap, boot)
        self._gap = None
        if gap is not None:
            self._tell(Gap(self.source, gap))

    def _found(self) -> None:
        """The host answers."""
        self._attempt = 0
        if self._lost_since is not None:
            self._tell(Resumed(self.source, time.time() - self._lost_since))
            self._lost_since = None

    def _lose(self, why: str) -> None:
        if self._lost_since is None:
            self._lost_since = time.time()
        self._tell(Lost(self.source, self._lost_since, why))

    async def _ending(self, stream: Stream) -> str:
        """Why the follower on the host ended."""
        status = await stream.wait()
        if status == 97:
            return "the environment that holds this log does not run."
        if status == 127:
            return "python3 is needed there to follow a log, and is not installed."
        return f"the follower of {self._path} ended with status {status}."


def _why(error: Exception) -> str:
    if isinstance(error, CockpitError):
        return error.message
    if isinstance(error, TimeoutError):
        return f"no sign of life for {SILENCE:g} s"
    return f"what came from the host is no log: {error}"


class JournalFollower(Follower):
    """Follows a source that has a cursor instead of offsets: the kernel's log (``kind`` ``journal`` or
    ``kmsg``) or a container's (``container``, ``path`` being its id). ``locate`` gives the id of the container
    that has its place now, "" where there is none; it is asked before each start."""

    def __init__(
        self,
        source: str,
        host: Host,
        build: Build,
        kind: str,
        path: str,
        spool: Spool,
        tell: Callable[[FollowEvent], None],
        *,
        lease: int = LEASE,
        locate: Callable[[], Awaitable[str]] | None = None,
    ) -> None:
        super().__init__(source, host, build, path, spool, tell, lease=lease)
        self._kind = kind
        self._locate = locate

    async def _prepare(self) -> None:
        if self._locate is not None:
            self._path = await self._locate() or self._path

    def command(self) -> Command:
        """What runs on the host next."""
        cursor = self.spool.cursor
        text = remote_text(
            "remote_journal", self._kind, self._path, cursor.value if cursor else "-", str(self._lease)
        )
        return self._build(text, f"follow the log of the {self.source}")

    def _note(self, note: Note) -> None:
        match note.kind, note.words:
            case "K", (holds,):
                self._found()
                if holds == "1" or self.spool.cursor is None:
                    self.spool.back_to_cursor()
            case "C", (cursor,):
                if not self.spool.full:
                    self.spool.set_cursor(cursor)
            case "G", (kind, size, exact):
                self._tell(Gap(self.source, self.spool.mark(kind, int(size), exact == "1")))
            case _:
                super()._note(note)


async def follow_spool(source: str, path: Path, tell: Callable[[FollowEvent], None]) -> None:
    """Watch a spool that another cockpit writes: tells its growth, until cancelled."""
    size = -1
    while True:
        with suppress(FileNotFoundError):
            now = path.stat().st_size
            if now != size:
                size = now
                tell(Grown(source, size))
        await asyncio.sleep(0.2)
