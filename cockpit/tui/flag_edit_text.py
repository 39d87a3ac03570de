"""The editor of flags as text: its rows, a flag's help, the command line, what differs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from textual.content import Content

from cockpit.bringup.flag_judge import UNCHECKED, FlagCheck
from cockpit.hosts.quoting import join
from cockpit.logs.sanitise import clean
from cockpit.model.finding import Fix, Problem, Severity
from cockpit.serving.arguments import flag_argv, serve_argv
from cockpit.serving.flag_differences import Difference
from cockpit.tui import words
from cockpit.tui.flag_edit import EditView, Row
from cockpit.tui.flag_keys import Mode
from cockpit.tui.widgets.fixes import block
from cockpit.tui.widgets.panes import MARKS

NAME_WIDTH = 38
"""Columns a flag's name has in the list at most; longer ones push their value on."""


def head(view: EditView, now: float) -> Content:
    """The first line: which profile, whose flags, how it stands."""
    file = clean(PurePath(view.draft.profile.file).name)
    unsaved = (" ● not saved", "$text-warning") if view.draft.dirty else ("", "")
    left = Content.assemble((" Flags ", "bold $text-primary"), " ", (file, "bold"), unsaved)
    own = "" if view.schema.source == "runtime" else ", shipped"
    middle = Content.styled(
        f"   vLLM {clean(view.schema.version)}{own} · {len(view.schema.flags)} flags   ", "$muted"
    )
    return Content.assemble(left, middle, verdict(view, now))


def verdict(view: EditView, now: float) -> Content:
    """How the flags stand, and by whom."""
    if view.judging is not None:
        spent = now - view.judging
        told = f" … {spent:.0f} s; the first answer takes vLLM's own import" if spent >= 2 else " …"
        return Content.styled(f"◐ asking vLLM{told}", "$text-accent")
    if view.error:
        return Content.styled("? vLLM gave no answer", "$text-warning")
    if view.check is None:
        return Content.styled("not judged yet", "$muted")
    count = [len(view.check.errors), len(view.check.warnings)]
    parts = [
        (f"✗ {words.plural(count[0], 'error')} ", "$text-error")
        if count[0]
        else ("✓ no errors ", "$text-success"),
        (f"▲ {words.plural(count[1], 'warning')} ", "$text-warning") if count[1] else ("", ""),
    ]
    if view.check.unasked:
        why = clean(view.resting or view.check.unasked.partition("\n")[0])
        found = words.plural(len(view.problems), "finding") if view.problems else "nothing found"
        unasked = (f"? vLLM was not asked: {why} ", "$text-warning")
        return Content.assemble(unasked, (f"· {found} by the flags that are known", "$muted"))
    return Content.assemble(*parts, (f"· {view.took:.2f} s" if view.took is not None else "", "$muted"))


def name_width(rows: Sequence[Row], width: int) -> int:
    """Columns for the names in a list of this width."""
    longest = max((len(row.key) for row in rows), default=0)
    return max(8, min(longest, NAME_WIDTH, width - 12))


def row_content(row: Row, mode: Mode, width: int, gap: int) -> Content:
    """A line of the list, its name in ``gap`` columns."""
    if mode is Mode.FLAGS:
        mark, style = MARKS[row.severity] if row.severity else (" ", "")
        value = Content.styled(
            clean(row.text), "$text-error" if row.severity is Severity.ERROR else "$text-accent"
        )
        tail = (" ≠ run", "$text-warning") if row.changed else ("", "")
    else:
        mark, style = ("●", "$text-success") if mode is Mode.NAME and row.present else (" ", "")
        value = Content.styled(clean(row.text), "$muted")
        tail = ("", "")
    name = clean(row.key)
    text = Content.assemble((f"{mark} ", style), (f"{name:<{gap}} ", ""), value, tail)
    return text.truncate(max(10, width), ellipsis=True)


def no_rows(view: EditView) -> Content:
    """What the list says when it is empty."""
    told = {
        Mode.FLAGS: "The profile has no flags: / finds one.",
        Mode.NAME: "vLLM has no such flag; ⏎ takes the name all the same.",
        Mode.VALUE: "There is no list of values: type one.",
    }
    return Content.styled(told[view.mode], "$muted")


def entry_hint(view: EditView) -> Content:
    """The line below the entry: what is wrong with what is typed, else what it means."""
    if view.mode is Mode.VALUE:
        if view.refused:
            return Content.styled(f"✗ {clean(view.refused.splitlines()[-1])}", "$text-error")
        if view.mistake:
            return Content.styled(f"✗ {clean(view.mistake)}", "$text-error")
        return Content.styled(clean(f"= {join(flag_argv(view.key, view.typed))}"), "$muted")
    if view.mode is Mode.NAME:
        return Content.styled("a name, a part of it, or what it is about; --name value takes both", "$muted")
    count = words.plural(len(view.draft.profile.serve.flags), "flag")
    return Content.styled(f"{count} in the profile; ⏎ changes one, / finds another", "$muted")


