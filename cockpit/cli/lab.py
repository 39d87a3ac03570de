"""The lab's verb."""

from __future__ import annotations

import sys

from cockpit.cli import show
from cockpit.cli.output import say


class Progress:
    """Shows what the lab is doing: a line a stage, a moving count at a terminal."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, message: str, done: int | None = None, total: int | None = None) -> None:
        """Tell of ``message``; ``done`` of ``total`` in bytes where known."""
        if message == self._last and not sys.stderr.isatty():
            return
        self._last = message
        count = f" {done / 1e6:.0f}" + (f" of {total / 1e6:.0f} MB" if total else " MB") if done else ""
        say(show.safe(message) + count, err=True)


def lab(action: str, *, as_json: bool) -> None:
    """Bring the lab up or down, or tell how it stands."""
    from cockpit.lab.lab import down, status, up

    info = up(Progress()) if action == "up" else down() if action == "down" else status()
    if as_json:
        show.as_json(info.to_json())
        return
    say(show.safe(str(info)))
    if action == "down":
        say("The hosts' runs are gone with them; what the cockpit kept of their logs stays.", err=True)


def open_lab() -> None:
    """Bring the lab up and open the cockpit on it."""
    from cockpit.cli.screen import open_screen
    from cockpit.lab.lab import up

    info = up(Progress())
    open_screen(info.name, read_only=False)
