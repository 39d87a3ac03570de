"""A newcomer at the real app on real hosts: presses only keys that the footer shows, waits for what is shown."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from textual.pilot import Pilot

from cockpit.bringup.events import StepName, StepState
from cockpit.tui.app import CockpitApp
from cockpit.tui.state import State
from cockpit.tui.widgets.bars import Footer

KEYS = {
    "⏎": "enter",
    "esc": "escape",
    "?": "question_mark",
    "!": "exclamation_mark",
    "+": "plus",
    "^p": "ctrl+p",
}


@dataclass
class Journey:
    """The app as it runs, and its pilot."""

    app: CockpitApp
    pilot: Pilot[None]

    @property
    def state(self) -> State:
        """What the app knows."""
        return self.app.state

    @property
    def text(self) -> str:
        """All that is on the screen."""
        return "\n".join(strip.text for strip in self.app.screen._compositor.render_strips())

    @property
    def footer(self) -> dict[str, str]:
        """The keys that the footer shows and that can be used, with what they do."""
        shown = self.text.split("\n")[-1]
        keys = self.app.screen.query_one(Footer).keys()
        return {key: label for key, label, usable in keys if usable and f" {key} {label} " in shown}

    async def until(self, wanted: Callable[[State], bool], what: str, seconds: float = 300.0) -> None:
        """Wait until ``wanted`` holds of the state and is painted."""
        stop = monotonic() + seconds
        while not wanted(self.state):
            assert monotonic() < stop, f"not within {seconds:g} s: {what}\n{self.text}"
            await asyncio.sleep(0.1)
        await self.painted()

    async def painted(self) -> None:
        """Wait until what is known now is on the screen."""
        epoch = self.state.epoch
        self.app.store.urgent = epoch
        while self.app._painted < epoch:
            await asyncio.sleep(0.05)
        await self.pilot.pause()

    async def press(self, key: str) -> None:
        """Press a key, as the footer has it."""
        assert key in self.footer, f"the footer does not offer {key}:\n{self.text}"
        await self.pilot.press(KEYS.get(key, key))
        await self.pilot.pause()

    def step(self, name: StepName) -> StepState | None:
        """How a step stands."""
        return self.state.step(name).state


@asynccontextmanager
async def journey(profile: Path | str, size: tuple[int, int] = (120, 40)) -> AsyncIterator[Journey]:
    """The real app on ``profile``, opened."""
    app = CockpitApp(str(profile), remembers=False)
    async with app.run_test(size=size) as pilot:
        made = Journey(app, pilot)
        await made.until(
            lambda state: state.looked_at is not None and app.cockpit.drawing, "the first look", 90
        )
        yield made