def flag_content(view: EditView, key: str) -> Content:
    """Everything about one flag: what was found, its help, its default, what the run has."""
    if not key:
        return Content.styled("No flag.", "$muted")
    parts = [Content.styled(f"--{clean(key)}", "bold $text-primary")]
    for problem in view.about(key):
        mark, style = MARKS[problem.severity]
        parts += [Content.styled(f"{mark} {clean(problem.message, multiline=True)}", style)]
        parts += [
            Content.styled(f"  x  {clean(fix.text, multiline=True)}", "$text-success")
            for fix in problem.fix[:1]
        ]
    flag = view.schema.find(key)
    for one in view.from_run:
        if flag is not None and one.flag.partition(".")[0] == flag.name:
            parts.append(Content.styled(f"the run in progress has {_value(one.there)}", "$text-warning"))
    parts += [block(view.editor.help(key), "")]
    if flag is not None and flag.group:
        parts += [Content.styled(f"\nfrom {clean(flag.group)}", "$muted")]
    return Content("\n").join(parts)


def findings_content(view: EditView) -> Content:
    """Everything that was found, the worst first."""
    if view.error:
        told = Content.assemble(("vLLM gave no answer.\n", "$text-warning"), block(view.error, ""))
        return Content("\n").join([told, *(line for one in view.problems for line in _finding(one))])
    if view.check is None:
        return Content.styled("vLLM is asked about the whole command line; its words stand here.", "$muted")
    if view.check.unasked:
        return Content("\n").join(
            [*_unasked(view.check), *(line for one in view.problems for line in _finding(one))]
        )
    if not view.problems:
        return Content.styled("✓ Nothing stands against a launch.", "$text-success")
    return Content("\n").join(line for problem in view.problems for line in _finding(problem))


def _unasked(check: FlagCheck) -> list[Content]:
    """That this is no verdict of vLLM's, why, by whose flags it is, and what to do."""
    known = f"Judged by {clean(check.by_whom)}. {UNCHECKED}"
    lines = [Content.styled(f"? vLLM was not asked: {clean(check.unasked)}.", "$text-warning"), block(known)]
    lines.append(Content.styled("  → ^r asks again; a host's panel says why it is not connected.", "bold"))
    return lines if check.problems else [*lines, Content.styled("Nothing was found so.", "$muted")]


def _finding(problem: Problem) -> list[Content]:
    """A problem: its line in the file, what vLLM or the cockpit says, and the changes."""
    mark, style = MARKS[problem.severity]
    place = f"  line {problem.place.line}" if problem.place else ""
    first = ((f"{mark} {problem.severity.value} ", style), (clean(problem.flag), "bold"), (place, "$muted"))
    lines = [Content.assemble(*first), block(problem.message)]
    lines += [block(problem.why).stylize("$muted")] if problem.why else []
    return lines + [
        Content.styled(f"  {_key(fix)} {clean(fix.text, multiline=True)}", "$text-success")
        for fix in problem.fix
    ]


def _key(fix: Fix) -> str:
    return "x" if fix.of_profile else "·"


def command_content(view: EditView, key: str) -> Content:
    """The command line that results, the flag at hand marked."""
    draft = view.draft.profile
    flags = {**draft.serve.flags}
    if view.mode is Mode.VALUE:
        flags[view.key] = view.typed
    whole = serve_argv(draft)
    first = whole[: len(whole) - sum(len(flag_argv(*one)) for one in draft.serve.flags.items())]
    parts: list[Content] = [Content(clean(join(first)))]
    for name, value in flags.items():
        parts.append(
            Content.styled(clean(join(flag_argv(name, value))), "bold $text-accent" if name == key else "")
        )
    return Content(" ").join(parts)


def differences_content(view: EditView) -> Content:
    """What differs from vLLM's defaults, from the run in progress, and from the file."""
    parts = [Content.styled("From vLLM's defaults", "bold"), *_pairs(view.from_defaults, "default", "set")]
    parts += [Content(""), Content.styled("From the run in progress", "bold")]
    parts += (
        _pairs(view.from_run, "run", "here") if view.run else [Content.styled("  no run is known", "$muted")]
    )
    parts += [Content(""), Content.styled("From the file", "bold")]
    if view.draft.dirty:
        lines = view.draft.diff.splitlines()[2:]
        colours = {"+": "$text-success", "-": "$text-error", "@": "$muted"}
        parts += [Content.styled(f"  {clean(line)}", colours.get(line[:1], "")) for line in lines]
    else:
        parts.append(Content.styled("  nothing", "$muted"))
    return Content("\n").join(parts)


def _pairs(found: Sequence[Difference], there: str, here: str) -> list[Content]:
    if not found:
        return [Content.styled("  nothing", "$muted")]
    return [
        Content.assemble(
            f"  {clean(one.flag)}  ",
            (f"{there} {_value(one.there)}" if one.there is not None else f"no {there}", "$muted"),
            (" → ", "$muted"),
            (_value(one.here) if one.here is not None else f"not {here}", "$text-accent"),
        )
        for one in found
    ]


def _value(value: str | None) -> str:
    return "has none" if value is None else clean(value)
