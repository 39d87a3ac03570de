"""The runbook is a shell script that hands each command to its host as the plan has it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from cockpit.bringup.profiles import load, shipped_folder
from cockpit.bringup.runbook import function_name, runbook
from cockpit.bringup.step import Planner
from cockpit.bringup.steps import all_steps
from cockpit.bringup.steps.base import StepBase
from cockpit.model.command import Command, script
from cockpit.runtime.environment import environment
from tests.bringup.local import session_here


class Commands(StepBase):
    """A step of given commands."""

    title = "Some commands"

    def __init__(self, *commands: Command) -> None:
        self.commands = commands

    def plan(self, planner: Planner) -> tuple[Command, ...]:
        """The commands."""
        return self.commands


def run(text: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a runbook with sh."""
    return subprocess.run(
        ["sh"], input=text, text=True, capture_output=True, timeout=60, env={"PATH": os.environ["PATH"], **env}
    )


def of(*commands: Command) -> str:
    """A runbook of these commands, on this machine."""
    session = session_here()
    return runbook(Planner(session.profile, session.runtime), [Commands(*commands)])  # type: ignore[list-item]


def test_words_and_scripts_arrive_as_they_are() -> None:
    odd = "a b'c\"d$HOME`id`\\n"
    text = of(
        Command("spark-1", ("printf", "%s\\n", odd), "print what is odd"),
        script("spark-1", "echo \"$((1 + 1)) $0\"; cat <<'X'\n$HOME `id` \\ END_OF_INPUT\nX", "run a script"),
        Command("spark-1", ("cat",), "hand on", stdin="END_OF_INPUT\nlast"),
    )
    done = run(text)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (f"== Some commands\n{odd}\n2 sh\n$HOME `id` \\ END_OF_INPUT\nEND_OF_INPUT\nlast\n")


def test_it_stops_at_the_first_failure() -> None:
    done = run(of(script("spark-1", "exit 3", "fail"), script("spark-1", "echo never", "go on")))
    assert done.returncode == 3
    assert "never" not in done.stdout


def test_secrets_are_names_until_it_runs() -> None:
    text = of(script("spark-1", "cat <<'X'\n${HF_TOKEN} $HOME\nX", "use it", secrets=("HF_TOKEN",)))
    assert run(text, HF_TOKEN="it's $secret").stdout.endswith("it's $secret $HOME\n")
    refused = run(text)
    assert refused.returncode != 0
    assert "HF_TOKEN" in refused.stderr


def test_a_secret_given_by_a_command_reaches_the_next() -> None:
    gives = Command("spark-1", ("printf", "to ken"), "read it", gives="RAY_TOKEN")
    takes = script("spark-1", "cat <<'X'\n[${RAY_TOKEN}]\nX", "use it", secrets=("RAY_TOKEN",))
    assert run(of(gives, takes)).stdout == "== Some commands\n[to ken]\n"


def test_host_names_become_distinct_functions() -> None:
    names = {function_name(name) for name in ("a-b", "a.b", "a_b", "ab", "0a")}
    assert len(names) == 5
    assert all(name.isidentifier() for name in names)


@pytest.mark.parametrize("path", sorted(shipped_folder().glob("*.yaml")), ids=lambda path: path.stem)
def test_runbooks_of_shipped_profiles_are_shell(path: Path) -> None:
    profile = load(path)
    text = runbook(Planner(profile, environment(profile)), all_steps())
    checked = subprocess.run(["sh", "-n"], input=text, text=True, capture_output=True, timeout=60)
    assert checked.returncode == 0, checked.stderr
    assert "vllm serve" in text
    for host in profile.hosts:
        assert f"{function_name(host.name)}() {{ ssh" in text
