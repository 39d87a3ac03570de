"""Preparation by the real screen on two real hosts: `p`, the question, a copy, its end."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from cockpit.tui.app import CockpitApp
from cockpit.tui.prepare_screen import PrepareScreen
from tests.e2e.test_rig_prepare import make_model, profile, shards_of
from tests.rig.rig import Rig
from tests.tui.test_prepare import screen_text

__all__ = ["profile"]

pytestmark = [pytest.mark.rig, pytest.mark.full, pytest.mark.timeout(300)]


async def test_the_model_is_copied_by_a_key(
    plain_rig: Rig, profile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("STATE", "CONFIG", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    head, worker = plain_rig.hosts.values()
    make_model(head, 5_000_000)
    app = CockpitApp(str(profile), remembers=False)
    async with app.run_test(size=(120, 40)) as pilot:

        async def until(text: str, limit: float = 60) -> None:
            end = time.monotonic() + limit
            while text not in await screen_text(pilot):
                assert time.monotonic() < end, await screen_text(pilot)
                await pilot.pause(0.2)

        await until("Preflight")
        end = time.monotonic() + 60
        while not (
            app.opened
            and (session := app.feed.session) is not None  # type: ignore[attr-defined]
            and all(host.connected for host in session.hosts.values())
        ):
            assert time.monotonic() < end
            await pilot.pause(0.2)
        await pilot.press("p")
        await until("do it")
        assert isinstance(app.screen, PrepareScreen)
        await until("rsync")
        while app.screen.seen.ended is None:  # type: ignore[attr-defined]
            if app.screen.seen.asked is not None:  # type: ignore[attr-defined]
                await pilot.press("enter")
            await pilot.pause(0.2)
        await until("are the same as on spark-1")
    assert shards_of(worker) == shards_of(head)
