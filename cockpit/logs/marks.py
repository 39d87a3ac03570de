"""What is told beside a spool: which file of the host each stretch of it came from, and where bytes are missing.

A small JSON file has it, the *sidecar*; a reader of the spool takes the marks from there.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cockpit.logs.held import held_of
from cockpit.logs.sanitise import clean


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
        """The mark in words, safe to show: a kind that is not known is a host's own word."""
        what = {
            "truncated": "the file was truncated on the host",
            "replaced": "the file was replaced on the host",
            "rotated": "the file was rotated on the host",
            "gone": "the source had already dropped them",
            "remade": "the container was removed, and another has its place",
            "restarted": "the host, or the container that holds the file, was restarted",
            "full": "the disk here is full, and they are still on the host",
        }.get(self.kind, clean(self.kind))
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


@dataclass(slots=True)
class Sidecar:
    """All of it."""

    stretches: list[Stretch] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    cursor: Cursor | None = None

    @classmethod
    def read(cls, path: Path) -> Sidecar:
        """What the sidecar at ``path`` tells; one that is absent or damaged tells nothing."""
        try:
            told: Any = json.loads(path.read_text(encoding="utf-8"))
            cursor = told["cursor"]
            return cls(
                [Stretch(**stretch) for stretch in told["stretches"]],
                [Mark(**mark) for mark in told["marks"]],
                Cursor(**cursor) if cursor else None,
            )
        except (OSError, ValueError, KeyError, TypeError):
            return cls()

    def write(self, path: Path) -> None:
        """Put it in the place of the one at ``path``, whole or not at all. Raises ``OSError``."""
        text = json.dumps(
            {
                "schema": 1,
                "stretches": [asdict(stretch) for stretch in self.stretches],
                "marks": [asdict(mark) for mark in self.marks],
                "cursor": asdict(self.cursor) if self.cursor else None,
            }
        )
        new = path.with_suffix(".new")
        with new.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)


def sidecar_path(spool: Path) -> Path:
    """Where the sidecar of a spool is."""
    return spool.with_suffix(".json")


def read_marks(path: Path) -> tuple[Mark, ...]:
    """The marks of a spool file, for a reader; none where nothing is told of it. What the full disk here could
    not take, and memory neither, is marked too."""
    marks = tuple(Sidecar.read(sidecar_path(path)).marks)
    with contextlib.suppress(OSError):
        held = held_of(path.stat())
        if held is not None and held.dropped:
            marks = (*marks, Mark(held.at, "full", held.dropped, True))
    return marks
