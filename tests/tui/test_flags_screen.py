"""The editor of the profile's flags: pictures, keys, and what is saved. The vLLM behind it is a stand-in here that
answers by vLLM 0.32.0's own list of flags; ``tests/lab/test_flags_screen.py`` has the real one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from cockpit.bringup.flag_hosts import HostFacts
from cockpit.bringup.flag_judge import FlagCheck, check_offline, ordered
from cockpit.bringup.open import open_session
from cockpit.model.finding import Fix, Problem, Severity
from cockpit.model.profile import Profile
from cockpit.model.profile_yaml import parse
from cockpit.serving.parser_check import NoVerdictError
from cockpit.serving.schema_shipped import shipped
from cockpit.tui import facts as f
from cockpit.tui import flag_edit_text as text
from cockpit.tui.flag_desk import HostFlags, KnownFlags
from cockpit.tui.flag_edit import split_entry
from cockpit.tui.flag_keys import Mode
from cockpit.tui.flags_screen import FlagsScreen
from cockpit.tui.state import FlagsView
from cockpit.tui.widgets.panes import flags_content
from tests.tui.scenes import Scene
from tests.tui.test_snapshots import SIZES, settle

PROFILE = """\
# two Sparks
name: sparks
hosts:
  - {name: spark-1, address: spark-1.local, role: head, fabric: {address: 192.168.100.10}}
  - {name: spark-2, address: spark-2.local, role: worker, fabric: {address: 192.168.100.11}}
runtime: {kind: native, venv: /opt/vllm}
serve:
  model: Qwen/Qwen3.5-122B-A10B-FP8
  flags:
    tensor-parallel-size: 2 # one a Spark
    distributed-executor-backend: ray
    gpu-memory-utilization: 0.8
    max-model-len: 16k # ours
    tool-call-parser: hermes
    enforce-eager: true
    kv-cache-dtype: fp9
"""

RUN = ("vllm", "serve", "Qwen/Qwen3.5-122B-A10B-FP8", "--tensor-parallel-size", "2")
RUN += ("--distributed-executor-backend", "ray", "--gpu-memory-utilization", "0.7", "--max-model-len", "16k")


@dataclass
class Desk:
    """Answers at once, by the flags of vLLM 0.32.0 and one finding with a change; notes what it was asked."""

    resting: str = ""
    asked: list[Profile] = field(default_factory=list)

    async def check(self, profile: Profile, previous: FlagCheck | None) -> FlagCheck:
        self.asked.append(profile)
        known = await asyncio.to_thread(check_offline, profile, "")
        problems = [
            replace(one, severity=Severity.ERROR) if one.flag in ("kv-cache-dtype", "max-model-len") else one
            for one in known.problems
        ]
        if profile.serve.flags.get("tool-call-parser") == "hermes":
            fix = Fix(
                "profile  tool-call-parser: qwen3_coder",
                {"set": {"serve.flags.tool-call-parser": "qwen3_coder"}},
            )
            place = profile.place("serve", "flags", "tool-call-parser")
            told = "Qwen3.5 writes its tool calls as qwen3_coder reads them."
            problems.append(Problem("tool-call-parser", Severity.WARNING, told, "", (fix,), place))
        facts = HostFacts({}, {}, {}, run=RUN)
        schema = shipped("0.32.0")
        own = replace(schema, source="runtime")
        return replace(known, problems=ordered(problems), schema=own, facts=facts, digest="0" * 32)


def scene_with(folder: Path, text: str = PROFILE) -> Scene:
    """A cockpit on a profile that is a file."""
    path = folder / "sparks.yaml"
    path.write_text(text)
    scene = Scene(profile=parse(text.encode(), str(path)))
    scene.feed.desk = Desk()
    return scene.opened().samples(2, lambda _second: 0.0)


Compare = Callable[..., bool]
Keys = Callable[[Pilot[Any]], Awaitable[None]]


def editor_of(pilot: Pilot[Any]) -> FlagsScreen:
    """The editor, which stands over the cockpit."""
    screen = pilot.app.screen
    assert isinstance(screen, FlagsScreen)
    return screen


async def judged(pilot: Pilot[Any]) -> FlagsScreen:
    """Wait until what is shown is judged."""
    screen = editor_of(pilot)
    while screen.view.judged != screen.view.trial().data or screen.view.judging is not None:
        await pilot.pause(0.02)
    await pilot.pause()
    return screen


async def opened(pilot: Pilot[Any]) -> FlagsScreen:
    """Open the editor by its key."""
    await settle(pilot)
    await pilot.press("e")
    while not isinstance(pilot.app.screen, FlagsScreen):
        await pilot.pause(0.01)
    return await judged(pilot)


def pressing(*keys: str) -> Keys:
    """Open the editor, press keys, and let it be judged."""

    async def before(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot)
        screen.entry.cursor_blink = False
        for key in keys:
            await pilot.press(key)
            await judged(pilot)
        screen._change(took=0.31)
        await pilot.pause()

    return before


@pytest.fixture(params=SIZES, ids=["80x24", "120x40", "200x50"])
def size(request: pytest.FixtureRequest) -> tuple[int, int]:
    """One of the three sizes."""
    found: tuple[int, int] = request.param
    return found


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """A cockpit on a profile that is a file."""
    return scene_with(tmp_path)


def file_of(scene: Scene) -> str:
    """The profile's file as it is."""
    return Path(scene.profile.file).read_text()


