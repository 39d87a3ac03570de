"""Preflight verdicts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from cockpit.model.finding import Fix


class Grade(StrEnum):
    """Ready; slow (works, but badly); blocked; unknown (could not be asked)."""

    READY = "ready"
    SLOW = "slow"
    BLOCKED = "blocked"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One preflight answer: what was observed on which hosts, why it matters, the remedy in words
    and, where the profile can be mended, as changes."""

    id: str
    hosts: tuple[str, ...]
    grade: Grade
    observed: str
    why: str = ""
    remedy: str = ""
    fix: tuple[Fix, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The verdict as the command line's contract has it."""
        return {
            "id": self.id,
            "hosts": list(self.hosts),
            "grade": self.grade.value,
            "observed": self.observed,
            "why": self.why,
            "remedy": self.remedy,
            "fix": [fix.to_json() for fix in self.fix],
        }
