"""How the program ends when it is told to by a signal: the terminal is given back as it was."""

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