def test_the_list(snap_compare: Compare, size: tuple[int, int], scene: Scene) -> None:
    """The profile's flags with what was found about them."""
    assert snap_compare(scene.app(), terminal_size=size, run_before=pressing("down", "down", "down", "down"))


def test_a_search(snap_compare: Compare, size: tuple[int, int], scene: Scene) -> None:
    """By what a flag is about: those of the profile are marked."""
    assert snap_compare(scene.app(), terminal_size=size, run_before=pressing("slash", *"fp8"))


def test_a_wrong_value(snap_compare: Compare, size: tuple[int, int], scene: Scene) -> None:
    """Told as it is typed, beside the values that there are."""
    keys = pressing(*["down"] * 6, "enter", *["backspace"] * 2, "x")
    assert snap_compare(scene.app(), terminal_size=size, run_before=keys)


@pytest.mark.parametrize("turns", [1, 2], ids=["command", "differences"])
def test_the_lower_part(snap_compare: Compare, scene: Scene, turns: int) -> None:
    """The command line, and what differs from defaults, run and file."""
    keys = pressing("x", *["o"] * turns)
    assert snap_compare(scene.app(), terminal_size=(80, 24), run_before=keys)


async def test_a_flag_is_found_set_and_saved(scene: Scene) -> None:
    """By a part of its name; the file's comments and order stay, and the cockpit goes on with it."""
    async with scene.app().run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        await pilot.press("slash", *"max-num-se", "enter")
        assert (screen.view.mode, screen.view.key) == (Mode.VALUE, "max-num-seqs")
        await pilot.press(*"64", "enter")
        await judged(pilot)
        assert screen.view.draft.dirty
        assert "max-num-seqs" not in file_of(scene)
        await pilot.press("ctrl+s")
        assert file_of(scene) == f"{PROFILE}    max-num-seqs: 64\n"
        assert not screen.view.draft.dirty
        await pilot.press("escape")
        await pilot.pause()
        assert ("reopen", scene.profile.file) in scene.feed.asked


