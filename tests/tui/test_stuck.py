"""Nothing goes on: hosts that do not answer, a profile that can't be used. The screen says so, and what is left."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from textual.widgets import Input

from cockpit.bringup.events import StepName, StepState
from cockpit.model.facts import Membership
from cockpit.tui import facts as f
from cockpit.tui.actions import ACTIONS, Context
from cockpit.tui.app import CockpitApp
from cockpit.tui.live import Live
from cockpit.tui.state import Link, LinkView, State
from cockpit.tui.store import Store
from cockpit.tui.view_app import ViewApp, open_logs
from cockpit.tui.widgets.bars import Footer
from tests.tui.scenes import Scene
from tests.tui.test_app import press, screen_text

SIZES = [(80, 24), (120, 40), (200, 50)]


def offered(app: CockpitApp) -> dict[str, bool]:
    """What the footer shows, and whether it can be used."""
    hints = list(app.cockpit.query_one(Footer).keys())
    return {key: usable for key, _, usable in hints}


def told(app: CockpitApp) -> list[str]:
    """The toasts that stand on the screen."""
    return [f"{one.title} {one.message}" for one in app._notifications]


@pytest.mark.parametrize("size", SIZES)
async def test_hosts_that_were_never_reached(size: tuple[int, int]) -> None:
    """Header, steps and lower half say who does not answer since when; only keys that do something are offered."""
    app = Scene().unreachable().app()
    async with app.run_test(size=size) as pilot:
        text = await screen_text(pilot)
        assert "asking the hosts" not in text
        assert "not asked yet" not in text.replace("Ray     · not asked yet", "").replace(
            "Load    · not asked yet", ""
        )
        assert "✗ no host answers" in text
        assert "lost" not in text
        assert "No host answers." in text
        assert "not reachable since 21:05:48, next try in 10 s" in text
        assert "Try every host now." in text
        assert list(offered(app))[:2] == ["r", "q"]
        assert not {"⏎", "a", "u", "t", "f", "l"} & set(offered(app))
        assert all(offered(app).values())


KEYS = ["enter", "a", "A", "u", "U", "O", "p", "f", "l", "t", "x", "v", "P", "exclamation_mark", "X", "ctrl+x"]


@pytest.mark.parametrize("key", KEYS)
async def test_a_key_that_does_nothing_says_why(key: str) -> None:
    """No key is silent, whether the hosts were never reached, are lost, or there is no profile at all."""
    lost = Scene().opened().lost("spark-1", "spark-2")
    for scene in (Scene().unreachable(), lost, Scene().mistaken()):
        app = scene.app()
        async with app.run_test(size=(120, 40)) as pilot:
            if scene.store.state.profile_error:
                await press(pilot, "tab")
            await press(pilot, key)
            if key == "enter" and scene.store.state.profile_error:
                # Without steps on the screen nothing has this key.
                continue
            assert len(told(app)) == 1, (key, told(app))
        assert [what for what, _ in scene.feed.asked] == ["open", "close"]


async def test_one_answer_takes_the_place_of_the_last() -> None:
    """They do not pile up over what is to be read."""
    app = Scene().unreachable().app()
    async with app.run_test(size=(120, 40)) as pilot:
        await press(pilot, "a", "l", "t")
        assert len(told(app)) == 1
        assert told(app)[0].startswith("t  prompt spark-1 is not reachable since 21:05:48")
        await press(pilot, "r")
        assert ("wake", None) in app.feed.asked  # type: ignore[attr-defined]


def test_reasons_are_sentences_in_every_state() -> None:
    """Whatever the state, an action can be used or says why not."""
    scenes = [
        Scene(),
        Scene().opened(),
        Scene().loading(),
        Scene().ready(),
        Scene().ready().lost("spark-1"),
        Scene().failed(),
        Scene().stopped(),
        Scene().surveyed(),
        Scene().unreachable(),
        Scene().mistaken(),
        Scene(read_only=True).ready(),
    ]
    for scene in scenes:
        for action in ACTIONS:
            refusal = action.refusal(Context(scene.store.state, StepName.PREFLIGHT))
            assert refusal == "" or (refusal[0].isupper() or "spark" in refusal), (action.id, refusal)
            assert refusal == "" or refusal.endswith("."), (action.id, refusal)


async def test_what_was_known_of_lost_hosts_carries_its_age() -> None:
    """A run that was ready is not told as ready, nor the steps as they were, without saying when that was."""
    scene = Scene().ready().lost("spark-1", "spark-2").later(75)
    async with scene.app().run_test(size=(200, 50)) as pilot:
        text = await screen_text(pilot)
        assert "✓ ready" not in text
        assert "was ready" in text.split("\n")[0]
        assert "no host answers" in text.split("\n")[0]
        assert "as of" in text
        ray = [line for line in text.split("\n") if "Ray     " in line]
        assert all(" ago" in line for line in ray), ray


async def test_that_nothing_ran_is_as_old_as_the_last_answer() -> None:
    """A run may have begun since, or Ray."""
    scene = Scene().opened().tell(f.MembershipSeen(Membership(False, (), error="nothing answers"))).later(1)
    async with scene.lost("spark-1", "spark-2").later(29).app().run_test(size=(120, 40)) as pilot:
        text = await screen_text(pilot)
        assert text.count("? 30 s ago: no cluster") == 2
        assert text.count("? no run 30 s ago") == 2
        assert "asked 30 s ago" in text
        assert "stand is told as it was 30 s ago" in text


async def test_a_lost_head_leaves_the_worker_live() -> None:
    """What is asked of the head is as old as its last answer; the worker's own values are not."""
    scene = Scene().loading().lost("spark-1").samples(40, lambda _second: 71.2, ["spark-2"])
    async with scene.app().run_test(size=(120, 40)) as pilot:
        text = await screen_text(pilot)
        assert "spark-1 does not answer" in text.split("\n")[0]
        assert "? was loading" in text
        assert text.count(" old") == 1


