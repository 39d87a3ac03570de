"""The app itself, driven by keys."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from cockpit.bringup.events import StepChanged, StepName, StepState
from cockpit.logs.sources import Kind, Reach, Source
from cockpit.model.command import Command
from cockpit.model.finding import Evidence
from cockpit.model.profile import HostSpec, Role
from cockpit.tui import facts as f
from cockpit.tui import themes
from cockpit.tui.actions import ACTIONS
from cockpit.tui.app import CockpitApp
from cockpit.tui.dialogs import Confirm, ConfirmHost, Help
from cockpit.tui.load_text import load_lines
from cockpit.tui.state import State
from cockpit.tui.widgets.host_panel import HostPanel
from cockpit.tui.widgets.prompt_pane import PromptPane
from tests.tui.scenes import Scene, hostile, profile, replay_at
from tests.tui.test_snapshots import settle


async def screen_text(pilot: Pilot[Any]) -> str:
    """All that is on the screen, as text."""
    await settle(pilot)
    return "\n".join(strip.text for strip in pilot.app.screen._compositor.render_strips())


async def press(pilot: Pilot[Any], *keys: str) -> None:
    """Press keys, and let each have its effect."""
    await settle(pilot)
    for key in keys:
        await pilot.press(key)
        await settle(pilot)


async def test_keys_become_intents() -> None:
    """Enter runs the selected step, ``a`` all, ``A`` up to the selected one."""
    scene = Scene().opened()
    async with scene.app().run_test(size=(120, 40)) as pilot:
        await press(pilot, "down", "down", "enter", "A", "a", "r")
    assert scene.feed.asked[1:-1] == [
        ("run_step", StepName.CONTAINERS),
        ("up", (StepName.CONTAINERS, False)),
        ("up", (StepName.PROMPT, False)),
        ("wake", None),
    ]


async def test_the_stacks_are_taken_by_a_key() -> None:
    """``P`` asks for the ranks' stacks and shows why; not in read-only mode."""
    for read_only, asked in ((False, [("explain", "stacks")]), (True, [])):
        scene = Scene(read_only=read_only).ready()
        async with scene.app().run_test(size=(120, 40)) as pilot:
            await press(pilot, "P")
        assert [one for one in scene.feed.asked if one[0] == "explain"] == asked


async def test_read_only_starts_nothing() -> None:
    """Every key that starts or changes something does nothing."""
    scene = Scene(read_only=True).ready()
    async with scene.app().run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        assert "read only" in await screen_text(pilot)
        await press(pilot, "enter", "a", "A", "u", "U", "O", "f")
        assert not isinstance(pilot.app.screen, Confirm | ConfirmHost)
    assert [what for what, _ in scene.feed.asked] == ["open", "close"]


async def test_undo_needs_the_hosts_name() -> None:
    """A wrong name does nothing, the right one does it."""
    scene = Scene().ready()
    async with scene.app().run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        app = pilot.app
        assert isinstance(app, CockpitApp)
        app.cockpit.steps.selected = StepName.LAUNCH
        await settle(pilot)
        await press(pilot, "u")
        assert isinstance(pilot.app.screen, ConfirmHost)
        pilot.app.screen.query_one(Input).value = "spark-9"
        await press(pilot, "enter")
        assert isinstance(pilot.app.screen, ConfirmHost)
        pilot.app.screen.query_one(Input).value = "spark-1"
        await press(pilot, "enter")
        assert not isinstance(pilot.app.screen, ConfirmHost)
    assert ("undo_step", StepName.LAUNCH) in scene.feed.asked


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)], ids=["80x24", "120x40", "200x50"])
async def test_dialogs_tell_their_keys(size: tuple[int, int]) -> None:
    """However much a dialog has to say, its keys are on the screen; commands that have no room can be reached."""
    async with Scene().ready().app().run_test(size=size) as pilot:
        await settle(pilot)
        await press(pilot, "question_mark")
        assert "esc close" in await screen_text(pilot)
        commands = [Command("spark-1", ("true",), f"do the thing numbered {number:02}") for number in range(60)]
        await pilot.app.push_screen(ConfirmHost("Undo every step?", "spark-1", commands))
        await settle(pilot)
        text = await screen_text(pilot)
        assert "esc leave it" in text
        assert "↑ ↓ more" in text
        assert "numbered 00" in text
        await pilot.press(*["down"] * 60)
        assert "numbered 59" in await screen_text(pilot)


