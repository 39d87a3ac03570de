"""Random reads of a log file, a few blocks of which stay in memory."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Final, Self

from cockpit.logs.held import held_of

BLOCK: Final = 64 * 1024
_KEPT: Final = 64


class LogFile:
    """An open file, read by position; safe to use from several threads.

    ``size`` is what ``refresh`` last saw. The file may grow; bytes that were read are taken not to change
    (what is followed on a host lands in an append-only spool; ``refresh`` tells when a local file shrank).
    What a spool holds in memory because the disk is full is read as the file's end.
    Raises ``OSError`` when the file can't be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._kept: OrderedDict[int, bytes] = OrderedDict()
        self._lock = Lock()
        self._held = held_of(os.fstat(self._fd))
        self._dropped = self._held.dropped if self._held else 0
        self.size = self._size_now()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; reading it afterwards raises ``OSError``."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def refresh(self) -> bool:
        """Look at the size again; False when the file has become shorter (all that was known of it is void)."""
        size = self._size_now()
        shrank = size < self.size or (self._held is not None and self._held.dropped != self._dropped)
        if shrank:
            with self._lock:
                self._kept.clear()
        self.size = size
        return not shrank

    def _size_now(self) -> int:
        status = os.fstat(self._fd)
        self._held = held_of(status)
        return max(status.st_size, self._held.end) if self._held else status.st_size

    @property
    def dropped(self) -> int:
        """How many bytes are missing before those that are held in memory alone."""
        return self._dropped

    @property
    def held_from(self) -> int | None:
        """Where the bytes begin that are held in memory alone; None where all are on the disk."""
        return self._held.at if self._held else None

    def _pread(self, size: int, start: int) -> bytes:
        data = os.pread(self._fd, size, start)
        if self._held is not None and len(data) < size:
            data += self._held.read(start + len(data), size - len(data))
        return data

    def moved(self) -> bool:
        """Whether the path now names another file, or none."""
        try:
            there, here = self.path.stat(), os.fstat(self._fd)
        except OSError:
            return True
        return (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino)

    def block(self, number: int) -> bytes:
        """Block ``number`` of 64 KiB, as much of it as there is."""
        with self._lock:
            data = self._kept.get(number)
            if data is not None and (len(data) == BLOCK or number * BLOCK + len(data) >= self.size):
                self._kept.move_to_end(number)
                return data
        data = self._pread(BLOCK, number * BLOCK)
        with self._lock:
            self._kept[number] = data
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return data

    def read(self, start: int, end: int) -> bytes:
        """The bytes from ``start`` up to ``end``, fewer at the end of the file."""
        start, end = max(0, start), min(end, self.size)
        if end <= start:
            return b""
        first, last = start // BLOCK, (end - 1) // BLOCK
        if last - first > 4:
            return self._read_through(start, end)
        if first == last:
            return self.block(first)[start - first * BLOCK : end - first * BLOCK]
        joined = b"".join(self.block(number) for number in range(first, last + 1))
        return joined[start - first * BLOCK : end - first * BLOCK]

    def _read_through(self, start: int, end: int) -> bytes:
        parts: list[bytes] = []
        while start < end:
            part = self._pread(end - start, start)
            if not part:
                break
            parts.append(part)
            start += len(part)
        return b"".join(parts)

    def read_into(self, buffer: bytearray, start: int) -> int:
        """Fill ``buffer`` from ``start`` on, past the kept blocks; the number of bytes read, 0 at the end."""
        if self._held is None and hasattr(os, "preadv"):
            return os.preadv(self._fd, [buffer], start)
        data = self._pread(len(buffer), start)
        buffer[: len(data)] = data
        return len(data)

    def find(self, byte: bytes, start: int, end: int) -> int:
        """The position of the first ``byte`` in ``start`` … ``end``, or -1."""
        for number in range(start // BLOCK, (max(start, end) + BLOCK - 1) // BLOCK):
            base = number * BLOCK
            at = self.block(number).find(byte, max(0, start - base), end - base)
            if at >= 0:
                return base + at
        return -1

    def rfind(self, byte: bytes, start: int, end: int) -> int:
        """The position of the last ``byte`` in ``start`` … ``end``, or -1."""
        for number in range((end - 1) // BLOCK, start // BLOCK - 1, -1):
            base = number * BLOCK
            at = self.block(number).rfind(byte, max(0, start - base), end - base)
            if at >= 0:
                return base + at
        return -1

    def pieces(self, start: int, end: int, size: int = 1 << 20) -> Iterator[bytes]:
        """The exact bytes of ``start`` … ``end``, in pieces of at most ``size``, for copying and saving."""
        while start < end:
            piece = self._pread(min(size, end - start), start)
            if not piece:
                return
            yield piece
            start += len(piece)
