"""Flags, prompts, fixes, reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cockpit.logs.sanitise import clean

if TYPE_CHECKING:
    from cockpit.tui.app import CockpitApp


def flags(app: CockpitApp) -> None:
    """Judge the flags."""
    app.show("flags", focus=True)
    app.feed.judge_flags()


def prompt(app: CockpitApp) -> None:
    """The prompt."""
    app.show("prompt", focus=True)


def stop_answer(app: CockpitApp) -> None:
    """Cancel the answer."""
    app.feed.stop_answer()


def retry(app: CockpitApp) -> None:
    """Ask every host now; where there is none yet, read the profile again."""
    if app.state.hosts:
        app.feed.wake()
        app.notify("Every host is asked now.", timeout=2, markup=False)
        return
    app.notify(clean(f"{app.profile_name} is read again."), timeout=2, markup=False)
    app.run_worker(app.read_again(), name="profile", group="profile", exclusive=True, exit_on_error=False)


def fix(app: CockpitApp) -> None:
    """Apply the fix and run every step."""
    _apply(app, relaunch=True)


def apply(app: CockpitApp) -> None:
    """Apply the fix."""
    _apply(app, relaunch=False)


def _apply(app: CockpitApp, *, relaunch: bool) -> None:
    from cockpit.tui.fixing import apply_fix

    work = apply_fix(app, relaunch=relaunch)
    app.run_worker(work, name="fix", group="fix", exclusive=True, exit_on_error=False)


def report(app: CockpitApp) -> None:
    """Save a report."""
    from cockpit.tui.fixing import save_report

    app.run_worker(save_report(app), name="report", group="report", exclusive=True, exit_on_error=False)


INTENTS: Final = {
    "flags": flags,
    "prompt": prompt,
    "stop_answer": stop_answer,
    "retry": retry,
    "fix": fix,
    "apply": apply,
    "report": report,
}
