"""The lower half's panes that are text: a step's details, a host's details, the flags' judgement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content

from cockpit.bringup.events import StepName, StepState
from cockpit.hosts.quoting import command_line
from cockpit.logs.sanitise import clean
from cockpit.model.command import Command
from cockpit.model.finding import Problem, Severity
from cockpit.tui import host_text, reach, words
from cockpit.tui.actions import bindings
from cockpit.tui.state import CommandView, HostView, State, StepView
from cockpit.tui.widgets.fixes import block, fix_lines
from cockpit.tui.widgets.lines import Lines
from cockpit.tui.widgets.verdicts import survey_lines

if TYPE_CHECKING:
    from cockpit.bringup.runner import Planned
    from cockpit.model.profile import Profile


class TextPane(VerticalScroll):
    """Text to scroll through."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id, classes="scroll", can_focus=True)

    def compose(self) -> ComposeResult:
        """One text."""
        yield Lines()

    def show(self, content: Content) -> None:
        """Show ``content``."""
        self.query_one(Lines).show(content)

    @property
    def text(self) -> str:
        """What is shown, all of it."""
        return self.query_one(Lines).text


class FlagsPane(TextPane):
    """The flags' judgement; its keys apply the changes."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("flags")]


def step_content(step: StepView, state: State, planned: Planned | None, undo: Sequence[Command]) -> Content:
    """A step: how it stands, what it found, what it ran, what it would run."""
    told = f"{words.MARKS[step.state]} {words.STATE_WORDS[step.state]}"
    if step.state is None:
        away = reach.who(state)
        told = f"can't be asked: {away}" if away else words.STATE_WORDS[None]
    parts = [Content.assemble((step.title, "bold"), " · ", (told, words.COLOURS[step.state]))]
    if step.reason:
        parts += [block(step.reason, "")]
    if step.name is StepName.PREFLIGHT and state.verdicts:
        parts += [Content(""), *survey_lines(state)]
    if step.commands:
        parts += [Content(""), Content.styled("What it ran", "bold")]
        going = state.activity.busy and (step.state is StepState.RUNNING or state.activity.undoing)
        parts += [part for view in step.commands for part in _ran(view, going=going)]
    parts += [Content(""), Content.styled("What it runs, exactly", "bold")]
    commands = planned.commands if planned else ()
    parts += [part for command in commands for part in _command(command)] or [Content("  nothing on the hosts")]
    if undo:
        parts += [Content(""), Content.styled("What undoes it", "bold")]
        parts += [part for command in undo for part in _command(command)]
    return Content("\n").join(parts)


def _command(command: Command) -> list[Content]:
    head = Content.assemble((f"  {command.host}", "bold $text-primary"), (f"  {clean(command.why)}", "$muted"))
    lines = [head, block(f"$ {command_line(command)}", "    ")]
    if command.stdin:
        lines.append(block(command.stdin, "    │ "))
    return lines


def _ran(view: CommandView, *, going: bool) -> list[Content]:
    command, completed = view.command, view.completed
    head: list[tuple[str, str]] = [
        (f"  {command.host}", "bold $text-primary"),
        (f"  {clean(command.why)}  ", ""),
    ]
    if completed is None:
        head.append(("◐ running", "$text-accent") if going else ("… no end seen", "$text-warning"))
        return [Content.assemble(*head)]
    good = completed.status == 0
    head.append((f"exit status {completed.status}", "$text-success" if good else "$text-error"))
    head.append((f"  {words.span(completed.seconds)}", "$muted"))
    lines = [Content.assemble(*head), block(f"$ {command_line(command)}", "    ").stylize("$muted")]
    lines += [block(text, "    ") for text in (completed.text, completed.error_text) if text.strip()]
    return lines


def unasked_content(state: State) -> list[Content]:
    """What a head that answers could not be asked, and why."""
    lines = [Content.styled("What can't be asked", "bold")]
    for trouble in state.troubles:
        lines.append(Content.assemble(("  ▲ ", "$text-warning"), (clean(trouble.what), "bold")))
        lines.append(block(trouble.reason, "    "))
    return lines


def host_content(host: HostView, state: State) -> Content:
    """Everything known of a host."""
    spec = host.spec
    parts = [host_text.title(host)]
    user = f"{clean(spec.user)}@" if spec.user else ""
    parts.append(Content(f"address {user}{clean(spec.address)}{f':{spec.port}' if spec.port else ''}"))
    if spec.fabric:
        parts.append(
            Content(f"fabric {spec.fabric.address} on {clean(spec.fabric.interface) or 'any interface'}")
        )
    trouble = host_text.trouble_lines(host, state)
    parts += [Content(""), *trouble] if trouble else []
    if host is state.hosts[0]:
        parts += [Content(""), *unasked_content(state)] if state.troubles else []
    sample = host.sample
    if sample is not None:
        parts += [
            Content(""),
            Content.styled(f"Seen {words.coarse(state.now - host.sampled_at)} ago", "$muted"),
        ]
        parts += [Content(f"GPU {gpu.index}  {clean(gpu.name)}") for gpu in sample.gpus]
        parts += [Content.styled("Processes on the GPU", "bold")] if sample.processes else []
        for process in sample.processes:
            used = "unknown" if process.used is None else words.size(process.used)
            parts.append(Content(f"  {process.pid:>8}  {used:>10}  {clean(process.name)}"))
        parts.append(Content.styled("Interfaces, since boot", "bold"))
        for one in sample.interfaces:
            got, sent = words.size(one.received), words.size(one.sent)
            parts.append(Content(f"  {clean(one.name):<16} in {got:>10}   out {sent:>10}"))
    if host.sources:
        parts += [Content(""), Content.styled("Logs", "bold")]
        for source in host.sources:
            size = "" if source.size is None else words.size(source.size)
            run = f" of run {clean(source.run)}" if source.run else ""
            grant = f"  needs: {clean(source.grant)}" if source.grant else ""
            parts.append(Content(f"  {clean(source.name)}{run}  {size}{grant}"))
    return Content("\n").join(parts)


def mistakes_content(error: str) -> tuple[str, Content]:
    """A profile's error as a title and a text: its mistakes counted and numbered, each with its place."""
    first, *rest = clean(error, multiline=True).split("\n")
    mistakes = [line.strip() for line in rest if line.startswith("  ")]
    others = [line for line in rest if not line.startswith("  ")]
    width = len(str(len(mistakes)))
    lines = [Content.styled(first, "bold $text-error"), Content("")]
    for number, line in enumerate(mistakes, 1):
        place, _, message = line.partition(": ")
        lines.append(Content.assemble((f"{number:>{width}}  ", "$muted"), (f"{place}  ", "bold"), message))
    lines += [Content(line) for line in others]
    told = "Mend it in an editor; r reads it again."
    return words.plural(len(mistakes), "mistake") if mistakes else "Profile", Content("\n").join(
        [*lines, Content(""), Content.styled(told, "$muted")]
    )


