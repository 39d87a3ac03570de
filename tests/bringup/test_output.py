"""What the command line writes to a terminal: nothing that others named is obeyed by it, or looks like our line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cockpit.bringup.errors import StepFailed
from cockpit.bringup.events import Ended, Outcome, StepName
from cockpit.cli import output
from cockpit.cli.watch import Lines
from cockpit.logs.sanitise import clean

EVIL = "e\nFORGED: all is well\x1b[31m\u202e\x9b1m\x07il"
SHOWN = clean(EVIL)
PROFILE = """\
hosts:
  - {name: spark-1, role: head, address: 127.0.0.1, port: 9}
runtime: {kind: native, venv: /nope}
serve: {model: /nope/model, flags: {seed: 1}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a profile and a log of a hostile name, and the user's profiles with another."""
    profiles = tmp_path / "config" / "spark-cockpit" / "profiles"
    profiles.mkdir(parents=True)
    for name in (profiles / f"{EVIL}.yaml", tmp_path / f"{EVIL}.yaml"):
        name.write_text(PROFILE)
    (tmp_path / f"{EVIL}.log").write_text("nothing of ours\n")
    (tmp_path / "values.yaml").write_text(json.dumps({"hosts": [{"name": EVIL, "role": EVIL}], EVIL: EVIL}))
    return tmp_path


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """``spark-cockpit`` in ``folder``; its output as text, invalid bytes kept apart."""
    env = {**os.environ, "XDG_CONFIG_HOME": str(folder / "config"), "PYTHONPATH": str(Path.cwd())}
    command = [sys.executable, "-m", "cockpit", *arguments]
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, stdin=subprocess.DEVNULL, timeout=60
    )
    decoded = [part.decode("utf-8", "surrogateescape") for part in (done.stdout, done.stderr)]
    return subprocess.CompletedProcess(command, done.returncode, *decoded)


@pytest.mark.parametrize(
    "arguments",
    [
        ["profiles"],
        ["explain", f"{EVIL}.log"],
        ["explain", f"no{EVIL}.log"],
        ["explain", f"no{EVIL}"],
        ["explain", f"{EVIL}.log", "--report", f"{EVIL}/nowhere"],
        ["plan", f"{EVIL}.yaml"],
        ["plan", f"no{EVIL}.yaml"],
        ["plan", "values.yaml"],
        ["plan", "values.yaml", "--step", EVIL],
        ["plan", EVIL],
        ["flags", f"{EVIL}.yaml"],
        ["logs", f"no{EVIL}.yaml"],
        ["view", f"no{EVIL}"],
        ["up", f"no{EVIL}"],
        ["completion", EVIL],
        [EVIL, "status"],
        ["plan", f"--{EVIL}"],
    ],
    ids=lambda arguments: " ".join(arguments).replace(EVIL, "EVIL"),
)
def test_no_verb_hands_a_name_to_the_terminal_as_it_is(folder: Path, arguments: list[str]) -> None:
    done = run(folder, *arguments)
    for text in (done.stdout, done.stderr):
        assert clean(text, multiline=True) == text
        assert [line for line in text.split("\n") if line.startswith("FORGED")] == []
    # The name itself was told, in a form that can be seen.
    told = done.stdout + done.stderr
    assert SHOWN in told.replace("\\n", "␊") or "FORGED" in told


def test_what_is_said_is_sanitised_and_keeps_its_lines(capsys: pytest.CaptureFixture[str]) -> None:
    output.say("one\ntwo\x1b[31m\x07")
    output.say("three\u202e", err=True, nl=False)
    told = capsys.readouterr()
    assert told.out == "one\ntwo␛[31m␇\n"
    assert told.err == "three⟨202e⟩"


def test_a_line_that_is_written_over_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    output.rewrite("a\nb\x1b[2J")
    assert capsys.readouterr().out == "\ra␊b␛[2J\r", "click leaves the erasing out where there is no terminal"


def test_a_script_is_exact_where_it_goes_into_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    output.script("printf '\t%s' 'a\u202eb'\n")
    assert capsys.readouterr().out == "printf '\t%s' 'a\u202eb'\n"


def test_only_one_module_of_the_command_line_writes(tmp_path: Path) -> None:
    """The linter refuses another: this proves that its rule is in force."""
    ruff = shutil.which("ruff", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if ruff is None:
        pytest.skip("no ruff")
    root = Path(__file__).parents[2]
    source = 'import click\n\nclick.echo("a")\n'
    command = [ruff, "check", "--config", root / "pyproject.toml", "--stdin-filename", "cockpit/cli/x.py", "-"]
    done = subprocess.run(command, input=source, capture_output=True, text=True, cwd=root, timeout=60)
    assert "TID251" in done.stdout


@pytest.mark.parametrize("option", ["--fix", "--deep"])
def test_a_list_of_flags_is_not_a_judgement(folder: Path, option: str) -> None:
    done = run(folder, "flags", "values.yaml", "--list", "tensor", option)
    assert done.returncode == 2
    assert "--list only lists the flags there are" in done.stderr


def test_a_prompt_that_is_no_text_is_refused_before_a_host_is_asked(folder: Path) -> None:
    done = run(folder, "prompt", "values.yaml", os.fsdecode(b"good \xff morning"))
    assert done.returncode == 2
    assert "The text is no UTF-8: ⟨ff⟩ at character 6." in done.stderr


@pytest.mark.parametrize(
    "word", ["nope", "MD5:1b:2c", "SHA256:", "256 SHA256:" + "a" * 43, "SHA256:" + "a" * 44]
)
def test_what_is_no_fingerprint_is_wrong_usage(folder: Path, word: str) -> None:
    done = run(folder, "status", f"{EVIL}.yaml", "--trust-host-key", word)
    assert done.returncode == 2
    assert f"'{word}' is no SHA256 fingerprint" in done.stderr


def test_the_status_says_what_to_do_about_a_host_that_is_away(folder: Path) -> None:
    (folder / "away.yaml").write_text(PROFILE)
    done = run(folder, "status", "away.yaml")
    assert done.returncode == 3
    assert "`ssh -p 9 127.0.0.1` gets through from here." in done.stdout


def test_a_failed_question_tells_what_the_command_said() -> None:
    """Where there is one line for an error, an exit status alone is no reason."""
    failed = StepFailed(
        StepName.LOAD, "spark-1: could not look (exit status 1).", line="Cannot connect to the Docker daemon"
    )
    assert failed.told == "spark-1: could not look (exit status 1). Cannot connect to the Docker daemon"
    assert StepFailed(StepName.LOAD, "spark-1: no port.").told == "spark-1: no port."


def test_what_stops_before_the_last_step_is_not_called_ready(capsys: pytest.CaptureFixture[str]) -> None:
    for last in (StepName.RAY_HEAD, StepName.PROMPT):
        Lines(last=last)(Ended(Outcome.READY))
    assert capsys.readouterr().out.splitlines() == ["Done, through Ray head.", "Ready."]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("plan sing", ["single-spark"]),
        ("plan single-spark --step pre", ["preflight"]),
        ("up single-spark --through ray-", ["ray-head", "ray-workers"]),
        ("lab st", ["status"]),
    ],
)
def test_the_shell_completes_verbs_profiles_and_steps(
    folder: Path, monkeypatch: pytest.MonkeyPatch, words: str, offered: list[str]
) -> None:
    line = f"spark-cockpit {words}"
    for name, value in {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("_SPARK_COCKPIT_COMPLETE", "bash_complete")
    monkeypatch.setenv("XDG_DATA_HOME", str(folder / "data"))
    assert run(folder).stdout.split() == [f"plain,{word}" for word in offered]