async def test_quitting_asks_only_while_a_step_runs() -> None:
    """While the runner works, leaving is asked about; it then detaches."""
    scene = Scene().loading()
    scene.feed.busy = True
    async with scene.app().run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await press(pilot, "q")
        assert isinstance(pilot.app.screen, Confirm)
        assert "detaches" in await screen_text(pilot)
        await press(pilot, "escape")
        assert pilot.app.is_running
        scene.feed.busy = False
        await pilot.press("q")
        await pilot.pause()
    assert ("down", None) not in scene.feed.asked


async def test_the_prompt_is_sent_with_its_parameters() -> None:
    """Parameters stay changed; an empty line sends the profile's own prompt; up recalls."""
    scene = Scene().ready()
    async with scene.app().run_test(size=(120, 40)) as pilot:
        await press(pilot, "t")
        line = pilot.app.screen.query_one("#prompt Input", Input)
        assert line.has_focus
        line.value = "/max_tokens 7"
        await press(pilot, "enter")
        assert "/max_tokens 7" in await screen_text(pilot)
        line.value = "/max_tokens many"
        await press(pilot, "enter")
        line.value = "Hello [red]you"
        await press(pilot, "enter", "enter")
        await press(pilot, "escape")
        assert not line.has_focus
    assert [ask for ask in scene.feed.asked if ask[0] == "ask"] == [
        ("ask", ("Hello [red]you", {"max_tokens": 7})),
        ("ask", (scene.profile.prompt.text, {"max_tokens": 7})),
    ]


async def test_long_answers_can_be_read_by_keyboard() -> None:
    """A screen up and down while the line is being written on; what is read stays in sight until it is left or
    another prompt is sent."""
    scene = Scene().ready()
    for number in range(8):
        scene.tell(
            f.PromptAsked(f"question {number}"), f.PromptPiece("word\n" * 4, ""), f.PromptEnded(None, "gone")
        )
    async with scene.app().run_test(size=(80, 24)) as pilot:
        await press(pilot, "t")
        assert "question 7" in await screen_text(pilot)
        await press(pilot, *["pageup"] * 12)
        assert "question 0" in await screen_text(pilot)
        scene.later(1).samples(2, lambda _second: 1.0)
        assert "question 0" in await screen_text(pilot)
        await press(pilot, *["pagedown"] * 12)
        scene.later(1).tell(f.PromptAsked("the last question"))
        assert "the last question" in await screen_text(pilot)
        await press(pilot, "pageup")
        scene.later(1).tell(f.PromptEnded(None, "gone"), f.PromptAsked("one more"))
        assert "one more" in await screen_text(pilot)


async def test_a_parameter_that_is_mistyped_is_not_sent_as_a_prompt() -> None:
    """It stays in the line, with the right word told; what is like no parameter is the prompt's own."""
    scene = Scene().ready()
    async with scene.app().run_test(size=(120, 40)) as pilot:
        await press(pilot, "t")
        line = pilot.app.screen.query_one("#prompt Input", Input)
        for typed in ("/max_token 7", "/temp 1"):
            line.value = typed
            await press(pilot, "enter")
            assert line.value == typed
        line.value = "/temperature nan"
        await press(pilot, "enter")
        told = [one.message for one in pilot.app._notifications]
        assert told == [
            "There is no /max_token: /max_tokens?",
            "There is no /temp: /temperature?",
            "temperature takes a number.",
        ]
        line.value = "/no_think Hello"
        await press(pilot, "enter")
    assert [ask for ask in scene.feed.asked if ask[0] == "ask"] == [("ask", ("/no_think Hello", {}))]


async def test_earlier_prompts_are_recalled() -> None:
    """Up goes back, down forward again."""
    scene = Scene().answered()
    async with scene.app().run_test(size=(120, 40)) as pilot:
        await press(pilot, "t", "up")
        pane = pilot.app.screen.query_one(PromptPane)
        assert pane.query_one(Input).value == "What are you?"
        await press(pilot, "down")
        assert pane.query_one(Input).value == ""


