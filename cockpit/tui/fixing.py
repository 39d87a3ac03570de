"""Applies a finding's fix to the profile's file, and saves reports."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from cockpit.logs.sanitise import clean
from cockpit.model.errors import CockpitError
from cockpit.model.finding import Fix

if TYPE_CHECKING:
    from cockpit.tui.app import CockpitApp

EDITOR: Final = "cockpit.bringup.profile_edit"

Apply = Callable[[Path, Sequence[Fix]], str]


async def apply_fix(app: CockpitApp, *, relaunch: bool) -> None:
    """Write the first finding's fix into the profile; with ``relaunch`` run every step then."""
    state = app.state
    if state.profile is None or state.explanation is None or not state.explanation.findings:
        return
    fixes = [fix for fix in state.explanation.findings[0].fix if fix.change]
    apply = cast(Apply, import_module(EDITOR).apply_changes)
    path = Path(state.profile.file)
    try:
        await asyncio.to_thread(apply, path, fixes)
    except (CockpitError, OSError) as error:
        app.notify(clean(str(error), multiline=True), title="Not applied", severity="error", markup=False)
        return
    app.notify(f"Applied to {path}.", markup=False)
    await app.feed.reopen(str(path))
    if relaunch:
        app.feed.up()


async def save_report(app: CockpitApp) -> None:
    """Save a report on the last run below the present folder."""
    path = Path.cwd() / f"spark-cockpit-report-{datetime.now():%Y%m%d-%H%M%S}.md"
    try:
        text = await app.feed.report()
        await asyncio.to_thread(path.write_text, text, encoding="utf-8")
    except (CockpitError, OSError) as error:
        app.notify(clean(str(error), multiline=True), title="No report", severity="error", markup=False)
    else:
        app.notify(f"The report is in {path}; secrets are masked, read it before you send it.", markup=False)
