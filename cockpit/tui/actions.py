"""The one registry of actions: key bindings, footer, command palette, help and the README's table come of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from textual.binding import Binding

from cockpit.bringup.names import StepName, StepState
from cockpit.tui import reach
from cockpit.tui.state import State

UNDOABLE: Final = frozenset({StepName.CONTAINERS, StepName.RAY_HEAD, StepName.RAY_WORKERS, StepName.LAUNCH})
"""Steps that leave something on the hosts."""


@dataclass(frozen=True, slots=True)
class Context:
    """What decides whether an action can be used: the state and the selected step."""

    state: State
    selected: StepName = StepName.CONNECT


Refusal = Callable[[Context], str]
"""Why an action can't be used now, in a sentence; "" when it can."""


def _never(_context: Context) -> str:
    return ""


def _whole(context: Context) -> str:
    """Whether the screen has more than one part."""
    return "A profile that can't be used has the whole screen." if context.state.profile_error else ""


def _unknown(context: Context) -> str:
    if context.state.profile_error:
        return "There is no profile that can be used: mend it, and r reads it again."
    return "" if context.state.profile is not None else "The profile is being read."


def _away(context: Context) -> str:
    head = reach.head_away(context.state)
    if head is None:
        return ""
    return f"{head.name} is {reach.since(head)}; it is tried again, and r tries now."


def _free(context: Context) -> str:
    """Whether anything may be changed, and nothing is being changed already."""
    state = context.state
    if state.read_only:
        return "Opened read-only: nothing can be started or changed from here."
    if state.activity.busy:
        return f"A step is running ({state.activity.verb}): X stops watching it."
    return _unknown(context)


def _starting(context: Context) -> str:
    """Whether the runner may be used, and there is a head to use it on."""
    return _free(context) or _away(context)


def _forcing(context: Context) -> str:
    refused = any(step.state is StepState.REFUSED for step in context.state.steps)
    return _starting(context) or ("" if refused else "Nothing refused a launch: ⏎ and a run the steps.")


def _undoing(context: Context) -> str:
    refusal = _starting(context)
    if not refusal and context.selected not in UNDOABLE:
        title = context.state.step(context.selected).title
        return f"{title} leaves nothing on the hosts that could be undone."
    return refusal


def _detaching(context: Context) -> str:
    return "" if context.state.activity.busy else "No step is being run from here."


def _no_run(context: Context) -> str:
    """Whether there is a run, as far as is known."""
    if context.state.run is not None:
        return ""
    if refusal := _unknown(context) or _away(context):
        return refusal
    return (
        "There is no run yet: a runs every step." if context.state.looked_at else "The hosts are being asked."
    )


def _serving(context: Context) -> str:
    state = context.state
    if refusal := _no_run(context) or _away(context):
        return refusal
    if state.loading:
        return "The model is still loading."
    return "" if state.serving else "The last run is over: a runs every step."


def _charts(context: Context) -> str:
    """Charts of what was served stay, with their age, also when nobody answers."""
    return _no_run(context) or ("" if context.state.metrics else _away(context))


def _stacks(context: Context) -> str:
    """Whether a run's processes may be looked into, also while a step watches them."""
    if context.state.read_only:
        return "Opened read-only: nothing is looked into that way."
    return _no_run(context) or _away(context)


def _log(context: Context) -> str:
    known = context.state.run is not None or any(host.sources for host in context.state.hosts)
    return _unknown(context) or ("" if known else _away(context))


def _evidence(context: Context) -> str:
    found = context.state.explanation
    if found is not None and any(finding.evidence for finding in found.findings):
        return ""
    return _no_run(context) or "No cause is known that names a line; x looks for one."


def _finding(context: Context) -> str:
    return "" if context.state.explanation is not None else "Nothing is explained yet; x explains the last run."


