"""Applies a finding's fix to the profile's file, and saves reports."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from cockpit.logs.sanitise import clean
from cockpit.model.errors import CockpitError
from cockpit.model.finding import Fix

if TYPE_CHECKING:
    from cockpit.tui.app import CockpitApp


async def apply_fix(app: CockpitApp, *, relaunch: bool) -> None:
    """Write the fixes into the profile (a shipped one into a copy of the user's); with ``relaunch`` run every
    step then."""
    if await apply_changes_of(app, app.state.fixes):
        app.action_do("back")
        if relaunch:
            app.feed.up()


async def apply_changes_of(app: CockpitApp, fixes: Sequence[Fix]) -> bool:
    """Make the changes in the profile's file and go on with it; whether it was done."""
    from cockpit.bringup.profile_edit import apply_changes, own_copy

    profile = app.state.profile
    if profile is None or not fixes:
        return False
    try:
        path = await asyncio.to_thread(own_copy, profile)
        await asyncio.to_thread(apply_changes, path, fixes)
    except (CockpitError, OSError) as error:
        app.notify(clean(str(error), multiline=True), title="Not applied", severity="error", markup=False)
        return False
    app.notify(clean(f"Changed {path}."), markup=False)
    await app.feed.reopen(str(path))
    return True


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