async def test_a_value_is_completed_and_the_parser_judges_it(scene: Scene) -> None:
    """What is typed is judged before it is taken; escape leaves the profile as it was."""
    desk = scene.feed.desk
    assert isinstance(desk, Desk)
    async with scene.app().run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        await pilot.press(*["down"] * 6, "enter")
        assert screen.entry.value == "fp9"
        assert screen.view.mistake == "'fp9' is none of its choices; the nearest is fp8"
        await pilot.press("backspace", "8")
        await judged(pilot)
        assert desk.asked[-1].serve.flags["kv-cache-dtype"] == "fp8"
        assert screen.view.mistake == ""
        await pilot.press("underscore", "e", "5", "tab")
        assert screen.entry.value == "fp8_e5m2"
        await pilot.press("escape")
        await judged(pilot)
        assert screen.view.draft.profile.serve.flags["kv-cache-dtype"] == "fp9"
        assert not screen.view.draft.dirty


async def test_findings_are_mended_by_a_key(scene: Scene) -> None:
    """x applies a finding's change, u takes it back, X applies all; leaving unsaved asks."""
    async with scene.app().run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        flags = lambda: dict(screen.view.draft.profile.serve.flags)  # noqa: E731
        await pilot.press("x")
        await judged(pilot)
        assert flags()["tool-call-parser"] == "qwen3_coder"
        assert [one.flag for one in screen.view.problems if one.severity is Severity.WARNING] == []
        await pilot.press("u")
        await judged(pilot)
        assert flags()["tool-call-parser"] == "hermes"
        await pilot.press("X")
        await judged(pilot)
        assert flags()["tool-call-parser"] == "qwen3_coder"
        await pilot.press("escape")
        await pilot.pause()
        assert not isinstance(pilot.app.screen, FlagsScreen)
        await pilot.press("enter")
        await pilot.pause()
        assert file_of(scene) == PROFILE
        assert ("reopen", scene.profile.file) not in scene.feed.asked


async def test_what_another_program_wrote_is_not_overwritten(scene: Scene) -> None:
    """The file was changed since it was read: saving says so and writes nothing."""
    async with scene.app().run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        await pilot.press("minus")
        Path(scene.profile.file).write_text(PROFILE + "# mine\n")
        await pilot.press("ctrl+s")
        await pilot.pause()
        assert file_of(scene) == PROFILE + "# mine\n"
        assert screen.view.draft.dirty


async def test_what_differs(scene: Scene) -> None:
    """From the defaults, and from the run in progress."""
    async with scene.app().run_test(size=(200, 50)) as pilot:
        screen = await opened(pilot)
        told = {one.flag: (one.here, one.there) for one in screen.view.from_run}
        assert told["gpu-memory-utilization"] == ("0.8", "0.7")
        assert told["enforce-eager"] == ("true", None)
        assert "max-model-len" not in told
        assert ("tensor-parallel-size", "2", "1") in [
            (d.flag, d.here, d.there) for d in screen.view.from_defaults
        ]
        await pilot.press(*"/--gpu-memory-utilization=0.7", "enter")
        await judged(pilot)
        assert "gpu-memory-utilization" not in {one.flag for one in screen.view.from_run}


async def test_several_names_and_json(scene: Scene) -> None:
    """Values of more than one word, and a field after a dot."""
    async with scene.app().run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        for line in (
            "cudagraph-capture-sizes 1 2",
            "cc.mode: 0",
            '--override-generation-config {"top_p": 0.9}',
        ):
            await pilot.press("slash")
            screen.entry.value = line
            await pilot.press("enter")
            await judged(pilot)
        flags = screen.view.draft.profile.serve.flags
        assert flags["cudagraph-capture-sizes"] == [1, 2]
        assert flags["compilation-config.mode"] == 0
        assert flags["override-generation-config"] == {"top_p": 0.9}
        assert parse(screen.view.draft.data, "x.yaml").serve.flags == flags


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("max-model-len", ("max-model-len", None)),
        ("--max-model-len=16k", ("--max-model-len", "16k")),
        ("--max-model-len 16k", ("--max-model-len", "16k")),
        ("max-model-len: 16k", ("max-model-len", "16k")),
        ('hf-overrides={"a": "b=c"}', ("hf-overrides", '{"a": "b=c"}')),
        ("dtype:", ("dtype", None)),
    ],
)
def test_an_entry_of_name_and_value(text: str, found: tuple[str, str | None]) -> None:
    assert split_entry(text) == found


