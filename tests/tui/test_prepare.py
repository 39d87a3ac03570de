"""Preparation in the screen: shown, asked, followed, ended. The feed plays what the hosts would tell."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from textual.pilot import Pilot

from cockpit.bringup.events import Outcome, StepState
from cockpit.bringup.preparation.preparer import Confirm, Show
from cockpit.bringup.preparation.task import Kind, Task, TaskChanged, TaskProgress, Tell
from cockpit.model.command import script
from cockpit.model.errors import CockpitError
from cockpit.tui.prepare_screen import PrepareScreen
from tests.tui.scenes import HOSTILE, Scene
from tests.tui.test_snapshots import settle

COPY = Task(
    Kind.MODEL,
    "spark-2",
    "copy Qwen/Qwen3 from spark-1",
    (script("spark-2", "rsync --partial from/ to/", "copy the model's files from spark-1"),),
    26_400_000_000,
    "spark-1",
)
CACHE = Task(Kind.CACHE, "spark-1", f"drop the page cache {HOSTILE}", (), by_hand="sudo wants a password")


async def press(pilot: Pilot[Any], *keys: str) -> None:
    """Press keys; the preparation is a worker that lasts, so that its end is not waited for."""
    if not isinstance(pilot.app.screen, PrepareScreen):
        await settle(pilot)
    for key in keys:
        await pilot.press(key)
        await pilot.pause(0.3)


async def screen_text(pilot: Pilot[Any]) -> str:
    """All that is on the screen, as text."""
    await pilot.pause(0.3)
    return "\n".join(strip.text for strip in pilot.app.screen._compositor.render_strips())


class Played:
    """A preparation of two tasks; the copy goes on until it is let go."""

    def __init__(self) -> None:
        self.answers: list[bool] = []
        self.go_on = asyncio.Event()
        self.cancelled = False

    async def __call__(self, confirm: Confirm, show: Show, tell: Tell) -> Outcome:
        show([COPY, CACHE], ["spark-1: something can't be told"])
        self.answers.append(await confirm(COPY))
        tell(TaskChanged(CACHE, StepState.REFUSED, CACHE.by_hand))
        if not self.answers[-1]:
            tell(TaskChanged(COPY, StepState.REFUSED, "declined; nothing was changed"))
            return Outcome.REFUSED
        tell(TaskChanged(COPY, StepState.RUNNING))
        tell(TaskProgress(COPY, 13_200_000_000, 26_400_000_000, rate=450e6, eta=29.3, doing="copy"))
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        tell(TaskChanged(COPY, StepState.DONE, "12 files are the same as on spark-1"))
        return Outcome.REFUSED


async def test_a_task_is_shown_asked_followed_and_done() -> None:
    scene, played = Scene().surveyed(), Played()
    scene.feed.preparation = played
    async with scene.app().run_test(size=(120, 40)) as pilot:
        await press(pilot, "p")
        shown = await screen_text(pilot)
        assert "copy Qwen/Qwen3 from spark-1" in shown and "26.40 GB" in shown
        assert "rsync --partial from/ to/" in shown, "the exact command, before it runs"
        assert "something can't be told" in shown and "\x1b" not in shown
        assert played.answers == []
        await press(pilot, "enter")
        running = await screen_text(pilot)
        assert "13.20 GB of 26.40 GB, 450.00 MB/s, 29 s left" in running and "█" in running
        assert "sudo wants a password" in running and "end it" in running
        played.go_on.set()
        await pilot.pause(0.3)
        done = await screen_text(pilot)
        assert "12 files are the same as on spark-1" in done and "Something is left to do." in done
        await press(pilot, "escape")
        assert not isinstance(pilot.app.screen, PrepareScreen)
    assert played.answers == [True]


async def test_what_is_declined_is_not_done() -> None:
    scene, played = Scene().surveyed(), Played()
    scene.feed.preparation = played
    async with scene.app().run_test(size=(80, 24)) as pilot:
        await press(pilot, "p", "n")
        await pilot.pause(0.3)
        assert "nothing was changed" in await screen_text(pilot)
    assert played.answers == [False]


async def test_leaving_ends_the_copy() -> None:
    scene, played = Scene().surveyed(), Played()
    scene.feed.preparation = played
    async with scene.app().run_test(size=(120, 40)) as pilot:
        await press(pilot, "p", "enter", "escape")
        assert not isinstance(pilot.app.screen, PrepareScreen)
    assert played.cancelled


@pytest.mark.parametrize(
    ("error", "told"), [("The hosts are not connected.", "not connected"), ("", "Nothing is to")]
)
async def test_nothing_to_do_and_no_way_to_do_it(error: str, told: str) -> None:
    async def prepare(_confirm: Confirm, show: Show, _tell: Tell) -> Outcome:
        if error:
            raise CockpitError(error)
        show([], [])
        return Outcome.READY

    scene = Scene().surveyed()
    scene.feed.preparation = prepare
    async with scene.app().run_test(size=(120, 40)) as pilot:
        await press(pilot, "p")
        await pilot.pause(0.3)
        assert told in await screen_text(pilot)
