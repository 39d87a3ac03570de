"""The spool: an exact local copy of a source, append-only, one for each run, host and source.

The spool file is the truth of how much was read: it holds the source's bytes and nothing else. A small JSON
file beside it tells which file of the host each stretch came from, and where bytes are missing. A stretch is
written down before its first byte is, so that a crash at any point leaves both in agreement.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from cockpit.logs.held import Held, held_of, hold
from cockpit.model.errors import CockpitError

CHECKED: Final = 4096
"""How many bytes before the offset are compared when a file is resumed."""
KEPT: Final = 8 * 1024 * 1024
"""How many of the last bytes stay in memory while the disk here is full."""
RUNS_KEPT: Final = 10
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class SpoolInUse(CockpitError):
    """Another cockpit of this user writes the spool: read it, don't write it."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Bytes are missing, or the file changed, at offset ``at`` of the spool.

    ``kind`` is truncated, replaced, rotated, gone, remade, restarted or full; ``size`` bytes were lost, or at least as
    many where ``exact`` is false. A mark with an exact size of 0 says that the file or its host changed and
    nothing was lost.
    """

    at: int
    kind: str
    size: int = 0
    exact: bool = False

    def words(self) -> str:
        """The mark in words."""
        what = {
            "truncated": "the file was truncated on the host",
            "replaced": "the file was replaced on the host",
            "rotated": "the file was rotated on the host",
            "gone": "the source had already dropped them",
            "remade": "the container was removed, and another has its place",
            "restarted": "the host, or the container that holds the file, was restarted",
            "full": "the disk here is full, and they are still on the host",
        }.get(self.kind, self.kind)
        if self.exact and not self.size:
            return f"{what}; nothing is missing"
        if not self.exact and not self.size:
            return f"{what}; how many bytes are missing here cannot be known"
        return f"{'' if self.exact else 'at least '}{self.size:,} bytes are missing here: {what}"


@dataclass(frozen=True, slots=True)
class Stretch:
    """From offset ``at`` of the spool on, the bytes come from this file on the host, from ``start`` of it.
    ``boot`` tells one start of the host, or of the container that holds the file, from another; "" where that
    is not known."""

    at: int
    device: int
    inode: int
    start: int = 0
    boot: str = ""


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a source without offsets (journal, container) was when the spool had ``at`` bytes."""

    at: int
    value: str


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """Where to go on: the host's file and offset, and the ``size`` bytes before it by their SHA-256. ``device``
    and ``inode`` are None where nothing was read yet."""

    offset: int = 0
    size: int = 0
    digest: str = "-"
    device: int | None = None
    inode: int | None = None


@dataclass(slots=True)
class _Sidecar:
    stretches: list[Stretch] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    cursor: Cursor | None = None


