"""Opens the screen."""

from __future__ import annotations


def open_screen(profile: str | None, *, read_only: bool) -> None:
    """Open the cockpit on ``profile``."""
    from cockpit.tui.app import CockpitApp

    CockpitApp(profile, read_only=read_only).run()
