"""Why it failed: the findings, the evidence, the fix."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType
from textual.content import Content

from cockpit.logs.sanitise import clean
from cockpit.model.finding import Explanation, Finding
from cockpit.tui.actions import bindings
from cockpit.tui.state import State
from cockpit.tui.widgets.fixes import block, fix_lines
from cockpit.tui.widgets.panes import TextPane, problem_lines
from cockpit.tui.widgets.verdicts import verdict_lines

if TYPE_CHECKING:
    from cockpit.model.profile import Profile

MOST_EVIDENCE = 6
DECISIVE = "bold reverse $text-error"
"""How the line that decided looks."""


class FindingPane(TextPane):
    """Shows the explanation; its keys apply, show and save."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("finding")]


def content(state: State) -> Content:
    """The explanation."""
    found = state.explanation
    if state.refused:
        return _paragraphs(problem_lines(problem, state.profile) for problem in state.refused)
    if state.blocked:
        return _paragraphs(verdict_lines(verdict, state.profile) for verdict in state.blocked)
    if found is None:
        return Content.styled("x explains the last run from every log of every host.", "$muted")
    parts: list[Content] = []
    for number, finding in enumerate(found.findings):
        parts += _finding(finding, state.profile, first=number == 0)
        parts.append(Content(""))
    if not found.findings:
        parts += [Content.styled(_nothing(found), "bold"), Content("")]
    if found.next:
        parts.append(Content.styled("What to look at next", "bold"))
        parts += [block(step, "  ") for step in found.next]
    return Content("\n").join(parts)


def _paragraphs(texts: Iterable[list[Content]]) -> Content:
    return Content("\n\n").join(Content("\n").join(lines) for lines in texts)


def _nothing(found: Explanation) -> str:
    words = {
        "ok": "Nothing failed: the log tells of a good start.",
        "loading": "It is still loading; nothing in the logs stands against it.",
        "stopped": "It was stopped.",
        "stalled": "It does not come further, and the logs do not say why.",
    }
    return words.get(found.status, "The logs do not tell the cause.")


def title(state: State) -> str:
    """The pane's title."""
    found = state.explanation
    if state.refused:
        return "Why it was refused"
    if state.blocked:
        return "What stands in the way"
    if found is None or not found.fault:
        return "Why"
    return f"Why it failed · {found.findings[0].confidence.value}"


def _finding(finding: Finding, profile: Profile | None, *, first: bool) -> list[Content]:
    lines = clean(finding.cause, multiline=True).split("\n")
    where = f"{clean(finding.host)}: " if finding.host else ""
    parts = [Content.styled(f"{where}{lines[0]}", "bold" if first else "")]
    parts += [Content(line) for line in lines[1:]]
    if not first:
        parts[0] = Content.assemble(("also  ", "$muted"), parts[0])
    for evidence in finding.evidence[:MOST_EVIDENCE]:
        place = f"  {clean(evidence.file)} · line {evidence.line:,}  "
        parts.append(Content.assemble((place, "$muted"), (clean(evidence.text).strip(), DECISIVE)))
    for fix in finding.fix:
        parts += [Content(""), *fix_lines(fix, profile)] if first else fix_lines(fix, profile)
    return parts