def _applying(context: Context) -> str:
    """Whether the profile may be changed by what is proposed; no host is needed for that."""
    return _free(context) or ("" if context.state.fixes else "No change of the profile is proposed.")


def _fixing(context: Context) -> str:
    return _applying(context) or _away(context)


def _mending(context: Context) -> str:
    from cockpit.model.finding import profile_fixes

    proposed = profile_fixes(context.state.flags.problems)
    return _starting(context) or ("" if proposed else "The judged flags propose no change.")


def _retrying(context: Context) -> str:
    return "" if context.state.hosts or context.state.profile_error else "The profile is being read."


def _asking(context: Context) -> str:
    exchanges = context.state.exchanges
    return "" if exchanges and exchanges[-1].open else "No answer is coming."


def _explaining(context: Context) -> str:
    """Whether something failed that the logs can explain, and they can be read."""
    load = next((step for step in context.state.steps if step.name is StepName.LOAD), None)
    failed = load is not None and load.state is StepState.FAILED
    return ("" if failed else _no_run(context)) or _away(context)


@dataclass(frozen=True, slots=True)
class Action:
    """One action. ``where`` is the part of the screen that must have the focus, "app" for any; ``rank`` is its
    place in the footer, 0 for none; ``constant`` keeps it there, greyed, when it can't be used; ``rescue`` puts it
    first there while nothing else goes on; ``help`` is one sentence."""

    id: str
    keys: str
    label: str
    help: str
    group: str
    refusal: Refusal = _never
    where: str = "app"
    rank: int = 0
    constant: bool = False
    rescue: bool = False

    @property
    def shown_keys(self) -> tuple[str, ...]:
        """The keys as a person reads them."""
        return tuple(SHOWN.get(key, key.replace("ctrl+", "^")) for key in self.keys.split(","))

    def available(self, context: Context) -> bool:
        """Whether it can be used now."""
        return not self.refusal(context)

    def place(self, state: State) -> int:
        """Its place in the footer now, 0 for none."""
        return 1 if self.rescue and reach.stuck(state) else self.rank


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
    Action("run", "enter", "run", "Run the selected step.", STEPS, _starting, "steps", 1, True),
    Action(
        "run_all",
        "a",
        "all",
        "Run every step, to an answered prompt.",
        STEPS,
        _starting,
        rank=2,
        constant=True,
    ),
    Action("run_through", "A", "up to here", "Run every step up to the selected one.", STEPS, _starting),
    Action(
        "details",
        "d",
        "details",
        "The selected step's exact commands, and their output.",
        STEPS,
        _unknown,
        rank=4,
    ),
    Action(
        "prepare",
        "p",
        "prepare",
        "Make so what preflight found missing; asks about each task.",
        STEPS,
        _starting,
    ),
    Action("undo", "u", "undo", "Undo the selected step; asks first.", STEPS, _undoing, rank=3, constant=True),
    Action("down", "U", "undo all", "Undo every step in reverse; asks first.", STEPS, _starting),
    Action(
        "stop", "X", "detach", "Stop watching the step that runs; the hosts go on.", STEPS, _detaching, rank=5
    ),
    Action(
        "force",
        "O",
        "launch anyway",
        "Run every step past what refused; asks first.",
        STEPS,
        _forcing,
        rank=3,
    ),
    Action("log", "l", "log", "The log, full of both hosts' sources.", LOOK, _log, rank=6),
    Action("log_next", "right_square_bracket", "next log", "The next log: host and source.", LOOK, _unknown),
    Action("log_previous", "left_square_bracket", "previous log", "The log before.", LOOK, _unknown),
    Action("log_merged", "M", "both logs", "Both hosts' logs as one, by time; or one again.", LOOK, _unknown),
    Action("copy", "c", "copy", "Copy what the lower half says, through the terminal (OSC 52).", LOOK),
    Action("save", "S", "save", "Save what the lower half says to a file.", LOOK),
    Action("full", "plus", "full", "The lower half on the full screen, and back.", LOOK, _whole, rank=10),
    Action(
        "evidence",
        "exclamation_mark",
        "evidence",
        "The line that decided, in the log.",
        LOOK,
        _evidence,
        rank=7,
    ),
    Action(
        "explain",
        "x",
        "explain",
        "Why it is as it is, from every log of every host.",
        LOOK,
        _explaining,
        rank=8,
    ),
    Action("stacks", "P", "stacks", "Take the Python stacks of every rank: what each waits in.", LOOK, _stacks),
    Action("host_1", "1", "host 1", "The first host.", LOOK, _unknown),
    Action("host_2", "2", "host 2", "The second host.", LOOK, _unknown),
    Action("host_next", "h", "next host", "The next host, where there are more.", LOOK, _unknown),
    Action(
        "serving",
        "v",
        "serving",
        "Throughput, requests, KV cache and TTFT, as charts.",
        LOOK,
        _charts,
        rank=11,
    ),
    Action(
        "flags", "f", "flags", "Judge the profile's flags by the vLLM that will run.", ASK, _starting, rank=9
    ),
    Action("edit_flags", "e", "edit flags", "Edit the profile's flags, with vLLM's verdict.", ASK, _unknown),
    Action(
        "apply_flags",
        "a",
        "apply changes",
        "Apply every change that the judged flags propose.",
        ASK,
        _mending,
        "flags",
        1,
    ),
    Action(
        "prompt", "t", "prompt", "Send a prompt and watch the answer.", ASK, _serving, rank=5, constant=True
    ),
    Action("stop_answer", "ctrl+x", "cancel answer", "Cancel the answer that is coming.", ASK, _asking, rank=2),
    Action(
        "retry",
        "r",
        "try again",
        "Ask every host now, and connect to those that are lost; read a broken profile again.",
        ASK,
        _retrying,
        rescue=True,
    ),
    Action(
        "fix",
        "enter",
        "apply and relaunch",
        "Apply the fix to the profile, and run every step.",
        ASK,
        _fixing,
        "finding",
        1,
    ),
    Action("apply", "a", "apply only", "Apply the fix to the profile.", ASK, _applying, "finding", 2),
    Action("show", "l", "show in log", "The finding's line, in the log.", ASK, _evidence, "finding", 3),
    Action(
        "report",
        "s",
        "save report",
        "Save a report for others, with secrets masked.",
        ASK,
        _finding,
        "finding",
        4,
    ),
    Action("back", "escape", "back", "Back to the steps.", LEAVE, _whole, rank=19),
    Action("theme", "T", "theme", "The next theme.", LEAVE),
    Action("suspend", "ctrl+z", "suspend", "Suspend the cockpit; fg in the shell comes back.", LEAVE),
    Action("help", "question_mark,f1", "help", "All keys.", LEAVE, rank=20),
    Action("quit", "q,ctrl+q", "leave", "Leave; everything on the hosts goes on.", LEAVE, rescue=True),
)

BY_ID: Final = {action.id: action for action in ACTIONS}


def bindings(where: str) -> list[Binding]:
    """The key bindings of a part of the screen."""
    return [
        Binding(
            # Textual's own ctrl+q leaves from every screen.
            action.keys.removesuffix(",ctrl+q"),
            f"app.do('{action.id}')",
            action.label,
            show=action.rank > 0 or action.rescue,
            tooltip=action.help,
            key_display=" ".join(action.shown_keys),
        )
        for action in ACTIONS
        if action.where == where
    ]


def available(action_id: str, context: Context) -> bool:
    """Whether an action can be used now."""
    return BY_ID[action_id].available(context)


def yields(action: Action) -> bool:
    """Whether its key has another meaning anywhere on the screen, which it leaves the key to when it can't be
    used."""
    return action.where != "app" and any(one.where == "app" and one.keys == action.keys for one in ACTIONS)


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