async def test_a_failure_is_shown_without_a_key() -> None:
    """A step that fails is selected and tells why; a cause that is found is shown in its place."""
    scene = Scene().opened()
    async with scene.app().run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        scene.store.happened(StepChanged(StepName.RAY_HEAD, StepState.FAILED, "port 6379 is taken", "spark-1"))
        text = await screen_text(pilot)
        assert "port 6379 is taken" in text
        assert "What it runs, exactly" in text
        scene.failed()
        text = await screen_text(pilot)
    assert "Why it failed · certain" in text
    assert "+ serve.flags.distributed-executor-backend: ray" in text


async def test_what_is_shown_is_copied_and_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the terminal, and always to a file as well; a folder that can't be written is told."""
    monkeypatch.chdir(tmp_path)
    async with Scene().failed().app().run_test(size=(120, 40)) as pilot:
        await press(pilot, "c", "S")
        assert "larger than the number of available GPUs" in pilot.app.clipboard
        (saved,) = tmp_path.glob("spark-cockpit-why-*.txt")
        assert saved.read_text(encoding="utf-8").rstrip("\n") == pilot.app.clipboard.rstrip("\n")
        await press(pilot, "escape", "v", "c")
        assert any("There is no text here" in told.message for told in pilot.app._notifications)


async def test_writing_a_prompt_is_not_interrupted() -> None:
    """What is found meanwhile does not take the line away from under the writer's hands."""
    scene = Scene().ready()
    async with scene.app().run_test(size=(120, 40)) as pilot:
        await press(pilot, "t")
        scene.store.happened(StepChanged(StepName.RAY_HEAD, StepState.FAILED, "gone"))
        await settle(pilot)
        assert pilot.app.screen.query_one("#prompt Input", Input).has_focus
        assert pilot.app.screen.query_one(PromptPane).display


async def test_evidence_opens_the_log_at_its_line(tmp_path: Path) -> None:
    """One key from the cause to the line behind it."""
    log = tmp_path / "serve.log"
    log.write_text("".join(f"line {number}\n" for number in range(1, 500)))
    scene = Scene().failed()
    scene.feed.path = log
    scene.feed.source = Source("spark-1", "serve", Kind.SERVE, Reach.HOST, "", "20261130-202600-7f3a", True)
    async with scene.app().run_test(size=(120, 40)) as pilot:
        await press(pilot, "l")
        text = await screen_text(pilot)
        assert "line 312 of 49" in text


async def test_evidence_of_another_hosts_worker_opens_there_until_the_next_run(tmp_path: Path) -> None:
    """Without a key; the next run's serve log then takes its place."""
    worker, serve = tmp_path / "worker-1.err", tmp_path / "serve.log"
    worker.write_text("".join(f"worker line {number}\n" for number in range(1, 500)))
    serve.write_text("serve line\n" * 9)
    scene = Scene()
    scene.feed.paths = {"worker-1.err": worker, "serve": serve}
    scene.feed.source = Source("spark-1", "serve", Kind.SERVE, Reach.HOST, "", "20261130-202600-7f3a", True)
    scene.opened().tell(
        f.SourcesSeen(
            "spark-2",
            (Source("spark-2", "worker-1.err", Kind.RAY, Reach.ENVIRONMENT, "/tmp/ray/worker-1.err"),),
        )
    )
    async with scene.app().run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        scene.failed(Evidence("worker-1.err on spark-2", 312, "NCCL WARN no socket"))
        for _ in range(3):
            await settle(pilot)
            scene.tell(f.Ticked())
        assert "worker line 312" in await screen_text(pilot)
        scene.feed.source = Source("spark-1", "serve", Kind.SERVE, Reach.HOST, "", "20261130-210000-0001", True)
        scene.tell(f.RunSeen("20261130-210000-0001", True, False, None, scene.clock()))
        await press(pilot, "l")
        assert "serve line" in await screen_text(pilot)


