"""Command lines with the real ``vllm serve``'s verdict: the deep check judges all of them as recorded."""

from __future__ import annotations

import json
import os
import random
import re
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cockpit.runtime.environment import environment
from cockpit.serving.deep import once_text, question
from cockpit.serving.parser_check import Verdict, read_verdicts

from . import record_verdicts
from .conftest import ENV, Local, local_profile
from .profiles import ServeSpec

DATA = Path(__file__).parent.parent / "data" / "flags"
LINES: list[dict[str, Any]] = json.loads((DATA / "lines.json").read_text())["lines"]
FILES: dict[str, str] = json.loads((DATA / "lines.json").read_text())["files"]
RECORDED: dict[str, Any] = json.loads((DATA / "verdicts.json").read_text())
AFRESH = {"right": 1, "wrong": 2}
"""How many lines are run anew by the program itself in every test run. A right one takes a whole start."""


def test_there_are_enough_lines_half_of_them_wrong_in_one_way() -> None:
    assert len(LINES) >= 60
    wrong = [line for line in LINES if line["wrong"]]
    assert 0.4 <= len(wrong) / len(LINES) <= 0.6
    assert len({line["name"] for line in LINES}) == len(LINES)


def test_every_line_has_the_verdict_that_was_meant() -> None:
    """A line that is called wrong is one that vLLM refuses, and the other way round."""
    verdicts = RECORDED["verdicts"]
    assert set(verdicts) == {line["name"] for line in LINES}
    assert [line["name"] for line in LINES if verdicts[line["name"]]["taken"] == bool(line["wrong"])] == []


@pytest.mark.lab
def test_the_deep_check_judges_all_as_recorded(venv: Path, model: Path, state: Path, tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        fill = {"model": str(model), "folder": str(tmp_path), "busy": str(busy.getsockname()[1])}
        lines = [
            record_verdicts.command(line, {**fill, "port": str(record_verdicts.free_port())}) for line in LINES
        ]
        verdicts = judged(venv, model, state, lines)
    differing = {
        line["name"]: (verdict, RECORDED["verdicts"][line["name"]]["words"])
        for line, verdict in zip(LINES, verdicts, strict=True)
        if bool(verdict.stage or verdict.bind) == RECORDED["verdicts"][line["name"]]["taken"]
    }
    assert differing == {}


def judged(venv: Path, model: Path, state: Path, lines: list[list[str]]) -> tuple[Verdict, ...]:
    """The deep check's verdicts on several lines, by one process."""
    one = local_profile(venv, ServeSpec(str(model)))
    text = once_text(question(lines=lines, deep=True))
    command = environment(one).script(one.head, text, "ask", env=ENV, limit=550)
    completed = Local(one, state).run(command)
    return read_verdicts(completed.stdout, completed.stderr).verdicts


@pytest.mark.lab
def test_a_random_few_are_judged_by_the_program_afresh(venv: Path, model: Path, tmp_path: Path) -> None:
    """By ``vllm`` itself, a process for each. The seed is printed; SPARK_COCKPIT_SEED repeats a run."""
    seed = int(os.environ.get("SPARK_COCKPIT_SEED") or random.randrange(1 << 30))
    print(f"SPARK_COCKPIT_SEED={seed}")
    dice = random.Random(seed)
    chosen = [
        line["name"]
        for kind, count in AFRESH.items()
        for line in dice.sample([line for line in LINES if bool(line["wrong"]) == (kind == "wrong")], count)
    ]
    out = tmp_path / "verdicts.json"
    script = Path(record_verdicts.__file__)
    subprocess.run(
        [venv / "bin" / "python", script, str(model), *chosen, "--program", "--out", str(out)],
        check=True,
        timeout=580,
        stdin=subprocess.DEVNULL,
    )
    found = json.loads(out.read_text())["verdicts"]
    for name in chosen:
        recorded = RECORDED["verdicts"][name]
        assert found[name]["taken"] == recorded["taken"], (name, found[name])
        assert without_numbers(found[name]["words"]) == without_numbers(recorded["words"])


def without_numbers(words: str) -> str:
    """The words without ports and the like, which are others each time."""
    return re.sub(r"\d{4,}", "N", words)