async def test_the_judged_flags_are_mended_by_a_key(scene: Scene) -> None:
    """f judges on the cockpit's screen; a makes the changes in the file and judges anew."""
    check = await Desk().check(scene.profile, None)
    async with scene.app().run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await pilot.press("f")
        scene.tell(f.FlagsJudged(FlagsView(check.vllm, check.problems)))
        await settle(pilot)
        await pilot.press("a")
        await settle(pilot)
        assert "tool-call-parser: qwen3_coder" in file_of(scene)
        assert scene.feed.asked[-2:] == [("reopen", scene.profile.file), ("judge_flags", None)]


class Broken(Desk):
    """The head can't be asked."""

    async def check(self, profile: Profile, previous: FlagCheck | None) -> FlagCheck:
        raise NoVerdictError("vLLM's parser gave no answer: no space left on device")


async def test_without_an_answer_of_vllms_the_known_flags_are_gone_by(scene: Scene) -> None:
    """The reason is shown, and what the shipped list of flags says."""
    scene.feed.desk = Broken()
    async with scene.app().run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        assert "no space left on device" in screen.view.error
        assert [one.flag for one in screen.view.problems] == ["kv-cache-dtype"]
        shown = text.findings_content(screen.view).plain
        assert "no space left on device" in shown
        assert "'fp9' is none of its choices" in shown


async def test_with_the_hosts_away_the_editor_says_whose_flags_judge(scene: Scene) -> None:
    """No connection was ever there: that is what is said, with the version that judged instead and what to do."""
    async with open_session(scene.profile) as session:
        scene.feed.desk = HostFlags(lambda: session, lambda: "")
        async with scene.app().run_test(size=(120, 40)) as pilot:
            screen = await opened(pilot)
            names = " and ".join(spec.name for spec in scene.profile.hosts)
            head = text.head(screen.view, 0.0).plain
            shown = text.findings_content(screen.view).plain
    assert f"vLLM was not asked: {names} are not connected" in head
    assert "✓" not in head
    assert screen.view.error == ""
    assert shown.startswith(f"? vLLM was not asked: {names} are not connected.")
    assert "Judged by vLLM 0.32.0 (flags that the cockpit brings along). Not checked: " in shown
    assert "^r asks again" in shown
    assert "'fp9' is none of its choices" in shown
    for untrue in ("gone", "run was", "unknown", "Nothing stands against"):
        assert untrue not in head + shown


async def test_flags_that_vllm_was_not_asked_about_are_no_verdict_in_the_pane(scene: Scene) -> None:
    known = await KnownFlags("a run is loading").check(scene.profile, None)
    judged = FlagsView(known.vllm, (), unasked=known.unasked)
    shown = flags_content(replace(scene.store.state, flags=judged)).plain
    assert shown.startswith("? vLLM was not asked: a run is loading")
    assert "Nothing stands against" not in shown
    assert flags_content(replace(scene.store.state, flags=FlagsView(known.vllm))).plain.startswith(
        "Judged by vLLM "
    )


async def test_a_value_that_makes_no_profile_is_told(scene: Scene) -> None:
    """The profile has its own rules: a port is a whole number there. It is not taken."""
    async with scene.app().run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        await pilot.press(*"/port", "enter", *"http")
        while not screen.view.refused:
            await pilot.pause(0.02)
        assert "expected a whole number" in text.entry_hint(screen.view).plain
        await pilot.press("enter")
        await pilot.pause()
        assert screen.view.mode is Mode.VALUE
        assert "port" not in screen.view.draft.profile.serve.flags
        await pilot.press("escape")
        await judged(pilot)
        assert screen.view.refused == ""
