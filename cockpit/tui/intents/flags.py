"""The editor of flags, and the changes that the judged flags propose."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from cockpit.logs.sanitise import clean
from cockpit.model.errors import CockpitError

if TYPE_CHECKING:
    from cockpit.tui.app import CockpitApp


def edit_flags(app: CockpitApp) -> None:
    """Open the editor on the profile's file as it is now."""
    app.run_worker(_edit(app), name="flags", group="flags", exclusive=True, exit_on_error=False)


async def _edit(app: CockpitApp) -> None:
    import asyncio

    from cockpit.bringup import flag_cache
    from cockpit.bringup.flag_draft import open_draft
    from cockpit.tui.flags_screen import FlagsScreen

    profile = app.state.profile
    if profile is None:
        return
    try:
        draft = await asyncio.to_thread(open_draft, profile)
        schema = await asyncio.to_thread(flag_cache.offline, profile)
    except (CockpitError, OSError) as error:
        app.notify(clean(str(error), multiline=True), title="No editor", severity="error", markup=False)
        return
    saved = await app.push_screen_wait(FlagsScreen(draft, schema, app.feed.flag_desk()))
    await _saved(app, saved)


async def _saved(app: CockpitApp, path: Path | None) -> None:
    """The cockpit goes on with the profile as it was saved; not under a step that runs with the old one."""
    if path is None:
        return
    if app.busy:
        app.notify("A step is running with the profile as it was: r asks anew when it has ended.", markup=False)
        return
    await app.feed.reopen(str(path))


def apply_flags(app: CockpitApp) -> None:
    """Apply what the judged flags propose, and judge anew."""
    from cockpit.model.finding import profile_fixes
    from cockpit.tui.fixing import apply_changes_of

    async def work() -> None:
        if await apply_changes_of(app, profile_fixes(app.state.flags.problems)):
            app.feed.judge_flags()

    app.run_worker(work(), name="fix", group="fix", exclusive=True, exit_on_error=False)


INTENTS: Final = {"edit_flags": edit_flags, "apply_flags": apply_flags}