async def test_one_host_has_the_narrow_screen() -> None:
    """At 80 columns 1 and 2 change over; the other host keeps two lines."""
    scene = Scene().loading()
    async with scene.app().run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        first, second = pilot.app.screen.query(HostPanel)
        assert (first.has_class("-brief"), second.has_class("-brief")) == (False, True)
        await press(pilot, "2")
        assert (first.has_class("-brief"), second.has_class("-brief")) == (True, False)
        assert second.has_focus
        await pilot.resize_terminal(160, 48)
        await settle(pilot)
        assert not first.has_class("-brief")


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)])
async def test_more_hosts_than_two_scroll(size: tuple[int, int]) -> None:
    """With four hosts each is reached by a key, and is then on the screen with its own figures."""
    hosts = (*profile().hosts, HostSpec("spark-3", "c", Role.WORKER), HostSpec("spark-4", "d", Role.WORKER))
    scene = Scene(profile=profile(hosts=hosts)).opened().samples(3, lambda _second: 10.0)
    async with scene.app().run_test(size=size) as pilot:
        await settle(pilot)
        panels = list(pilot.app.screen.query(HostPanel))
        assert len(panels) == 4
        await press(pilot, "1")
        for number in range(4):
            text = await screen_text(pilot)
            assert panels[number].has_focus
            assert f"spark-{number + 1}" in text
            box = panels[number].region
            assert box.x >= 0, number
            assert box.right <= size[0], number
            assert box.bottom <= size[1] - 1, number
            await press(pilot, "h")
        assert panels[0].has_focus


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)])
async def test_focus_is_always_visible(size: tuple[int, int]) -> None:
    """Whatever tab reaches is on the screen and looks different with the focus."""
    async with Scene().ready().app().run_test(size=size) as pilot:
        await settle(pilot)
        seen = set()
        for _ in range(12):
            before = await screen_text(pilot)
            await press(pilot, "tab")
            focused = pilot.app.focused
            assert focused is not None
            assert focused.region.area > 0
            seen.add(focused.id or type(focused).__name__)
            assert before
        assert {"steps", "HostPanel"} <= seen


BEHIND = {*range(101, 106, 2), *range(113, 117, 2)}
"""Seconds of the recording in which rank 1 has been a phase further for five seconds."""


def shown(state: State) -> list[str]:
    """Each host's lines of the load, as one text."""
    return ["\n".join(line.plain for line in load_lines(host, state, 58)) for host in state.hosts]


async def test_every_recorded_second_can_be_shown() -> None:
    """The recorded load, second by second: rank 1 never shows a count, progress never goes back."""
    app, replay = replay_at(0.0)
    done, ready = 0, False
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        for second in range(1, 200, 2):
            replay.advance(float(second))
            await pilot.pause(0)
            head, worker = app.state.hosts
            assert all(rank.done is None for rank in worker.ranks)
            shards = [rank.done for rank in head.ranks if rank.unit == "shards" and rank.done is not None]
            assert all(now >= done for now in shards)
            done = max([done, *shards])
            assert app.state.run is not None
            assert not (ready and not app.state.run.ready)
            ready = app.state.run.ready
            seen = shown(app.state)
            assert not any("100 %" in line and "/s" in line for line in seen), (second, seen)
            assert (" · behind" in seen[0]) is (second in BEHIND), (second, seen)
            assert " · behind" not in seen[1], (second, seen)
            if 77 <= second <= 93:
                assert " of 20" in seen[0]
                assert "read on this host" in seen[1]
                assert " of " not in seen[1]
    assert done == 20
    assert ready


async def test_hostile_text_reaches_no_widget_raw() -> None:
    """No control character of a host's is in what is painted, in any pane."""
    scene = hostile()
    async with scene.app().run_test(size=(160, 48)) as pilot:
        await settle(pilot)
        for keys in ([], ["d"], ["1"], ["t"], ["escape", "v"], ["f"], ["x"]):
            await press(pilot, *keys)
            text = await screen_text(pilot)
            bad = {char for char in text if not (char.isprintable() or char == "\n")}
            assert not bad, (keys, bad)
            assert "UFdORUQ" in text


