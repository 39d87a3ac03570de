"""The bytes of a source that the full disk here can't take: kept in memory, and read as the end of their file.

A spool registers what it holds under its file's device and inode; ``blocks.LogFile`` finds it there, so that
whoever shows the file shows these bytes too.
"""

from __future__ import annotations

from os import stat_result
from typing import Final


class Held:
    """The bytes that come after offset ``at`` of the file. ``dropped`` bytes between the two are not here: they
    are still on the host. One thread changes it while others read."""

    def __init__(self, at: int) -> None:
        self.dropped = 0
        self._state = (at, bytearray())

    @property
    def at(self) -> int:
        """Where the file on the disk ends."""
        return self._state[0]

    @property
    def end(self) -> int:
        """The offset after the last byte, as a reader of the file counts."""
        at, data = self._state
        return at + len(data)

    def __len__(self) -> int:
        return len(self._state[1])

    def add(self, data: bytes) -> None:
        """Hold more."""
        self._state[1].extend(data)

    def first(self, size: int) -> bytes:
        """The first ``size`` bytes."""
        return bytes(self._state[1][:size])

    def written(self, size: int) -> None:
        """The first ``size`` bytes are on the disk now."""
        at, data = self._state
        self._state = (at + size, data[size:])

    def drop(self, size: int) -> None:
        """Forget the first ``size`` bytes."""
        at, data = self._state
        self._state = (at, data[size:])
        self.dropped += size

    def read(self, start: int, size: int) -> bytes:
        """Up to ``size`` bytes from the offset ``start`` on."""
        at, data = self._state
        return bytes(data[start - at : start - at + size]) if start >= at else b""


_HELD: Final[dict[tuple[int, int], Held]] = {}


def hold(status: stat_result, held: Held | None) -> None:
    """``held`` belongs to the file with this status; None: nothing does any more."""
    key = (status.st_dev, status.st_ino)
    if held is None:
        _HELD.pop(key, None)
    else:
        _HELD[key] = held


def held_of(status: stat_result) -> Held | None:
    """What is held of the file with this status."""
    return _HELD.get((status.st_dev, status.st_ino)) if _HELD else None
