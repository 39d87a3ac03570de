"""Findings, problems and fixes: what was diagnosed, and what would mend it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cockpit.model.profile import Place


class Severity(StrEnum):
    """How bad it is."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Confidence(StrEnum):
    """How sure a finding is."""

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"


@dataclass(frozen=True, slots=True)
class Fix:
    """One change, in words and as data.

    ``change`` is None or one of ``{"set": {"serve.flags.NAME": value}}``,
    ``{"unset": ["serve.flags.NAME"]}``, ``{"run": {"host": name, "argv": [...]}}``.
    """

    text: str
    change: dict[str, Any] | None = None

    @property
    def of_profile(self) -> bool:
        """Whether it is a change of the profile that can be applied."""
        return self.change is not None and ("set" in self.change or "unset" in self.change)

    def to_json(self) -> dict[str, Any]:
        """The fix as the command line's contract has it."""
        return {"text": self.text, "change": self.change}


@dataclass(frozen=True, slots=True)
class Evidence:
    """The decisive line: ``file`` as the reader can open it, ``line`` counted by ``\\n`` from 1."""

    file: str
    line: int
    text: str

    def to_json(self) -> dict[str, Any]:
        """The evidence as the command line's contract has it."""
        return {"file": self.file, "line": self.line, "text": self.text}


@dataclass(frozen=True, slots=True)
class Finding:
    """A diagnosed cause: what, where, how sure, what to change. ``kind`` is one of the contract's list."""

    kind: str
    severity: Severity
    cause: str
    confidence: Confidence
    host: str = ""
    fix: tuple[Fix, ...] = ()
    evidence: tuple[Evidence, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The finding as the command line's contract has it."""
        return {
            "kind": self.kind,
            "severity": self.severity.value,
            "host": self.host or None,
            "cause": self.cause,
            "fix": [fix.to_json() for fix in self.fix],
            "confidence": self.confidence.value,
            "evidence": [evidence.to_json() for evidence in self.evidence],
        }


@dataclass(frozen=True, slots=True)
class Read:
    """A log that was read: its ``role`` as ``diagnosis.sources`` has it, the launch that it belongs to (from 1, the
    newest first; None where it tells of no single one), and how that one went."""

    file: str
    role: str
    host: str
    launch: int | None
    status: str

    def to_json(self) -> dict[str, Any]:
        """The log as the command line's contract has it."""
        return {
            "file": self.file,
            "role": self.role,
            "host": self.host or None,
            "launch": self.launch,
            "status": self.status,
        }


@dataclass(frozen=True, slots=True)
class Explanation:
    """What the logs say. ``status`` is failed, stalled, loading, ok, stopped or unknown; ``next`` is what to
    collect or try when the logs don't tell; ``read`` is which logs were read. The best finding comes first."""

    status: str
    findings: tuple[Finding, ...] = ()
    next: tuple[str, ...] = ()
    read: tuple[Read, ...] = field(default=(), compare=False)

    @property
    def fault(self) -> bool:
        """Whether something is wrong; notes alone (an operator's stop) are no fault."""
        return any(finding.severity is not Severity.NOTE for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """The explanation as the command line's contract has it."""
        return {
            "status": self.status,
            "findings": [finding.to_json() for finding in self.findings],
            "next": list(self.next),
            "read": [one.to_json() for one in self.read],
        }


@dataclass(frozen=True, slots=True)
class Problem:
    """One answer of the flag checks: a flag of the profile, why it can't stand, and what mends it."""

    flag: str
    severity: Severity
    message: str
    why: str = ""
    fix: tuple[Fix, ...] = field(default=())
    place: Place | None = None

    def to_json(self) -> dict[str, Any]:
        """The problem as the command line's contract has it."""
        return {
            "flag": self.flag,
            "severity": self.severity.value,
            "message": self.message,
            "why": self.why,
            "fix": [fix.to_json() for fix in self.fix],
            "file": self.place.file if self.place else None,
            "line": self.place.line if self.place else None,
            "column": self.place.column if self.place else None,
        }


def profile_fixes(problems: Iterable[Problem]) -> tuple[Fix, ...]:
    """The changes of the profile that errors and warnings propose: of each problem the first, each key once."""
    chosen: list[Fix] = []
    touched: set[str] = set()
    for problem in problems:
        for fix in problem.fix if problem.severity is not Severity.NOTE else ():
            change = fix.change or {}
            keys = {*change.get("set", {}), *change.get("unset", ())}
            if keys and not keys & touched:
                chosen.append(fix)
                touched |= keys
                break
    return tuple(chosen)
