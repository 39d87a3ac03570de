"""A log on this machine's disk, ready to be looked at: its file, its index, its marks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cockpit.logs.blocks import LogFile
from cockpit.logs.index import LineIndex
from cockpit.logs.marks import Mark, read_marks

if TYPE_CHECKING:
    from cockpit.logs.intake import Intake


@dataclass(slots=True)
class Log:
    """``name`` is what the reader knows it by. ``stale`` tells that the file began anew (became shorter, or
    another one has its name): what was learnt of it is void, ``reopen`` it. ``intake`` is what fills the file,
    where it is the copy of something that can't be read by position."""

    name: str
    file: LogFile
    index: LineIndex
    marks: tuple[Mark, ...] = ()
    stale: bool = False
    intake: Intake | None = None
    _ended: bool = False

    @classmethod
    def open(cls, path: Path, name: str = "") -> Log:
        """Open ``path``; raises ``OSError``."""
        file = LogFile(path)
        return cls(name or path.name, file, LineIndex(file), read_marks(path))

    @classmethod
    def taking_in(cls, intake: Intake, name: str) -> Log:
        """The copy that ``intake`` makes; raises ``OSError``."""
        log = cls.open(intake.path, name)
        log.intake = intake
        return log

    def reopen(self) -> Log:
        """The file that has the path now; raises ``OSError`` where there is none."""
        if self.intake is not None:
            return Log.taking_in(self.intake, self.name)
        return Log.open(self.file.path, self.name)

    @property
    def changed_at(self) -> float:
        """When the log was last changed, in seconds since the epoch."""
        if self.intake is not None and self.intake.changed_at is not None:
            return self.intake.changed_at
        return self.file.path.stat().st_mtime

    def refresh(self) -> bool:
        """Look for growth, or that there will be no more; whether there is any."""
        before, ended = self.file.size, self._ended
        self._ended = self.intake is not None and self.intake.ended
        self.stale = self.stale or not self.file.refresh()
        if self.stale or (self.file.size == before and ended is self._ended):
            return False
        self.marks = self.intake.marks if self.intake is not None else read_marks(self.file.path)
        return True

    def marks_between(self, start: int, end: int) -> tuple[Mark, ...]:
        """The marks at ``start`` and after, before ``end``."""
        return tuple(mark for mark in self.marks if start <= mark.at < end) if self.marks else ()

    def close(self) -> None:
        """Close the file."""
        self.file.close()
