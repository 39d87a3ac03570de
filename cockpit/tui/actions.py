"""The one registry of actions: key bindings, footer, command palette, help and the README's table come of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from textual.binding import Binding

from cockpit.bringup.events import StepName, StepState
from cockpit.model.finding import profile_fixes
from cockpit.tui.state import State

UNDOABLE: Final = frozenset({StepName.CONTAINERS, StepName.RAY_HEAD, StepName.RAY_WORKERS, StepName.LAUNCH})
"""Steps that leave something on the hosts."""


@dataclass(frozen=True, slots=True)
class Context:
    """What decides whether an action can be used: the state and the selected step."""

    state: State
    selected: StepName = StepName.CONNECT

    @property
    def may_start(self) -> bool:
        """Whether the runner is free, and may be used."""
        return not self.state.read_only and not self.state.activity.busy and self.state.profile is not None


def _always(_context: Context) -> bool:
    return True


def _known(context: Context) -> bool:
    return context.state.profile is not None


def _may_start(context: Context) -> bool:
    return context.may_start


def _may_force(context: Context) -> bool:
    refused = any(step.state is StepState.REFUSED for step in context.state.steps)
    return context.may_start and refused


def _may_undo(context: Context) -> bool:
    return context.may_start and context.selected in UNDOABLE


def _busy(context: Context) -> bool:
    return context.state.activity.busy


def _serving(context: Context) -> bool:
    return context.state.serving


def _has_run(context: Context) -> bool:
    return context.state.run is not None


def _may_look_in(context: Context) -> bool:
    """Whether a run's processes may be looked into, also while a step watches them."""
    return _has_run(context) and not context.state.read_only


def _has_evidence(context: Context) -> bool:
    found = context.state.explanation
    return found is not None and any(finding.evidence for finding in found.findings)


def _has_finding(context: Context) -> bool:
    return context.state.explanation is not None


def _may_fix(context: Context) -> bool:
    return bool(context.state.fixes) and context.may_start


def _may_mend(context: Context) -> bool:
    return context.may_start and bool(profile_fixes(context.state.flags.problems))


def _may_retry(context: Context) -> bool:
    return bool(context.state.hosts)


def _asking(context: Context) -> bool:
    return bool(context.state.exchanges) and context.state.exchanges[-1].open


def _failed(context: Context) -> bool:
    """Whether something failed that the logs can explain."""
    run = context.state.run
    load = next((step for step in context.state.steps if step.name is StepName.LOAD), None)
    return run is not None or (load is not None and load.state is StepState.FAILED)


@dataclass(frozen=True, slots=True)
class Action:
    """One action. ``where`` is the part of the screen that must have the focus, "app" for any; ``rank`` is its
    place in the footer, 0 for none; ``constant`` keeps it there, greyed, when it can't be used; ``help`` is one
    sentence."""

    id: str
    keys: str
    label: str
    help: str
    group: str
    available: Callable[[Context], bool] = _always
    where: str = "app"
    rank: int = 0
    constant: bool = False

    @property
    def shown_keys(self) -> tuple[str, ...]:
        """The keys as a person reads them."""
        return tuple(SHOWN.get(key, key.replace("ctrl+", "^")) for key in self.keys.split(","))


SHOWN: Final = {
    "enter": "⏎",
    "escape": "esc",
    "question_mark": "?",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "plus": "+",
    "exclamation_mark": "!",
    "tab": "⇥",
    "f1": "F1",
}

PLACES: Final = {
    "finding": " (in *Why it failed*)",
    "flags": " (in the judged flags)",
    "steps": " (among the steps)",
}

STEPS, LOOK, ASK, LEAVE = "Steps", "Looking", "Asking", "The cockpit"

