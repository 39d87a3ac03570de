"""How the program ends when it is told to by a signal, and comes back after a suspension: the terminal is given
back as it was, and drawn whole."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

from textual.app import App

PATIENCE = 5
"""Seconds until the program is ended all the same: a terminal that is gone may take nothing any more."""


def leave_at_signals(app: App[Any]) -> None:
    """Leave in order at SIGTERM and SIGHUP, whose default would leave the terminal in the app's modes."""

    def leave() -> None:
        signal.alarm(PATIENCE)
        app.exit()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, leave)


def redraw_when_resumed(app: App[Any]) -> None:
    """After a suspension the terminal is empty: all is drawn anew, not what changed alone."""

    def resumed(_app: object) -> None:
        for screen in app.screen_stack:
            screen.refresh(layout=True)
            for widget in screen.walk_children():
                widget.refresh()

    app.app_resume_signal.subscribe(app, resumed)