async def test_a_worker_that_is_lost_stops_nothing() -> None:
    """The steps can be run: they say themselves what they need of it."""
    app = Scene().opened().lost("spark-2").app()
    async with app.run_test(size=(120, 40)) as pilot:
        await press(pilot, "a")
        assert offered(app)["a"]
    assert ("up", (StepName.PROMPT, False)) in app.feed.asked  # type: ignore[attr-defined]


async def test_a_question_that_fails_is_told() -> None:
    """The head answers, but what is asked of it can't be told: its panel says so."""
    scene = Scene().opened().samples(3, lambda _second: 1.0).tell(f.LookFailed("the steps", "no python3"))
    async with scene.later(4).app().run_test(size=(120, 40)) as pilot:
        text = await screen_text(pilot)
        assert text.count("the steps can't be asked for 4 s: no python3") == 1
        # Asked again and again, each question in its own time: none changes its place.
        scene.tell(f.LookFailed("Ray", "late"), f.LookFailed("the steps", "no python3"))
        text = await screen_text(pilot)
        assert text.count("the steps, Ray can't be asked for 4 s") == 1
        scene.tell(f.MembershipSeen(None))
        scene.steps()
        assert "can't be asked" not in await screen_text(pilot)


async def test_hosts_that_come_back_are_told_as_that() -> None:
    """With the first answer everything is offered again."""
    scene = Scene().unreachable()
    app = scene.app()
    async with app.run_test(size=(120, 40)) as pilot:
        await press(pilot)
        for host in scene.profile.hosts:
            scene.tell(f.LinkChanged(host.name, LinkView(Link.UP, scene.clock(), 0.001)))
        scene.steps()
        text = await screen_text(pilot)
        assert "no run yet" in text.split("\n")[0]
        assert offered(app)["a"]
        assert "q" not in offered(app)


@pytest.mark.parametrize("size", SIZES)
async def test_every_mistake_of_a_profile_can_be_read(size: tuple[int, int]) -> None:
    """They are counted, each stands once, and scrolling reaches the last; r reads the file again."""
    scene = Scene().mistaken(25)
    app = scene.app()
    async with app.run_test(size=size) as pilot:
        text = await screen_text(pilot)
        assert "25 mistakes" in text
        assert "asking" not in text
        seen = set(lines_of(text))
        for _ in range(12):
            await press(pilot, "pagedown")
            seen |= set(lines_of(await screen_text(pilot)))
        assert {f"two.yaml:{line}:1" for line in range(1, 26)} <= seen
        assert [key for key, usable in offered(app).items() if usable][:2] == ["r", "q"]
        assert not {"⏎", "a", "u", "t", "+", "esc"} & set(offered(app))
        assert ("reopen", scene.profile.name) not in scene.feed.asked
        await press(pilot, "r")
        assert ("reopen", scene.profile.name) in scene.feed.asked
        scene.opened()
        text = await screen_text(pilot)
        assert "mistake" not in text
        assert app.cockpit.steps.has_focus


def lines_of(text: str) -> list[str]:
    """The words of a screen."""
    return text.split()


def test_a_profile_that_broke_takes_its_hosts_along() -> None:
    """Nothing of the profile as it was is shown as if it were still asked."""
    state: State = Scene().ready().mistaken().store.state
    assert (state.hosts, state.run, state.profile) == ((), None, None)
    assert all(step.state is None for step in state.steps)


@pytest.mark.parametrize(("keys", "way"), [((), "q  leave"), (("t",), "^q  leave")])
async def test_ctrl_c_says_how_to_leave(keys: tuple[str, ...], way: str) -> None:
    """The key that the help names; where letters are text the one that leaves from everywhere."""
    app = Scene().ready().app()
    async with app.run_test(size=(120, 40)) as pilot:
        await press(pilot, *keys)
        assert isinstance(app.focused, Input) is bool(keys)
        await press(pilot, "ctrl+c")
        assert [one.partition(" Leave;")[0] for one in told(app)] == [way]
        await pilot.press("ctrl+q" if way.startswith("^") else "q")
        await pilot.pause()
        assert not app.is_running


async def test_ctrl_c_in_the_log_view_says_the_same(tmp_path: Path) -> None:
    """There q leaves too, but while a search is typed."""
    log = tmp_path / "serve.log"
    log.write_text("line\n" * 5)
    app = ViewApp(open_logs([log]))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        await pilot.press("ctrl+c", "slash", "ctrl+c")
        await pilot.pause()
        assert [one.title for one in app._notifications] == ["q  leave", "^q  leave"]
        await pilot.press("ctrl+q")
        await pilot.pause()
        assert not app.is_running


async def test_a_step_can_be_run_as_soon_as_it_is_offered(nowhere: Path) -> None:
    """With the profile there is a session: no key falls between. The hosts refuse, and the step says so."""
    store = Store()
    live = Live(store)
    offered_without_session = []
    apply = store.apply

    def watched(fact: f.Fact) -> None:
        apply(fact)
        if store.state.profile is not None and live.session is None:
            offered_without_session.append(fact)

    store.apply = watched  # type: ignore[method-assign]
    await live.open(str(nowhere))
    live.run_step(StepName.CONNECT)
    assert live.busy
    while live.busy:
        await asyncio.sleep(0.02)
    step = store.state.step(StepName.CONNECT)
    await live.close()
    assert offered_without_session == []
    assert (step.state, "Connection refused" in step.reason) == (StepState.UNKNOWN, True)
