"""The editor of flags on the lab: the real vLLM on the head judges what is typed."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from cockpit.bringup.profiles import find
from cockpit.lab.lab import LabInfo
from cockpit.model.finding import Severity
from cockpit.tui.app import CockpitApp
from cockpit.tui.flags_screen import FlagsScreen
from cockpit.tui.state import Link

pytestmark = [pytest.mark.lab, pytest.mark.full]


async def until(pilot: Pilot[Any], what: str, done: Any, seconds: float = 240) -> None:
    """Wait until ``done()``."""
    try:
        async with asyncio.timeout(seconds):
            while not done():
                await pilot.pause(0.1)
    except TimeoutError:
        pytest.fail(f"{what} did not come within {seconds:g} s")


@pytest.fixture
def profile(lab_info: LabInfo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The lab's profile, in a file of the test's own."""
    for name in ("STATE", "CONFIG"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    path = tmp_path / "mine.yaml"
    shutil.copy(lab_info.profile, path)
    return path


async def test_a_wrong_value_is_refused_by_the_real_parser_mended_and_saved(profile: Path) -> None:
    """The parser's own words come while one types; taken back, another flag set, saved with all comments."""
    before = profile.read_text()
    app = CockpitApp(str(profile), remembers=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(
            pilot,
            "a connection to both hosts",
            lambda: [host.link.state for host in app.state.hosts] == [Link.UP, Link.UP],
        )
        await pilot.press("e")
        await until(pilot, "the editor", lambda: isinstance(app.screen, FlagsScreen))
        screen = app.screen
        assert isinstance(screen, FlagsScreen)
        await until(pilot, "vLLM's first answer", lambda: screen.view.check is not None or screen.view.error)
        assert screen.view.error == ""
        assert screen.view.check is not None
        assert screen.view.schema.source == "runtime"
        assert screen.view.check.vllm.startswith("0.32.0")

        await pilot.press(*"/--kv-cache-dtype=fp7", "enter")
        await until(pilot, "vLLM's words", lambda: _told(screen, "kv-cache-dtype"))
        (error,) = _told(screen, "kv-cache-dtype")
        assert "argument --kv-cache-dtype: invalid choice: 'fp7' (choose from" in error.message
        assert error.place is not None
        assert (
            screen.view.draft.data.decode().split("\n")[error.place.line - 1].strip() == "kv-cache-dtype: fp7"
        )
        await pilot.press("x")
        await until(pilot, "the change", lambda: not _told(screen, "kv-cache-dtype"))
        assert str(screen.view.draft.profile.serve.flags["kv-cache-dtype"]).startswith("fp8")
        await pilot.press("u", "u")
        assert screen.view.draft.data.decode() == before

        await pilot.press(*"/max-model-len", "enter", *["backspace"] * 8, *"99999")
        await until(pilot, "the configuration's words", lambda: _told(screen, "max-model-len"))
        (error,) = _told(screen, "max-model-len")
        assert "greater than the derived max_model_len" in error.message
        await pilot.press(*["backspace"] * 5, *"1k")
        await until(pilot, "the verdict on the mended value", lambda: not _told(screen, "max-model-len"))
        assert screen.view.took is not None
        print(f"the last answer took {screen.view.took:.2f} s")
        await pilot.press("enter", "ctrl+s")
        await until(pilot, "the file", lambda: profile.read_text() != before)
        await pilot.press("escape")
        await until(pilot, "the cockpit", lambda: not isinstance(app.screen, FlagsScreen))
        await until(
            pilot,
            "the profile",
            lambda: app.state.profile and app.state.profile.serve.flags["max-model-len"] == "1k",
        )
    assert find(str(profile)).serve.flags["max-model-len"] == "1k"
    changed = [line for line in profile.read_text().split("\n") if line not in before.split("\n")]
    assert [line.split("#")[0].strip() for line in changed] == ["max-model-len: 1k"]


def _told(screen: FlagsScreen, flag: str) -> list[Any]:
    """The errors about a flag, once what is typed is judged."""
    view = screen.view
    if view.judging is not None or view.judged != view.trial().data:
        return []
    return [one for one in view.problems if one.flag == flag and one.severity is Severity.ERROR]
