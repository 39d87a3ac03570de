"""A log on this machine's disk, ready to be looked at: its file, its index, its marks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cockpit.logs.blocks import LogFile
from cockpit.logs.index import LineIndex
from cockpit.logs.spool import Mark, read_marks


@dataclass(slots=True)
class Log:
    """``name`` is what the reader knows it by. ``stale`` tells that the file began anew (became shorter, or
    another one has its name): what was learnt of it is void, ``reopen`` it."""

    name: str
    file: LogFile
    index: LineIndex
    marks: tuple[Mark, ...] = ()
    stale: bool = False

    @classmethod
    def open(cls, path: Path, name: str = "") -> Log:
        """Open ``path``; raises ``OSError``."""
        file = LogFile(path)
        return cls(name or path.name, file, LineIndex(file), read_marks(path))

    def reopen(self) -> Log:
        """The file that has the path now; raises ``OSError`` where there is none."""
        return Log.open(self.file.path, self.name)

    def refresh(self) -> bool:
        """Look for growth; whether there is any."""
        before = self.file.size
        self.stale = self.stale or not self.file.refresh()
        if self.stale or self.file.size == before:
            return False
        self.marks = read_marks(self.file.path)
        return True

    def marks_between(self, start: int, end: int) -> tuple[Mark, ...]:
        """The marks at ``start`` and after, before ``end``."""
        return tuple(mark for mark in self.marks if start <= mark.at < end) if self.marks else ()

    def close(self) -> None:
        """Close the file."""
        self.file.close()
