"""Records as text for a person, and as JSON for a script. Every remote string is sanitised here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from cockpit.cli.output import name, say
from cockpit.hosts.quoting import join
from cockpit.logs.sanitise import clean
from cockpit.model.finding import Explanation, Finding, Fix, Problem
from cockpit.model.verdict import Grade, Verdict

SCHEMA = 1
_C1 = re.compile("[\x7f-\x9f]")

MARKS = {Grade.READY: "✓", Grade.SLOW: "~", Grade.BLOCKED: "✗", Grade.UNKNOWN: "?"}


answered: list[bool] = []
"""Whether an object was written: an error that comes after the answer is none of its own."""


def as_json(record: Mapping[str, Any]) -> None:
    """One JSON object on one line of standard output."""
    answered.append(True)
    text = json.dumps({"schema": SCHEMA, **record}, ensure_ascii=False, default=str)
    # json escapes C0 alone; a terminal obeys C1 too.
    say(_C1.sub(lambda found: f"\\u{ord(found.group()):04x}", text))


def safe(text: str) -> str:
    """Text for the terminal, line breaks kept."""
    return clean(text, multiline=True)


def indented(text: str, by: str = "    ") -> str:
    """Each line of ``text``, sanitised and moved in."""
    return "\n".join(by + line for line in safe(text).split("\n"))


def verdicts(found: Iterable[Verdict]) -> None:
    """Preflight verdicts, the bad ones with why they matter and what mends them."""
    for verdict in found:
        where = name(", ".join(verdict.hosts))
        say(f"{MARKS[verdict.grade]} {verdict.grade.value:<8} {where}: {safe(verdict.observed)}")
        # One that is ready may still have something to propose: an environment for the profile.
        if verdict.grade is not Grade.READY or verdict.fix:
            for text in (verdict.why, verdict.remedy):
                if text:
                    say(indented(text, "           "))


def problems(found: Iterable[Problem]) -> None:
    """Flag problems, each with its place in the profile and its fix."""
    for problem in found:
        place = f"{problem.place}: " if problem.place else ""
        say(f"{problem.severity.value}: {name(place)}{name(problem.flag)}: {safe(problem.message)}")
        if problem.why:
            say(indented(problem.why))
        for fix in problem.fix:
            say(indented(f"fix: {fix.text}"))


def finding(found: Finding) -> None:
    """One finding: the cause, its evidence, its fixes."""
    where = f" on {name(found.host)}" if found.host else ""
    say(f"{found.severity.value}{where} ({found.confidence.value}, {found.kind})")
    say(indented(found.cause, "  "))
    for evidence in found.evidence:
        say(f"  {name(evidence.file)}:{evidence.line}")
        say(indented(evidence.text))
    for fix in found.fix:
        say(indented(f"fix: {fix.text}", "  "))
        for line in change_lines(fix):
            say(indented(line, "    "))


def change_lines(fix: Fix) -> list[str]:
    """A fix's change as lines of a diff of the profile, or as the command on its host."""
    change = fix.change or {}
    lines = [f"- {name}" for name in change.get("unset", ())]
    lines += [
        f"+ {name}: {json.dumps(value, ensure_ascii=False)}" for name, value in change.get("set", {}).items()
    ]
    if "run" in change:
        lines.append(f"{change['run']['host']}$ {join(change['run']['argv'])}")
    return lines


def explanation(found: Explanation, diff: str = "") -> None:
    """An explanation: its status, its findings, what to collect next. ``diff`` is what the fix changes in the
    profile's file."""
    say(f"status: {found.status}")
    for item in found.findings:
        finding(item)
    if diff:
        say("change of the profile:")
        say(indented(diff, "  "))
    if found.next:
        say("next:")
        for text in found.next:
            say(indented(text, "  - "))
