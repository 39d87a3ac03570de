"""Running, undoing and looking at steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from textual.content import Content

from cockpit.model.command import Command
from cockpit.tui.dialogs import Confirm, ConfirmHost
from cockpit.tui.widgets.panes import planned_of, step_content

if TYPE_CHECKING:
    from cockpit.tui.app import CockpitApp


def run(app: CockpitApp) -> None:
    """Run the selected step."""
    app.feed.run_step(app.cockpit.selected)


def run_all(app: CockpitApp) -> None:
    """Run every step."""
    app.feed.up()


def run_through(app: CockpitApp) -> None:
    """Run up to the selected step."""
    app.feed.up(app.cockpit.selected)


def force(app: CockpitApp) -> None:
    """Run every step past what refuses."""
    text = Content("The flag checks and preflight are run, and what they refuse is launched all the same.")

    def answered(yes: bool | None) -> None:
        if yes:
            app.feed.up(forced=True)

    app.push_screen(Confirm("Launch anyway?", text, "launch anyway"), answered)


def undo(app: CockpitApp) -> None:
    """Undo the selected step."""
    name = app.cockpit.selected
    title = app.state.step(name).title
    _ask_host(app, f"Undo {title}?", app.feed.undo_plan(name), lambda: app.feed.undo_step(name))


def down(app: CockpitApp) -> None:
    """Undo everything."""
    _ask_host(app, "Undo every step?", app.feed.undo_plan(None), app.feed.down)


def _ask_host(app: CockpitApp, title: str, commands: tuple[Command, ...], then: Callable[[], None]) -> None:
    profile = app.state.profile
    if profile is None:
        return
    hosts = {command.host for command in commands}
    host = next((one.name for one in profile.hosts if one.name in hosts), profile.head.name)

    def answered(yes: bool | None) -> None:
        if yes:
            then()

    app.push_screen(ConfirmHost(title, host, commands), answered)


def stop(app: CockpitApp) -> None:
    """Detach from the step that runs."""
    app.feed.stop_watching()
    app.notify("Detached: what was begun on the hosts goes on.", markup=False)


def details(app: CockpitApp) -> None:
    """The selected step's commands and output."""
    show_step(app)
    app.show("details", focus=True)


def show_step(app: CockpitApp) -> None:
    """Bring the selected step's details up to date."""
    step = app.state.step(app.cockpit.selected)
    planned = planned_of(app.feed.plan(), step.name)
    content = step_content(step, app.state, planned, app.feed.undo_plan(step.name))
    app.cockpit.lower.show_details(f"{step.title} · plan and output", content, step)


def prepare(app: CockpitApp) -> None:
    """Open the preparation."""
    from cockpit.tui.prepare_screen import PrepareScreen

    app.push_screen(PrepareScreen(app.feed.prepare))


INTENTS: Final = {
    "run": run,
    "run_all": run_all,
    "run_through": run_through,
    "force": force,
    "undo": undo,
    "down": down,
    "stop": stop,
    "details": details,
    "prepare": prepare,
}