def safe_name(text: str) -> str:
    """``text`` as the name of a file: whatever is unusual in it is replaced, and told apart by a hash."""
    name = re.sub(r"[^A-Za-z0-9._+-]", "_", text).lstrip(".")[:100]
    return (
        name
        if name and name == text
        else f"{name}-{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    )


def spool_root() -> Path:
    """The folder of all spools."""
    from platformdirs import user_state_path

    return user_state_path("spark-cockpit") / "spool"


def spool_path(root: Path, profile: str, run: str, host: str, source: str) -> Path:
    """Where the spool of one source is."""
    return root / safe_name(profile) / safe_name(run) / safe_name(host) / f"{safe_name(source)}.log"


def read_marks(path: Path) -> tuple[Mark, ...]:
    """The marks of a spool file, for a reader; none where nothing is told of it. What the full disk here could
    not take, and memory neither, is marked too."""
    marks = tuple(_read(_sidecar_path(path)).marks)
    with contextlib.suppress(OSError):
        held = held_of(path.stat())
        if held is not None and held.dropped:
            marks = (*marks, Mark(held.at, "full", held.dropped, True))
    return marks


class Spool:
    """One spool, open for writing. Raises ``SpoolInUse`` when it is written already."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.full = ""
        """Why nothing can be written here at present, "" when it can."""
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._fd)
            raise SpoolInUse(f"{path} is written by another cockpit.") from error
        self.size = os.fstat(self._fd).st_size
        self._sidecar = _read(_sidecar_path(path))
        self._forget_lost_tail()
        self._held: Held | None = None
        self._untold = False
        """Whether the sidecar could not be written: no byte may be, before it is."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close it; another cockpit may write it then."""
        if self._fd >= 0:
            self.forget_waiting()
            os.close(self._fd)
            self._fd = -1

    @property
    def marks(self) -> tuple[Mark, ...]:
        """Where bytes are missing."""
        return tuple(self._sidecar.marks)

    @property
    def waiting(self) -> bytes:
        """The last bytes read that the full disk could not take."""
        return self._held.first(len(self._held)) if self._held else b""

    @property
    def dropped(self) -> int:
        """Bytes that neither the disk here nor memory could hold; they are read again from the host."""
        return self._held.dropped if self._held else 0

    @property
    def reached(self) -> int:
        """How far the source was read, in bytes of the spool: on the disk, in memory, or neither."""
        return self._held.end + self._held.dropped if self._held else self.size

    def _forget_lost_tail(self) -> None:
        """After a power failure here the file may end before what the sidecar tells of."""
        side = self._sidecar
        side.stretches = [stretch for stretch in side.stretches if stretch.at <= self.size]
        side.marks = [mark for mark in side.marks if mark.at <= self.size]
        if side.cursor and side.cursor.at > self.size:
            side.cursor = None

    # Files

    def resume_point(self) -> ResumePoint:
        """Where to go on in the host's file."""
        if not self._sidecar.stretches:
            return ResumePoint()
        stretch = self._sidecar.stretches[-1]
        read = self.size - stretch.at
        size = min(CHECKED, read)
        before = os.pread(self._fd, size, self.size - size)
        return ResumePoint(
            stretch.start + read, size, sha256(before).hexdigest(), stretch.device, stretch.inode
        )

    def begin(
        self, device: int, inode: int, offset: int, gap: Mark | None = None, boot: str = ""
    ) -> Mark | None:
        """What comes next is read from ``offset`` of that file; ``gap`` says what lies between. Returns the mark
        that was made: ``gap``, or that the host was restarted since."""
        point = self.resume_point()
        before = self._sidecar.stretches[-1].boot if self._sidecar.stretches else ""
        if gap is None and before and boot and before != boot:
            gap = Mark(self.size, "restarted", 0, True)
        same = (point.device, point.inode, point.offset, before) == (device, inode, offset, boot)
        if gap is None and same:
            return None
        if gap is not None:
            self._sidecar.marks.append(gap)
        self._sidecar.stretches.append(Stretch(self.size, device, inode, offset, boot))
        self._write_sidecar()
        return gap

    # Journals

    @property
    def cursor(self) -> Cursor | None:
        """Where a source without offsets was left."""
        return self._sidecar.cursor

    def set_cursor(self, value: str) -> None:
        """All bytes so far belong before ``value``."""
        self._sidecar.cursor = Cursor(self.size, value)
        self._write_sidecar()

    def back_to_cursor(self) -> None:
        """Take back what was written after the cursor: it comes again."""
        at = self.cursor.at if self.cursor else 0
        if at < self.size:
            os.ftruncate(self._fd, at)
            self.size = at

    def mark(self, kind: str, size: int = 0, exact: bool = False) -> Mark:
        """Write down that bytes are missing here."""
        mark = Mark(self.size, kind, size, exact)
        self._sidecar.marks.append(mark)
        self._write_sidecar()
        return mark

    # Bytes

    def append(self, data: bytes) -> bool:
        """Add ``data``; False when the disk is full, and the last bytes are kept in memory alone."""
        if self._untold:
            self._write_sidecar()
        if self._held is not None or self._untold:
            self._hold(data)
            return False
        left = self._write(data)
        if left:
            self._hold(left)
        return not left

    def retry(self) -> bool:
        """Try again what waits in memory; True when all of it is written and nothing was dropped."""
        if self._untold:
            self._write_sidecar()
        held = self._held
        if held is None or self._untold:
            return not self._untold
        if held.dropped:
            return False
        data = held.first(len(held))
        left = self._write(data)
        held.written(len(data) - len(left))
        if left:
            return False
        self.forget_waiting()
        return True

    def forget_waiting(self) -> None:
        """Give up what waits in memory: it is read again from the host."""
        if self._held is not None:
            hold(os.fstat(self._fd), None)
            self._held = None
        if not self._untold:
            self.full = ""

    def has_room(self) -> bool:
        """Whether the disk takes bytes again."""
        status = os.statvfs(self.path)
        return status.f_bavail * status.f_frsize > 2 * KEPT

    def _write(self, data: bytes) -> bytes:
        """Write ``data``; what could not be written comes back."""
        view = memoryview(data)
        while view:
            try:
                written = os.write(self._fd, view)
            except OSError as error:
                if error.errno not in _FULL:
                    raise
                self.full = f"{self.path}: {os.strerror(error.errno)}"
                return bytes(view)
            self.size += written
            view = view[written:]
        self.full = ""
        return b""

    def _hold(self, data: bytes) -> None:
        if self._held is None:
            self._held = Held(self.size)
            hold(os.fstat(self._fd), self._held)
        self._held.add(data)
        if len(self._held) > KEPT:
            self._held.drop(len(self._held) - KEPT // 2)

    def _write_sidecar(self) -> None:
        path = _sidecar_path(self.path)
        side = self._sidecar
        text = json.dumps(
            {
                "schema": 1,
                "stretches": [asdict(stretch) for stretch in side.stretches],
                "marks": [asdict(mark) for mark in side.marks],
                "cursor": asdict(side.cursor) if side.cursor else None,
            }
        )
        new = path.with_suffix(".new")
        try:
            with new.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            if error.errno not in _FULL:
                raise
            self.full, self._untold = f"{new}: {os.strerror(error.errno)}", True
            return
        new.replace(path)
        self._untold = False


def _sidecar_path(path: Path) -> Path:
    return path.with_suffix(".json")


def _read(path: Path) -> _Sidecar:
    """What the sidecar tells; one that is absent or damaged tells nothing."""
    try:
        told: Any = json.loads(path.read_text(encoding="utf-8"))
        cursor = told["cursor"]
        return _Sidecar(
            [Stretch(**stretch) for stretch in told["stretches"]],
            [Mark(**mark) for mark in told["marks"]],
            Cursor(**cursor) if cursor else None,
        )
    except (OSError, ValueError, KeyError, TypeError):
        return _Sidecar()


def runs_kept() -> int:
    """Of how many runs a profile's spools are kept: ``SPARK_COCKPIT_RUNS_KEPT``, 10 where that is no number."""
    told = os.environ.get("SPARK_COCKPIT_RUNS_KEPT", "")
    return max(1, int(told)) if told.isdecimal() and len(told) < 7 else RUNS_KEPT


def prune(root: Path, profile: str, *, keep: int, current: Sequence[str] = ()) -> list[str]:
    """Remove the spools of all but the ``keep`` latest runs of ``profile``; the names of those removed.

    Never removes a run named in ``current``, nor one that is being written.
    """
    folder = root / safe_name(profile)
    spared = {safe_name(run) for run in current}
    runs = sorted(
        folder.iterdir() if folder.is_dir() else [], key=lambda run: run.stat().st_mtime, reverse=True
    )
    removed: list[str] = []
    for run in runs[keep:]:
        if run.name not in spared and not any(_in_use(path) for path in run.rglob("*.log")):
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(run)
            removed.append(run.name)
    return removed


def _in_use(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False
