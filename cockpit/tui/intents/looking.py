"""Choosing what is looked at: logs, evidence, hosts, charts."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cockpit.logs.sanitise import clean
from cockpit.tui.widgets.host_panel import HostPanel
from cockpit.tui.widgets.panes import host_content

if TYPE_CHECKING:
    from cockpit.tui.app import CockpitApp


def log(app: CockpitApp) -> None:
    """The log."""
    app.show("log", focus=True)
    if not app.cockpit.lower.shown_logs:
        app.notify("There is no log yet.", markup=False)


def log_next(app: CockpitApp) -> None:
    """The next log."""
    app.logs.turn(1)


def log_previous(app: CockpitApp) -> None:
    """The log before."""
    app.logs.turn(-1)


def log_merged(app: CockpitApp) -> None:
    """Both hosts' logs as one, by time, or one again."""
    app.logs.merge()


def full(app: CockpitApp) -> None:
    """The lower half on the full screen, and back."""
    app.cockpit.toggle_class("-full")
    if app.cockpit.has_class("-full"):
        app.cockpit.lower.focus_pane()


def copy(app: CockpitApp) -> None:
    """Copy the text that is shown; nobody tells whether the terminal took it."""
    text = app.cockpit.lower.text
    if text:
        app.copy_to_clipboard(text)
        app.notify("Copied, if the terminal allows it; S saves to a file.", markup=False)
    else:
        app.notify("There is no text here; a log that has the keys copies with c too.", markup=False)


def save(app: CockpitApp) -> None:
    """Save the text that is shown below the present folder."""
    text, pane = app.cockpit.lower.text, app.cockpit.lower.pane
    if not text:
        app.notify("There is no text here; a log that has the focus saves with s.", markup=False)
        return
    path = Path.cwd() / f"spark-cockpit-{pane}-{datetime.now():%Y%m%d-%H%M%S}.txt"
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        app.notify(clean(f"{path}: {error.strerror}"), title="Not saved", severity="error", markup=False)
    else:
        app.notify(clean(f"Saved to {path}."), markup=False)


def evidence(app: CockpitApp) -> None:
    """The decisive line in the log."""
    if app.logs.stand_at_evidence():
        app.show("log", focus=True)
    else:
        app.show("why", focus=True)


def explain(app: CockpitApp) -> None:
    """Why it is as it is."""
    app.show("why", focus=True)
    app.feed.explain()


def stacks(app: CockpitApp) -> None:
    """What every rank is doing right now, by its Python stack."""
    app.show("why", focus=True)
    app.feed.explain(stacks=True)


def host_1(app: CockpitApp) -> None:
    """The first host."""
    show_host(app, 0)


def host_2(app: CockpitApp) -> None:
    """The second host."""
    show_host(app, 1)


def host_next(app: CockpitApp) -> None:
    """The next host."""
    show_host(app, (app.cockpit.active_host + 1) % max(1, len(app.state.hosts)))


def show_host(app: CockpitApp, number: int) -> None:
    """Give a host the keys; where the screen is narrow, the room too."""
    panels = list(app.cockpit.query(HostPanel))
    if number < len(panels):
        app.cockpit.active_host = number
        panels[number].focus()
        show_host_details(app, panels[number].host)


def show_host_details(app: CockpitApp, name: str) -> None:
    """Bring what is known of a host up to date, for the details pane."""
    host = app.state.host(name)
    if host is not None:
        app.cockpit.lower.show_details(name, host_content(host, app.state), host)


def serving(app: CockpitApp) -> None:
    """The charts of what is served."""
    app.show("serving")


INTENTS: Final = {
    "log": log,
    "log_next": log_next,
    "log_previous": log_previous,
    "log_merged": log_merged,
    "full": full,
    "copy": copy,
    "save": save,
    "evidence": evidence,
    "show": evidence,
    "explain": explain,
    "stacks": stacks,
    "host_1": host_1,
    "host_2": host_2,
    "host_next": host_next,
    "serving": serving,
}
