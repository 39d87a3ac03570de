"""Says on standard error what is being asked while an answer takes its time."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from cockpit.cli.output import name, rewrite, say

MARKS = "◐◓◑◒"
EVERY = 0.5


@asynccontextmanager
async def asking(what: str) -> AsyncIterator[None]:
    """``what`` while the block runs: on a terminal a line that moves and goes away in the end, else one plain line."""
    text = name(what)
    if not sys.stderr.isatty():
        say(text, err=True)
        yield
        return
    moving = asyncio.create_task(_move(text))
    try:
        yield
    finally:
        moving.cancel()
        with suppress(asyncio.CancelledError):
            await moving
        rewrite(err=True)


async def _move(text: str) -> None:
    began, turn = time.monotonic(), 0
    while True:
        spent = time.monotonic() - began
        rewrite(f"{MARKS[turn % len(MARKS)]} {text} {spent:.0f} s", err=True)
        turn += 1
        await asyncio.sleep(EVERY)
