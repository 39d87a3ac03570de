"""``spark-cockpit plan``: short to read, whole where it is asked for, and the same on the screen."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys

import pytest

from cockpit.bringup.events import StepName
from cockpit.bringup.profiles import find
from cockpit.bringup.runner import Planned, plan
from cockpit.bringup.step import Planner
from cockpit.hosts.quoting import command_line
from cockpit.runtime.environment import environment
from cockpit.tui.state import State, StepView
from cockpit.tui.widgets.panes import step_content

PROFILES = ["llama-3.3-70b", "single-spark"]


def planned(name: str) -> tuple[Planned, ...]:
    profile = find(name)
    return plan(Planner(profile, environment(profile)))


def told(*arguments: str) -> str:
    command = [sys.executable, "-m", "cockpit", "plan", *arguments]
    env = {**os.environ, "XDG_CONFIG_HOME": "/nonexistent"}
    return subprocess.run(command, env=env, check=True, capture_output=True, text=True, timeout=60).stdout


@pytest.mark.parametrize("name", PROFILES)
def test_the_short_form_has_every_command_and_no_long_script(name: str) -> None:
    text = told(name)
    lines = text.splitlines()
    assert len(lines) < 120
    for item in planned(name):
        assert item.step.title in lines
        for command in item.commands:
            assert f"  # {command.host}: {command.why}" in lines
            line = f"  {command_line(command)}"
            sum_ = hashlib.sha256(command.stdin.encode()).hexdigest()[:12]
            named = f"{line} <<script, {len(command.stdin.splitlines()):,} lines, sha256 {sum_}>>"
            assert {line, f"{line} <<'EOF'", named} & set(lines)
    # What the two long scripts come to is there all the same.
    assert "    … vllm serve " in text
    assert lines[-1].endswith(f"All of it: spark-cockpit plan {name} --full")


@pytest.mark.parametrize("name", PROFILES)
def test_the_full_form_and_one_step_have_every_line(name: str) -> None:
    full = told(name, "--full")
    for item in planned(name):
        one = told(name, "--step", item.step.name.value)
        for command in item.commands:
            script = "".join(f"\n    {line}".rstrip(" ") for line in command.stdin.splitlines())
            for text in (full, one):
                stripped = "\n".join(line.rstrip(" ") for line in text.expandtabs().splitlines())
                assert f"  {command_line(command)}" in stripped
                assert "\n".join(line.rstrip(" ") for line in script.expandtabs().splitlines()) in stripped
        assert "All of it" not in one


def test_json_is_whole_whatever_is_asked_for() -> None:
    name = PROFILES[0]
    answers = [json.loads(told(name, "--json", *more)) for more in ([], ["--full"])]
    assert answers[0] == answers[1]
    steps = [(step["name"], step["commands"]) for step in answers[0]["steps"]]
    assert steps == [
        (
            item.step.name.value,
            [
                {"host": c.host, "argv": list(c.remote_argv), "stdin": c.stdin, "why": c.why}
                for c in item.commands
            ],
        )
        for item in planned(name)
    ]


@pytest.mark.parametrize("name", PROFILES)
def test_the_screens_details_show_the_same_commands(name: str) -> None:
    for item in planned(name):
        shown = step_content(StepView(item.step.name, item.step.title), State(), item, ()).plain
        for command in item.commands:
            assert f"$ {command_line(command)}" in shown
            # What is followed for as long as it is listened to has no limit.
            assert command_line(command).startswith("timeout ") != (item.step.name is StepName.LOAD)