ACTIONS: Final[tuple[Action, ...]] = (
    Action("run", "enter", "run", "Run the selected step.", STEPS, _may_start, "steps", 1, True),
    Action(
        "run_all",
        "a",
        "all",
        "Run every step, to an answered prompt.",
        STEPS,
        _may_start,
        rank=2,
        constant=True,
    ),
    Action("run_through", "A", "up to here", "Run every step up to the selected one.", STEPS, _may_start),
    Action(
        "details",
        "d",
        "details",
        "The selected step's exact commands, and their output.",
        STEPS,
        _known,
        rank=4,
    ),
    Action(
        "prepare",
        "p",
        "prepare",
        "Make so what preflight found missing; asks about each task.",
        STEPS,
        _may_start,
    ),
    Action("undo", "u", "undo", "Undo the selected step; asks first.", STEPS, _may_undo, rank=3, constant=True),
    Action("down", "U", "undo all", "Undo every step in reverse; asks first.", STEPS, _may_start),
    Action("stop", "X", "detach", "Stop watching the step that runs; the hosts go on.", STEPS, _busy, rank=5),
    Action(
        "force",
        "O",
        "launch anyway",
        "Run every step past what refused; asks first.",
        STEPS,
        _may_force,
        rank=3,
    ),
    Action("log", "l", "log", "The log, full of both hosts' sources.", LOOK, _known, rank=6),
    Action("log_next", "right_square_bracket", "next log", "The next log: host and source.", LOOK, _known),
    Action("log_previous", "left_square_bracket", "previous log", "The log before.", LOOK, _known),
    Action("log_merged", "M", "both logs", "Both hosts' logs as one, by time; or one again.", LOOK, _known),
    Action("copy", "c", "copy", "Copy what the lower half says, through the terminal (OSC 52).", LOOK),
    Action("save", "S", "save", "Save what the lower half says to a file.", LOOK),
    Action("full", "plus", "full", "The lower half on the full screen, and back.", LOOK, _always, rank=10),
    Action(
        "evidence",
        "exclamation_mark",
        "evidence",
        "The line that decided, in the log.",
        LOOK,
        _has_evidence,
        rank=7,
    ),
    Action(
        "explain", "x", "explain", "Why it is as it is, from every log of every host.", LOOK, _failed, rank=8
    ),
    Action(
        "stacks", "P", "stacks", "Take the Python stacks of every rank: what each waits in.", LOOK, _may_look_in
    ),
    Action("host_1", "1", "host 1", "The first host.", LOOK, _known),
    Action("host_2", "2", "host 2", "The second host.", LOOK, _known),
    Action("host_next", "h", "next host", "The next host, where there are more.", LOOK, _known),
    Action(
        "serving",
        "v",
        "serving",
        "Throughput, requests, KV cache and TTFT, as charts.",
        LOOK,
        _has_run,
        rank=11,
    ),
    Action(
        "flags", "f", "flags", "Judge the profile's flags by the vLLM that will run.", ASK, _may_start, rank=9
    ),
    Action("edit_flags", "e", "edit flags", "Edit the profile's flags, with vLLM's verdict.", ASK, _known),
    Action(
        "apply_flags",
        "a",
        "apply changes",
        "Apply every change that the judged flags propose.",
        ASK,
        _may_mend,
        "flags",
        1,
    ),
    Action(
        "prompt", "t", "prompt", "Send a prompt and watch the answer.", ASK, _serving, rank=5, constant=True
    ),
    Action("stop_answer", "ctrl+x", "cancel answer", "Cancel the answer that is coming.", ASK, _asking, rank=2),
    Action(
        "retry", "r", "ask again", "Ask every host now, and connect to those that are lost.", ASK, _may_retry
    ),
    Action(
        "fix",
        "enter",
        "apply and relaunch",
        "Apply the fix to the profile, and run every step.",
        ASK,
        _may_fix,
        "finding",
        1,
    ),
    Action("apply", "a", "apply only", "Apply the fix to the profile.", ASK, _may_fix, "finding", 2),
    Action("show", "l", "show in log", "The finding's line, in the log.", ASK, _has_evidence, "finding", 3),
    Action(
        "report",
        "s",
        "save report",
        "Save a report for others, with secrets masked.",
        ASK,
        _has_finding,
        "finding",
        4,
    ),
    Action("back", "escape", "back", "Back to the steps.", LEAVE, rank=19),
    Action("theme", "T", "theme", "The next theme.", LEAVE),
    Action("suspend", "ctrl+z", "suspend", "Suspend the cockpit; fg in the shell comes back.", LEAVE),
    Action("help", "question_mark,f1", "help", "All keys.", LEAVE, rank=20),
    Action("quit", "q", "quit", "Leave; everything on the hosts goes on.", LEAVE),
)

BY_ID: Final = {action.id: action for action in ACTIONS}


def bindings(where: str) -> list[Binding]:
    """The key bindings of a part of the screen."""
    return [
        Binding(
            action.keys,
            f"app.do('{action.id}')",
            action.label,
            show=action.rank > 0,
            tooltip=action.help,
            key_display=" ".join(action.shown_keys),
        )
        for action in ACTIONS
        if action.where == where
    ]


def available(action_id: str, context: Context) -> bool:
    """Whether an action can be used now."""
    return BY_ID[action_id].available(context)


def markdown_table() -> str:
    """The actions as the README has them."""
    lines = ["| Key | What it does |", "|---|---|"]
    for group in dict.fromkeys(action.group for action in ACTIONS):
        lines.append(f"| | **{group}** |")
        for action in ACTIONS:
            if action.group == group:
                keys = " or ".join(f"`{key}`" for key in action.shown_keys)
                place = PLACES.get(action.where, "")
                lines.append(f"| {keys} | {action.help.rstrip('.')}{place} |")
    return "\n".join(lines) + "\n"
