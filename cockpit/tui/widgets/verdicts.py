"""Preflight's verdicts as text: what stands in the way first, with its remedy, then the cabling, then the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from cockpit.logs.sanitise import clean
from cockpit.model.verdict import Grade, Verdict
from cockpit.tui.state import State
from cockpit.tui.widgets.fixes import block, fix_lines

if TYPE_CHECKING:
    from cockpit.model.profile import Profile

MARKS = {
    Grade.BLOCKED: ("✗", "$text-error"),
    Grade.UNKNOWN: ("?", "$text-warning"),
    Grade.SLOW: ("▲", "$text-warning"),
    Grade.READY: ("✓", "$text-success"),
}


def verdict_lines(verdict: Verdict, profile: Profile | None) -> list[Content]:
    """A verdict with its reason, its remedy and the profile's changes."""
    mark, style = MARKS[verdict.grade]
    observed = clean(verdict.observed, multiline=True).split("\n")
    lines = [
        Content.assemble(
            (f"{mark} {verdict.grade.value} ", style),
            (", ".join(clean(host) for host in verdict.hosts), "bold $text-primary"),
            f"  {observed[0]}",
        )
    ]
    lines += [Content(f"  {line}") for line in observed[1:]]
    if verdict.why:
        lines.append(block(verdict.why).stylize("$muted"))
    if verdict.remedy:
        told = clean(verdict.remedy, multiline=True).split("\n")
        lines += [Content.styled(f"  {'→' if at == 0 else ' '} {line}", "bold") for at, line in enumerate(told)]
    return lines + [line for fix in verdict.fix for line in fix_lines(fix, profile)]


def survey_lines(state: State) -> list[Content]:
    """All of preflight's answers; none before it was asked."""
    lines: list[Content] = []
    for grade in (Grade.BLOCKED, Grade.UNKNOWN, Grade.SLOW):
        for verdict in state.verdicts:
            if verdict.grade is grade:
                lines += [*verdict_lines(verdict, state.profile), Content("")]
    if state.cabling:
        lines += [Content.styled("The cabling", "bold"), block(state.cabling), Content("")]
    ready = [verdict for verdict in state.verdicts if verdict.grade is Grade.READY]
    return lines + [line for verdict in ready for line in verdict_lines(verdict, state.profile)]