async def test_the_palette_has_every_action() -> None:
    """What can be done can be found by name."""
    scene = Scene().ready()
    app = scene.app()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        titles = [command.title for command in app.get_system_commands(app.screen)]
        usable = [action for action in ACTIONS if action.available(app.usage)]
        assert all(any(title.startswith(action.label) for title in titles) for action in usable)
        await press(pilot, "question_mark")
        assert isinstance(app.screen, Help)


async def test_a_users_theme_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A theme in the user's folder can be chosen; a broken one is told and hurts nobody."""
    folder = themes.user_folder()
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text('name = "mine"\nprimary = "#123456"\n')
    (folder / "bad.toml").write_text('name = "bad"\nprimary = "nocolour"\n')
    monkeypatch.setenv("SPARK_COCKPIT_THEME", "mine")
    found, faults = themes.load()
    assert {"dark", "light", "high-contrast", "monochrome", "mine"} == {theme.name for theme in found}
    assert len(faults) == 1
    assert "nocolour" in faults[0]
    async with Scene().opened().app().run_test() as pilot:
        assert pilot.app.theme == "mine"


HEAVY = (
    *("asyncssh", "plotext", "yaml", "ruamel", "httpx", "ray", "vllm"),
    *("cockpit.bringup.look", "cockpit.cluster", "cockpit.probes", "cockpit.serving", "cockpit.tui.reduce"),
    *("cockpit.bringup.events", "cockpit.hosts.errors", "cockpit.model.facts", "cockpit.model.finding"),
    *("cockpit.model.profile", "cockpit.tui.attention", "cockpit.tui.intents", "cockpit.tui.host_text"),
    *("cockpit.tui.dialogs", "cockpit.tui.widgets.panes", "textual.widgets._text_area", "importlib.resources"),
)


def test_nothing_heavy_is_imported_before_the_first_paint() -> None:
    """The app's modules, and all that is run until the first frame, load none of the slow libraries."""
    code = f"""
import sys
from textual.app import App
import cockpit.cli.screen
from cockpit.tui.app import CockpitApp
first = []
painted = App._display
def display(self, screen, renderable):
    if not first and screen.is_mounted and screen.query("#steps"):
        first.append([name for name in {HEAVY!r} if name in sys.modules])
    painted(self, screen, renderable)
App._display = display
async def never(self): pass
CockpitApp._open = never
CockpitApp("qwen3.5-122b-fp8").run(headless=True, size=(120, 40), auto_pilot=lambda pilot: pilot.press("q"))
print(first)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip().endswith("[[]]"), done.stdout[-2000:]


async def test_both_hosts_logs_by_time(tmp_path: Path) -> None:
    """``M`` puts the other host's newest worker log beside the serve log, by time; again, the serve log alone."""
    run = "20261130-202600-7f3a"
    serve = Source("spark-1", "serve", Kind.SERVE, Reach.HOST, "", run, True, 10)
    worker = Source("spark-2", "worker-1.out", Kind.RAY, Reach.ENVIRONMENT, "", size=10)
    for source, seconds in ((serve, (1, 3)), (worker, (2, 4))):
        lines = [f"INFO 11-30 20:00:0{second} [a.py:1] second {second}\n" for second in seconds]
        (tmp_path / source.name).write_text("".join(lines))
    scene = Scene().ready()
    scene.feed.source = serve
    scene.feed.paths = {source.name: tmp_path / source.name for source in (serve, worker)}
    scene.tell(f.SourcesSeen("spark-1", (serve,)), f.SourcesSeen("spark-2", (worker,)))
    async with scene.app().run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await press(pilot, "M")
        for _ in range(50):
            shown = [line for line in (await screen_text(pilot)).splitlines() if "second" in line]
            if len(shown) == 4:
                break
        assert [line[line.index("second ") + 7] for line in shown] == ["1", "2", "3", "4"]
        assert ["spark-1" in line for line in shown] == [True, False, True, False]
        await press(pilot, "M")
        for _ in range(50):
            shown = [line for line in (await screen_text(pilot)).splitlines() if "second" in line]
            if len(shown) == 2:
                break
        assert [line[line.index("second ") + 7] for line in shown] == ["1", "3"]
