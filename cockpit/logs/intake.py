"""What can't be read by position, a pipe or a compressed file, taken into a file that can.

The copy is a temporary file without a name: it is gone when the program ends, however it ends.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Final

from cockpit.logs.marks import Mark
from cockpit.logs.unpack import SNIFFED, Damaged, packed_as, undecided, unpacked

_READ: Final = 256 * 1024


def descriptor_path(fd: int) -> Path:
    """A path that opens what the descriptor ``fd`` has open."""
    return Path(f"/dev/fd/{fd}")


def temporary_folder() -> Path | None:
    """Where large temporary files go: ``TMPDIR``, else /var/tmp, for /tmp may be memory; None: the system's own."""
    large = Path("/var/tmp")
    return large if "TMPDIR" not in os.environ and os.access(large, os.W_OK | os.X_OK) else None


class Intake:
    """Copies ``source`` (a path, or an open descriptor) in the background, unpacked where it is packed.

    ``path`` names the copy, which grows. ``fault`` says in words why it is not whole, "" while nothing is known
    against it. Raises ``OSError`` where no temporary file can be made.
    """

    def __init__(
        self, source: Path | int, *, total: int | None = None, changed_at: float | None = None
    ) -> None:
        self.total = total
        self.changed_at = changed_at
        self.taken = self.size = 0
        self.packed = ""
        self.ended = False
        self.fault = ""
        self._source = source
        self._stop = Event()
        self._copy = tempfile.TemporaryFile(dir=temporary_folder())  # noqa: SIM115 - open as long as the view
        self.path = descriptor_path(self._copy.fileno())
        self._thread = Thread(target=self._run, name="intake", daemon=True)
        self._thread.start()

    @classmethod
    def of_file(cls, path: Path) -> Intake:
        """Of a compressed file."""
        status = path.stat()
        return cls(path, total=status.st_size, changed_at=status.st_mtime)

    def words(self) -> tuple[str, ...]:
        """How it stands, for the screen: in full, and shorter."""
        size = f"{self.size:,} bytes"
        if self.fault:
            return f"{self.fault}; {size} of it", self.fault, f"{size} of it"
        if self.ended:
            return (f"unpacked, {size}" if self.packed else f"read to its end, {size}"), size
        if self.packed and self.total:
            share = f"unpacking {100 * self.taken / self.total:.0f} %"
            return f"{share}, {size} so far", share
        return f"{'unpacking' if self.packed else 'reading'}, {size} so far", size

    @property
    def marks(self) -> tuple[Mark, ...]:
        """What is missing at the end."""
        return (Mark(self.size, self.fault),) if self.fault else ()

    def close(self) -> None:
        """Stop, and let go of the copy. One whose source is silent stays until the program ends."""
        self._stop.set()
        self._thread.join(1.0)
        if not self._thread.is_alive():
            self._copy.close()

    def _run(self) -> None:
        fault = ""
        try:
            fd = self._source if isinstance(self._source, int) else os.open(self._source, os.O_RDONLY)
            with open(fd, "rb", buffering=0, closefd=not isinstance(self._source, int)) as file:
                self._take(self._pieces(file.fileno()))
        except Damaged as error:
            fault = f"{error}"
        except OSError as error:
            fault = f"it could be read no further: {error.strerror or error}"
        self.fault = fault
        self.ended = True

    def _pieces(self, fd: int) -> Iterator[bytes]:
        while not self._stop.is_set() and (data := os.read(fd, _READ)):
            self.taken += len(data)
            yield data

    def _take(self, pieces: Iterator[bytes]) -> None:
        first = b""
        while undecided(first) and (data := next(pieces, b"")):
            first += data
        self.packed = packed_as(first)

        def whole() -> Iterator[bytes]:
            yield first
            yield from pieces

        for data in unpacked(self.packed, whole()) if self.packed else whole():
            self._write(data)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view and not self._stop.is_set():
            try:
                written = os.write(self._copy.fileno(), view)
            except OSError as error:
                raise Damaged(f"the copy here ends: {error.strerror or error}") from error
            self.size += written
            view = view[written:]


def packed_file(path: Path) -> str:
    """How the file is packed, "" where it is not. Raises ``OSError``."""
    with path.open("rb") as file:
        return packed_as(file.read(SNIFFED))


def standard_input() -> int:
    """What is piped to standard input, as another descriptor; standard input is the terminal from then on.

    Raises ``OSError`` where there is no terminal.
    """
    terminal = os.open("/dev/tty", os.O_RDWR)
    try:
        piped = os.dup(0)
        os.set_inheritable(piped, False)
        os.dup2(terminal, 0)
    finally:
        with contextlib.suppress(OSError):
            os.close(terminal)
    return piped