MARKS = {
    Severity.ERROR: ("✗", "$text-error"),
    Severity.WARNING: ("▲", "$text-warning"),
    Severity.NOTE: ("·", ""),
}


def flags_content(state: State) -> Content:
    """The flags' judgement."""
    flags = state.flags
    if flags.busy:
        return Content("◐ asking the vLLM on the head …")
    if flags.error:
        return Content.assemble(("✗ The flags could not be judged.\n", "$text-error"), block(flags.error, ""))
    if not flags.vllm and not flags.problems:
        return Content.styled("f judges the profile's flags by the vLLM that will run; e edits them.", "$muted")
    if flags.unasked:
        parts = [
            Content.styled(f"? vLLM was not asked: {clean(flags.unasked, multiline=True)}", "$text-warning"),
            Content(f"By the flags that are known of vLLM {clean(flags.vllm)}:"),
        ]
        parts += [] if flags.problems else [Content.styled("Nothing was found so.", "$muted")]
    else:
        parts = [Content(f"Judged by vLLM {clean(flags.vllm)}; e edits the flags")]
    if not flags.problems and not flags.unasked:
        parts.append(Content.styled("✓ Nothing stands against a launch.", "$text-success"))
    for problem in flags.problems:
        parts += [Content(""), *problem_lines(problem, state.profile)]
    return Content("\n").join(parts)


def problem_lines(problem: Problem, profile: Profile | None) -> list[Content]:
    """A problem of the flags with its reason and its fix."""
    mark, style = MARKS[problem.severity]
    place = f"  {problem.place}" if problem.place else ""
    lines = [
        Content.assemble(
            (f"{mark} {problem.severity.value} ", style),
            (clean(problem.flag), "bold"),
            (clean(place), "$muted"),
        ),
        block(problem.message),
    ]
    lines += [block(problem.why).stylize("$muted")] if problem.why else []
    return lines + [line for fix in problem.fix for line in fix_lines(fix, profile)]


def planned_of(plans: Sequence[Planned], name: StepName) -> Planned | None:
    """The plan of one step."""
    return next((planned for planned in plans if planned.step.name is name), None)
