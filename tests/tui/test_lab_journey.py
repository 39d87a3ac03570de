"""The real app on the lab: real SSH, real Ray, real vLLM; by the keys that the footer shows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.bringup.events import StepName, StepState
from cockpit.lab import folders
from cockpit.lab.environment import Environment
from cockpit.lab.lab import LabInfo
from cockpit.tui.log_pane import LogPane
from cockpit.tui.state import Link, State
from tests.lab.fixtures import lab_of_its_own
from tests.tui.journey import Journey, journey

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def up(
    lab_environment: Environment, lab_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LabInfo]:
    """A lab of these tests' own."""
    with lab_of_its_own("screen", tmp_path_factory.mktemp("data")) as info:
        yield info


@pytest.fixture
def profile(up: LabInfo, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Its profile, for an app in the same environment."""
    assert up.profile is not None
    monkeypatch.setenv("XDG_DATA_HOME", str(up.profile.parents[3]))
    monkeypatch.setenv("XDG_CACHE_HOME", str(up.profile.parents[3] / "cache"))
    monkeypatch.setenv(folders.NAME, "screen")
    return up.profile


def over(state: State) -> bool:
    """Whether the prompt is answered, or something stands in the way."""
    bad = (StepState.FAILED, StepState.REFUSED, StepState.UNKNOWN)
    if not state.activity.busy and any(step.state in bad for step in state.steps):
        return True
    return state.step(StepName.PROMPT).state is StepState.DONE and not state.activity.busy


async def take_down(app: Journey) -> None:
    """Undo everything, as the operator would."""
    if "esc" in app.footer:
        await app.press("esc")
    await app.pilot.press("U")
    await app.pilot.pause()
    await app.pilot.press(*"spark-1", "enter")
    await app.until(lambda state: state.activity.busy, "undoing begins", 30)
    await app.until(lambda state: not state.activity.busy, "all is undone", 120)


async def test_the_first_screen_on_the_lab(profile: Path) -> None:
    """Both hosts answer, nothing runs, the screen says what can be done; leaving leaves no process behind."""
    async with journey(profile) as app:
        await app.until(lambda state: all(host.sample is not None for host in state.hosts), "samples", 60)
        assert [host.link.state for host in app.state.hosts] == [Link.UP, Link.UP]
        assert "Nothing runs yet." in app.text
        assert {"⏎": "run", "a": "all", "d": "details"}.items() <= app.footer.items()
        await app.press("⏎")
        await app.until(lambda state: not state.activity.busy, "connect is done", 60)
        assert app.step(StepName.CONNECT) is StepState.DONE


@pytest.mark.full
async def test_from_the_empty_screen_to_an_answered_prompt(profile: Path) -> None:
    """One key brings all up; another asks; the answer streams in."""
    async with journey(profile) as app:
        await app.press("a")
        await app.until(over, "the prompt is answered", 600)
        assert app.step(StepName.PROMPT) is StepState.DONE, app.text
        assert app.state.serving
        assert app.state.exchanges[-1].answer.strip() in app.text.replace("\n", "")
        assert [host.guard.state for host in app.state.hosts if host.guard] != []
        await app.press("t")
        await app.pilot.press(*"abc", "enter")
        await app.until(
            lambda state: len(state.exchanges) == 2 and not state.exchanges[-1].open, "an answer", 120
        )
        assert app.state.exchanges[-1].error == ""
        assert app.state.exchanges[-1].result is not None
        await take_down(app)
        assert app.step(StepName.LAUNCH) is StepState.READY_TO_RUN
        await app.until(lambda state: state.explanation is not None, "the ended run is explained", 60)
        assert app.state.explanation is not None
        assert app.state.explanation.status == "stopped"
        assert "was stopped" in app.text


def without_backend(profile: Path, tmp_path: Path) -> Path:
    """The lab's profile without the flag that everything is measured against."""
    text = profile.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if "distributed-executor-backend" not in line]
    assert len(lines) == len(text.splitlines()) - 1
    made = tmp_path / "lab.yaml"
    made.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return made


@pytest.mark.full
async def test_from_a_failed_launch_to_the_relaunch_in_one_key(profile: Path, tmp_path: Path) -> None:
    """Launched by force without the backend, it dies: the cause and its line stand there without a key, and one key
    applies the change and launches again."""
    made = without_backend(profile, tmp_path)
    async with journey(made, (160, 48)) as app:
        await app.press("a")
        await app.until(over, "the flags are refused", 300)
        assert app.step(StepName.FLAGS) is StepState.REFUSED
        assert "distributed-executor-backend: ray" in app.text
        await app.press("O")
        await app.pilot.press("enter")
        await app.until(lambda state: state.activity.busy, "it is launched anyway", 30)
        await app.until(lambda state: state.explanation is not None and over(state), "the cause", 300)
        await standing_at_the_line(app)
        assert "Why it failed · certain" in app.text
        assert "profile  + serve.flags.distributed-executor-backend: ray" in app.text
        assert app.footer["⏎"] == "apply and relaunch"
        await app.press("⏎")
        await app.until(lambda state: state.activity.busy, "the relaunch begins", 60)
        assert "distributed-executor-backend: ray" in made.read_text(encoding="utf-8")
        await app.until(over, "the prompt is answered", 600)
        assert app.step(StepName.PROMPT) is StepState.DONE, app.text
        await take_down(app)


async def standing_at_the_line(app: Journey) -> None:
    """The log below the cause has the line that decided selected."""
    found = app.state.explanation
    assert found is not None
    line = found.findings[0].evidence[0].line
    view = app.app.screen.query_one(LogPane).view
    for _ in range(100):
        place = view.current
        if place is not None and place.number == line and not view.following:
            break
        await asyncio.sleep(0.1)
    assert place is not None
    assert place.number == line, json.dumps({"wanted": line, "found": place.number})
    assert "larger than the number of available GPUs" in app.text
