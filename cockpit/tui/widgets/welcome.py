"""What stands where no log is yet: the keys that go on from here."""

from __future__ import annotations

from textual.content import Content

from cockpit.tui.actions import BY_ID
from cockpit.tui.state import State

WAYS = ("run_all", "run", "details", "flags")
"""Actions that a newcomer wants first."""


def welcome(state: State) -> Content:
    """A few lines on what can be done now; one line while there is nothing to do but wait."""
    if state.profile is None or state.looked_at is None:
        return Content.styled("The hosts are being asked how they stand …", "$muted")
    if state.activity.busy or state.run is not None:
        return Content.styled("No log yet.", "$muted")
    if state.read_only:
        return Content.styled("Nothing runs yet. Opened read-only: nothing can be started from here.", "$muted")
    lines = [Content.styled("Nothing runs yet.", "bold"), Content("")]
    for name in WAYS:
        action = BY_ID[name]
        lines.append(
            Content.assemble(
                (f"  {action.shown_keys[0]:<4}", "bold $text-accent"), (action.help, "$foreground")
            )
        )
    return Content("\n").join([*lines, Content(""), Content.styled("← → select a step.", "$muted")])
