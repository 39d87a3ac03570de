"""Records as text for a person, and as JSON for a script. Every remote string is sanitised here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import click

from cockpit.bringup.runner import Planned
from cockpit.hosts.quoting import join
from cockpit.logs.sanitise import clean
from cockpit.model.finding import Explanation, Finding, Fix, Problem
from cockpit.model.verdict import Grade, Verdict

SCHEMA = 1
_C1 = re.compile("[\x7f-\x9f]")

MARKS = {Grade.READY: "✓", Grade.SLOW: "~", Grade.BLOCKED: "✗", Grade.UNKNOWN: "?"}


def as_json(record: Mapping[str, Any]) -> None:
    """One JSON object on one line of standard output."""
    text = json.dumps({"schema": SCHEMA, **record}, ensure_ascii=False, default=str)
    # json escapes C0 alone; a terminal obeys C1 too.
    click.echo(_C1.sub(lambda found: f"\\u{ord(found.group()):04x}", text))


def safe(text: str) -> str:
    """Text for the terminal, line breaks kept."""
    return clean(text, multiline=True)


def indented(text: str, by: str = "    ") -> str:
    """Each line of ``text``, sanitised and moved in."""
    return "\n".join(by + line for line in safe(text).split("\n"))


def planned(steps: Iterable[Planned]) -> None:
    """A plan as a person reads it: per step each command with its host, its reason and its script."""
    for number, item in enumerate(steps):
        click.echo(("\n" if number else "") + item.step.title)
        if not item.commands:
            click.echo("  nothing to run")
        for command in item.commands:
            click.echo(f"  # {command.host}: {safe(command.why)}")
            click.echo(f"  {safe(join(command.remote_argv))}" + (" <<'EOF'" if command.stdin else ""))
            if command.stdin:
                click.echo(indented(command.stdin.rstrip("\n")) + "\n  EOF")


def plan_json(steps: Iterable[Planned]) -> list[dict[str, Any]]:
    """A plan as the contract has it."""
    return [
        {
            "name": item.step.name.value,
            "commands": [
                {
                    "host": command.host,
                    "argv": list(command.remote_argv),
                    "stdin": command.stdin,
                    "why": command.why,
                }
                for command in item.commands
            ],
        }
        for item in steps
    ]


def verdicts(found: Iterable[Verdict]) -> None:
    """Preflight verdicts, the bad ones with why they matter and what mends them."""
    for verdict in found:
        where = ", ".join(verdict.hosts)
        click.echo(f"{MARKS[verdict.grade]} {verdict.grade.value:<8} {where}: {safe(verdict.observed)}")
        # One that is ready may still have something to propose: an environment for the profile.
        if verdict.grade is not Grade.READY or verdict.fix:
            for text in (verdict.why, verdict.remedy):
                if text:
                    click.echo(indented(text, "           "))


def problems(found: Iterable[Problem]) -> None:
    """Flag problems, each with its place in the profile and its fix."""
    for problem in found:
        place = f"{problem.place}: " if problem.place else ""
        click.echo(f"{problem.severity.value}: {place}{problem.flag}: {safe(problem.message)}")
        if problem.why:
            click.echo(indented(problem.why))
        for fix in problem.fix:
            click.echo(indented(f"fix: {fix.text}"))


def finding(found: Finding) -> None:
    """One finding: the cause, its evidence, its fixes."""
    where = f" on {found.host}" if found.host else ""
    click.echo(f"{found.severity.value}{where} ({found.confidence.value}, {found.kind})")
    click.echo(indented(found.cause, "  "))
    for evidence in found.evidence:
        click.echo(f"  {safe(evidence.file)}:{evidence.line}")
        click.echo(indented(evidence.text))
    for fix in found.fix:
        click.echo(indented(f"fix: {fix.text}", "  "))
        for line in change_lines(fix):
            click.echo(indented(line, "    "))


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
    click.echo(f"status: {found.status}")
    for item in found.findings:
        finding(item)
    if diff:
        click.echo("change of the profile:")
        click.echo(indented(diff, "  "))
    if found.next:
        click.echo("next:")
        for text in found.next:
            click.echo(indented(text, "  - "))
