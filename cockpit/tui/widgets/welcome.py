"""What stands where no log is yet: how it is, and the keys that go on from here."""

from __future__ import annotations

from collections.abc import Mapping

from textual.content import Content

from cockpit.tui import reach
from cockpit.tui.actions import BY_ID
from cockpit.tui.state import RUN, HostView, Link, State

WAYS = dict.fromkeys(("run_all", "run", "details", "flags"), "")
"""Actions that a newcomer wants first."""
RESCUES = {"retry": "Try every host now.", "details": "", "edit_flags": "", "quit": ""}
"""Actions that are left while the head does not answer, with what they mean then where it is not their help."""


def welcome(state: State) -> Content:
    """A few lines on what can be done now; one line while there is nothing to do but wait."""
    if reach.head_away(state) is not None:
        return _unreachable(state)
    if state.profile is None:
        return Content.styled("The profile is being read …", "$muted")
    if state.looked_at is None:
        return Content.styled("The hosts are being asked how they stand …", "$muted")
    if state.run is None and reach.unasked(state, RUN) is not None and not state.activity.busy:
        from cockpit.tui.widgets.panes import unasked_content

        return Content("\n").join(
            [*unasked_content(state), Content(""), *_keys({"retry": "Ask again.", **WAYS})]
        )
    if state.activity.busy or state.run is not None:
        return Content.styled("No log yet.", "$muted")
    if state.read_only:
        return Content.styled("Nothing runs yet. Opened read-only: nothing can be started from here.", "$muted")
    lines = [Content.styled("Nothing runs yet.", "bold"), Content("")]
    return Content("\n").join(
        [*lines, *_keys(WAYS), Content(""), Content.styled("← → select a step.", "$muted")]
    )


def _keys(told: Mapping[str, str]) -> list[Content]:
    actions = [(BY_ID[name], words or BY_ID[name].help) for name, words in told.items()]
    return [
        Content.assemble((f"  {action.shown_keys[0]:<4}", "bold $text-accent"), (words, "$foreground"))
        for action, words in actions
    ]


def _unreachable(state: State) -> Content:
    """Who does not answer since when, what is tried next, and the keys that are left."""
    who = reach.who(state)
    lines = [Content.styled(f"{who[:1].upper()}{who[1:]}.", "bold $text-error")]
    width = max(len(host.name) for host in state.hosts)
    lines += [_host(host, state, width) for host in state.hosts]
    age = reach.age(state)
    known = f"told as it was {age} ago" if age else "not known"
    then = f"How the steps and the last run stand is {known}."
    return Content("\n").join([*lines, Content.styled(then, "$muted"), Content(""), *_keys(RESCUES)])


def _host(host: HostView, state: State, width: int) -> Content:
    name = (f"  {host.name:<{width}}  ", "bold")
    if not reach.away(host):
        up = host.link.state is Link.UP
        return Content.assemble(
            name, ("● answers", "$text-success") if up else ("◐ connecting …", "$text-accent")
        )
    told = f"{reach.since(host)}, {reach.next_try(host, state.now)}"
    return Content.assemble(name, ("✗ ", "$text-error"), told)
