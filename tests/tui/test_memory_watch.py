"""The memory guard on the screen: its reserve, the trend, the early warning."""

from __future__ import annotations

import pytest

from cockpit.model.profile import GuardSpec, GuardWhile
from cockpit.tui import facts as f
from cockpit.tui import memory_watch
from cockpit.tui.host_text import memory_lines
from cockpit.tui.state import HostView, State
from tests.tui.scenes import GIB, Scene, guard, profile, sample


def seen(scene: Scene) -> tuple[HostView, State]:
    """The first host, and the state."""
    return scene.store.state.hosts[0], scene.store.state


def told(scene: Scene) -> str:
    """The guard's line."""
    line = memory_watch.guard_line(*seen(scene))
    return "" if line is None else line.plain


def test_nothing_is_guarded_without_a_run() -> None:
    assert told(Scene().opened().samples(3, lambda _second: 0.0)) == ""


def test_the_guard_tells_its_reserve_and_the_lowest() -> None:
    assert told(Scene().loading()) == "┃ 8.0 GiB kept free · lowest 35.6 GiB"


def test_the_reserve_stands_in_the_bar() -> None:
    """At the total less the reserve, whether or not the guard was seen yet; the profile's own where it has one."""
    scene = Scene().opened().samples(1, lambda _second: 20.0)
    host, state = seen(scene)
    assert memory_watch.reserve(host, state) == round(119.7 * GIB) // 15
    bar = memory_lines(host, state, 80)[0].plain
    assert bar.index("┃") > bar.index("┊")
    off = profile(serve=profile().serve.__class__("m", "m", {}, guard=GuardSpec(during=GuardWhile.OFF)))
    host, state = seen(Scene(profile=off).opened().samples(1, lambda _second: 20.0))
    assert memory_watch.reserve(host, state) is None
    assert "┃" not in memory_lines(host, state, 80)[0].plain


def test_memory_that_runs_out_is_warned_of_early() -> None:
    """The trend of the last seconds says when the reserve will be reached."""
    scene = Scene().loading().samples(20, lambda second: 71.0 + second)
    host, state = seen(scene)
    left = memory_watch.time_left(host, state)
    available = 119.7 - 3.1 - 90.0
    assert left == pytest.approx(available - 7.98, abs=1.0)
    assert told(scene) == "▲ reserve of 8.0 GiB in ~20 s, at 1.0 GiB/s"


def test_low_memory_that_stands_is_warned_of() -> None:
    scene = Scene().loading().samples(20, lambda _second: 104.0)
    assert told(scene) == "▲ 12.6 GiB available, reserve 8.0 GiB"


def test_memory_that_is_given_back_is_no_trend() -> None:
    scene = Scene().loading().samples(20, lambda second: 71.0 - second)
    assert memory_watch.time_left(*seen(scene)) is None


def test_a_guard_that_acted_says_why_after_the_end() -> None:
    """For the run it guarded alone."""
    scene = Scene().loading()
    run = "20261130-202600-7f3a"
    acted = guard(scene.clock(), state="stopped", reason="available memory 7.1 GiB", run=f"runs/{run}")
    scene.tell(f.GuardTold("spark-1", acted), f.RunSeen(run, False, False, 137, scene.clock()))
    assert told(scene) == "✗ it ended the ranks: available memory 7.1 GiB"
    scene.tell(f.RunSeen("20261130-210000-beef", False, False, 0, scene.clock()))
    assert told(scene) == ""


def test_a_guard_that_is_not_heard_of_is_told() -> None:
    scene = Scene().loading()
    scene.tell(f.GuardTold("spark-1", guard(scene.clock(), state="unknown", reason="not heard of")))
    assert told(scene) == "▲ unknown: not heard of"
    assert sample(1.0, 1.0).memory.total > 0


def test_a_guard_of_the_load_warns_no_more_when_the_model_is_ready() -> None:
    """By default it watches the load alone; one that watches the serving goes on."""
    scene = Scene().ready().samples(20, lambda _second: 104.0)
    assert told(scene) == "over: it watched the load"
    serving = profile(serve=profile().serve.__class__("m", "m", {}, guard=GuardSpec(during=GuardWhile.SERVING)))
    assert told(Scene(profile=serving).ready().samples(20, lambda _second: 104.0)).startswith("▲ 12.6 GiB")
