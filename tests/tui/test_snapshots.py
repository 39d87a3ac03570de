"""Every main state of the screen as a picture, at the three sizes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from textual.pilot import Pilot

from cockpit.tui.app import CockpitApp
from cockpit.tui.widgets.host_panel import HostPanel
from cockpit.tui.widgets.prompt_pane import PromptPane
from tests.tui.scenes import Scene, hostile, replay_at

SIZES = [(80, 24), (120, 40), (200, 50)]
Compare = Callable[..., bool]
Before = Callable[[Pilot[Any]], Awaitable[None]]


def settled(app: CockpitApp) -> bool:
    """Whether the state is painted, with all its hosts and charts."""
    panels = app.cockpit.query(HostPanel)
    return app.cockpit.drawing and app._painted == app.state.epoch and len(panels) == len(app.state.hosts)


async def settle(pilot: Pilot[Any]) -> None:
    """Wait until what was begun is shown: workers, charts, layout."""
    app = pilot.app
    assert isinstance(app, CockpitApp)
    app.store.urgent = app.state.epoch
    while not settled(app):
        await pilot.pause(0.01)
    await app.workers.wait_for_complete()
    await pilot.pause()
    for pane in app.screen_stack[0].query(PromptPane):
        pane.query_one("Input").cursor_blink = False  # type: ignore[attr-defined]
    await pilot.pause()


def pressing(*keys: str) -> Before:
    """Settle, press keys, settle."""

    async def before(pilot: Pilot[Any]) -> None:
        await settle(pilot)
        for key in keys:
            await pilot.press(key)
            await settle(pilot)

    return before


@pytest.fixture(params=SIZES, ids=["80x24", "120x40", "200x50"])
def size(request: pytest.FixtureRequest) -> tuple[int, int]:
    """One of the three sizes."""
    found: tuple[int, int] = request.param
    return found


def test_empty(snap_compare: Compare, size: tuple[int, int]) -> None:
    """Both hosts answer, nothing runs."""
    scene = Scene().opened().samples(5, lambda _second: 0.0)
    assert snap_compare(scene.app(), terminal_size=size, run_before=settle)


def test_weights(snap_compare: Compare, size: tuple[int, int]) -> None:
    """Rank 0 tells its shards, rank 1 does not."""
    assert snap_compare(Scene().loading().app(), terminal_size=size, run_before=settle)


@pytest.mark.parametrize("second", [60.0, 85.0, 110.0, 150.0, 165.0, 180.0])
def test_recorded_load(snap_compare: Compare, second: float) -> None:
    """The recorded cold load: connecting, weights, compiling, graphs, the silence after them, ready."""
    app, _replay = replay_at(second)
    assert snap_compare(app, terminal_size=(120, 40), run_before=settle)


def test_serving(snap_compare: Compare, size: tuple[int, int]) -> None:
    """Ready, with the charts of /metrics."""
    assert snap_compare(Scene().ready().app(), terminal_size=size, run_before=pressing("v"))


def test_answered(snap_compare: Compare, size: tuple[int, int]) -> None:
    """A prompt with its answer."""
    assert snap_compare(Scene().answered().app(), terminal_size=size, run_before=pressing("t"))


def test_failed(snap_compare: Compare, size: tuple[int, int]) -> None:
    """A run that died shows why."""
    assert snap_compare(Scene().failed().app(), terminal_size=size, run_before=settle)


def test_dead_host(snap_compare: Compare, size: tuple[int, int]) -> None:
    """One host is gone, the other lives on."""
    assert snap_compare(Scene().dead_host().app(), terminal_size=size, run_before=settle)


def test_unreachable(snap_compare: Compare, size: tuple[int, int]) -> None:
    """Neither host was ever reached."""
    assert snap_compare(Scene().unreachable().app(), terminal_size=size, run_before=settle)


def test_lost_while_ready(snap_compare: Compare) -> None:
    """Both hosts are lost: what was known stands with its age."""
    app = Scene().ready().lost("spark-1", "spark-2").later(75).app()
    assert snap_compare(app, terminal_size=(120, 40), run_before=settle)


def test_mistaken(snap_compare: Compare, size: tuple[int, int]) -> None:
    """A profile with more mistakes than there is room for."""
    assert snap_compare(Scene().mistaken().app(), terminal_size=size, run_before=settle)


def test_hostile(snap_compare: Compare, size: tuple[int, int]) -> None:
    """Hostile text in every field."""
    assert snap_compare(hostile().app(), terminal_size=size, run_before=settle)


def test_preflight_refused(snap_compare: Compare, size: tuple[int, int]) -> None:
    """What stands in the way, with its remedies and the profile's change as a diff."""
    assert snap_compare(Scene().surveyed().app(), terminal_size=size, run_before=settle)


def test_preflight_details(snap_compare: Compare) -> None:
    """All verdicts and the cabling."""
    app = Scene().surveyed().app()
    assert snap_compare(app, terminal_size=(120, 40), run_before=pressing("escape", "d"))


def test_stopped(snap_compare: Compare) -> None:
    """A run that was stopped is told as that."""
    assert snap_compare(Scene().stopped().app(), terminal_size=(120, 40), run_before=settle)


def test_details(snap_compare: Compare) -> None:
    """A step's exact commands."""
    scene = Scene().opened().samples(2, lambda _second: 0.0)
    assert snap_compare(scene.app(), terminal_size=(120, 40), run_before=pressing("down", "down", "down", "d"))


def test_confirmation(snap_compare: Compare) -> None:
    """Undoing everything shows its commands and asks for the host's name."""
    assert snap_compare(Scene().ready().app(), terminal_size=(120, 40), run_before=pressing("U"))


def test_help(snap_compare: Compare) -> None:
    """All keys."""
    assert snap_compare(Scene().opened().app(), terminal_size=(120, 40), run_before=pressing("question_mark"))


def test_no_color(snap_compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR: nothing is told by colour alone."""
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(Scene().dead_host().app(), terminal_size=(120, 40), run_before=settle)


@pytest.mark.parametrize("theme", ["light", "high-contrast", "monochrome"])
def test_themes(snap_compare: Compare, monkeypatch: pytest.MonkeyPatch, theme: str) -> None:
    """The other themes."""
    monkeypatch.setenv("SPARK_COCKPIT_THEME", theme)
    assert snap_compare(Scene().loading().app(), terminal_size=(120, 40), run_before=settle)
