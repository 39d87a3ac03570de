"""The spool: an exact local copy of a source, append-only, one for each run, host and source.

The spool file is the truth of how much was read: it holds the source's bytes and nothing else. A small JSON
file beside it tells which file of the host each stretch came from, and where bytes are missing. A stretch is
written down before its first byte is, so that a crash at any point leaves both in agreement.
"""

from __future__ import annotations

import errno
import fcntl
import os
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from cockpit.logs.held import Held, hold
from cockpit.logs.marks import Cursor, Mark, Sidecar, Stretch, sidecar_path
from cockpit.model.errors import CockpitError

CHECKED: Final = 4096
"""How many bytes before the offset are compared when a file is resumed."""
KEPT: Final = 8 * 1024 * 1024
"""How many of the last bytes stay in memory while the disk here is full."""
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class SpoolInUse(CockpitError):
    """Another cockpit of this user writes the spool: read it, don't write it."""


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """Where to go on: the host's file and offset, and the ``size`` bytes before it by their SHA-256. ``device``
    and ``inode`` are None where nothing was read yet."""

    offset: int = 0
    size: int = 0
    digest: str = "-"
    device: int | None = None
    inode: int | None = None


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
        self._sidecar = Sidecar.read(sidecar_path(path))
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
        path = sidecar_path(self.path)
        try:
            self._sidecar.write(path)
        except OSError as error:
            if error.errno not in _FULL:
                raise
            self.full, self._untold = f"{path}: {os.strerror(error.errno)}", True
            return
        self._untold = False
