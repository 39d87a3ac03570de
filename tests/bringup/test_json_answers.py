"""``--json``: whatever happens, one object on standard output, or one a line, and the contract's exit status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

AWAY = """\
name: away
hosts:
  - {name: spark-1, role: head, address: 127.0.0.1, port: 9, fabric: {address: 127.0.0.1}}
  - {name: spark-2, role: worker, address: 127.0.0.1, port: 11, fabric: {address: 127.0.0.2}}
runtime: {kind: native, venv: /opt/vllm}
serve:
  model: /models/tiny
  flags: {tensor-parallel-size: 2, distributed-executor-backend: ray}
"""
WRONG = "name: wrong\nhosts: []\nserve: {modle: /models/tiny}\n"

LINES = ("up", "down", "prepare")
ALL = ("plan", "check", "flags", "status", "prompt", "explain", *LINES)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a profile whose hosts don't answer, and one with mistakes."""
    (tmp_path / "away.yaml").write_text(AWAY)
    (tmp_path / "wrong.yaml").write_text(WRONG)
    return tmp_path


def answer(folder: Path, *arguments: str) -> tuple[int, list[dict[str, Any]], str]:
    """Exit status, the objects on standard output, standard error."""
    homes = {f"XDG_{name}_HOME": str(folder / name) for name in ("CONFIG", "STATE", "DATA", "CACHE")}
    env = {**os.environ, **homes}
    command = [sys.executable, "-m", "cockpit", *arguments, "--json"]
    done = subprocess.run(
        command, env=env, capture_output=True, stdin=subprocess.DEVNULL, text=True, timeout=120
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(isinstance(one, dict) and one["schema"] == 1 for one in found)
    return done.returncode, found, done.stderr


def arguments_of(verb: str, profile: Path) -> list[str]:
    return [verb, str(profile), *(["--yes"] if verb == "prepare" else [])]


@pytest.mark.parametrize("verb", ALL)
def test_with_the_hosts_away(folder: Path, verb: str) -> None:
    status, found, told = answer(folder, *arguments_of(verb, folder / "away.yaml"))
    assert status == (0 if verb == "plan" else 3)
    assert found
    assert len(found) == 1 or verb in LINES
    if verb in ("prompt", "explain", "prepare"):
        assert "127.0.0.1 cannot be reached" in found[-1]["error"]["message"]
        assert "`ssh -p 9 127.0.0.1`" in found[-1]["error"]["remedy"]
        assert "127.0.0.1 cannot be reached" in told
    if verb == "status":
        assert ["`ssh -p " in host["remedy"] for host in found[0]["hosts"]] == [True, True]
    if verb == "check":
        observed = "127.0.0.1 cannot be reached: Connection refused."
        assert [one["observed"] for one in found[0]["verdicts"]] == [observed, observed]
    if verb in ("up", "down"):
        assert (found[-1]["event"], found[-1]["outcome"]) == ("end", "unreachable")


@pytest.mark.parametrize("verb", ALL)
def test_a_profile_with_mistakes(folder: Path, verb: str) -> None:
    status, found, told = answer(folder, *arguments_of(verb, folder / "wrong.yaml"))
    (one,) = found
    assert status == 2
    mistakes = one["error"]["mistakes"]
    assert [mistake["line"] for mistake in mistakes] == [1, 2, 3]
    assert mistakes[2]["nearest"] == "model"
    assert all(mistake["message"] in told for mistake in mistakes)


def test_all_of_very_many_mistakes_are_in_the_json(folder: Path) -> None:
    hosts = "".join(f"  - {{name: a{number}, address: 10.0.0.1, role: wrker}}\n" for number in range(100))
    (folder / "wrong.yaml").write_text(
        f"hosts:\n{hosts}runtime: {{kind: native, venv: /v}}\nserve: {{model: m}}\n"
    )
    _, (one,), told = answer(folder, "plan", str(folder / "wrong.yaml"))
    assert len(one["error"]["mistakes"]) > 100
    assert f"… and {len(one['error']['mistakes']) - 40} more" in told


@pytest.mark.parametrize(
    "arguments", [("plan", "nosuch"), ("plan", "{away}", "--step", "nosuch"), ("explain", "/nope/x.log")]
)
def test_what_is_not_there(folder: Path, arguments: tuple[str, ...]) -> None:
    words = [word.format(away=folder / "away.yaml") for word in arguments]
    status, (one,), told = answer(folder, *words)
    assert status == 2
    assert one["error"]["message"] in told


def test_what_needs_no_host(folder: Path) -> None:
    for arguments in (["profiles"], ["lab", "status"]):
        status, found, _ = answer(folder, *arguments)
        assert (status, len(found)) == (0, 1)
        assert "error" not in found[0]
