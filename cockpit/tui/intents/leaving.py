"""Back, themes, help, out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.content import Content

from cockpit.bringup.events import StepState
from cockpit.tui.dialogs import Confirm, Help

if TYPE_CHECKING:
    from cockpit.tui.app import CockpitApp


def back(app: CockpitApp) -> None:
    """Back to the steps, or out of the full screen."""
    if app.cockpit.has_class("-full"):
        app.cockpit.remove_class("-full")
        return
    app.cockpit.steps.focus()


def theme(app: CockpitApp) -> None:
    """The next theme."""
    names = app.theme_names
    if names:
        at = names.index(app.theme) if app.theme in names else -1
        app.theme = names[(at + 1) % len(names)]
        app.notify(f"Theme: {app.theme}", timeout=2, markup=False)


def show_help(app: CockpitApp) -> None:
    """All keys."""
    app.push_screen(Help())


def suspend(app: CockpitApp) -> None:
    """Give the terminal back to the shell for a while."""
    app.action_suspend_process()


def leave(app: CockpitApp) -> None:
    """Leave; asks while a step runs."""
    if not app.busy:
        app.exit()
        return
    running = next((step.title for step in app.state.steps if step.state is StepState.RUNNING), "A step")
    text = Content(
        f"{running} is running. Leaving detaches: what was begun on the hosts goes on, and the next cockpit "
        "sees how it stands. A command that is under way right now is ended."
    )

    def answered(yes: bool | None) -> None:
        if yes:
            app.exit()

    app.push_screen(Confirm("Leave?", text, "leave"), answered)


INTENTS: Final = {"back": back, "theme": theme, "suspend": suspend, "help": show_help, "quit": leave}
