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

from cockpit.model.finding import Severity
from cockpit.model.profile import FlagValue
from cockpit.runtime.environment import environment
from cockpit.serving.deep import once_text, question
from cockpit.serving.parser_check import NoVerdictError, Verdict, read_verdicts
from cockpit.serving.schema_check import schema_problems
from cockpit.serving.schema_shipped import shipped

from . import record_verdicts
from .conftest import ENV, Local, local_profile
from .profiles import ServeSpec, profile

DATA = Path(__file__).parent.parent / "data" / "flags"
LINES: list[dict[str, Any]] = json.loads((DATA / "lines.json").read_text())["lines"]
FILES: dict[str, str] = json.loads((DATA / "lines.json").read_text())["files"]
RECORDED: dict[str, Any] = json.loads((DATA / "verdicts.json").read_text())
FEW = 30
"""How many lines the deep check judges in an ordinary test run."""
PARTS = 4
"""How many processes judge all of them, one after the other."""


def test_there_are_enough_lines_half_of_them_wrong_in_one_way() -> None:
    assert len(LINES) >= 500
    wrong = [line for line in LINES if line["wrong"]]
    assert 0.4 <= len(wrong) / len(LINES) <= 0.6
    assert len({line["name"] for line in LINES}) == len(LINES)


def test_every_line_has_the_verdict_that_was_meant() -> None:
    """A line that is called wrong is one that vLLM refuses, and the other way round."""
    verdicts = RECORDED["verdicts"]
    assert set(verdicts) == {line["name"] for line in LINES}
    assert [line["name"] for line in LINES if verdicts[line["name"]]["taken"] == bool(line["wrong"])] == []


def as_flags(argv: list[str]) -> dict[str, FlagValue] | None:
    """A line as a profile writes its flags; None where a profile can't: words alone, a flag twice, ``-O0``."""
    words: dict[str, list[str]] = {}
    name = ""
    for word in argv:
        if re.match(r"--?[A-Za-z]", word):
            stem, given, value = word.partition("=")
            name = stem.lstrip("-")
            if name in words or re.fullmatch(r"[A-Z]\d", name):
                return None
            words[name] = [value] if given else []
        elif not name:
            return None
        else:
            words[name].append(word.replace("{port}", "8000"))
    return {
        name: list(found) if len(found) > 1 else found[0] if found else True for name, found in words.items()
    }


def test_no_line_that_vllm_took_is_refused_by_the_list_of_flags() -> None:
    """What is said without asking vLLM: names, types and choices, as its own version has them."""
    schema = shipped("0.32.0")
    wrong, judged = {}, 0
    for line in LINES:
        flags = as_flags(line["argv"])
        if flags is None or not RECORDED["verdicts"][line["name"]]["taken"]:
            continue
        judged += 1
        found = schema_problems(profile(flags), schema, sure=True)
        errors = [one.message for one in found if one.severity is Severity.ERROR]
        if errors:
            wrong[line["name"]] = errors
    assert wrong == {}
    assert judged > 150


@pytest.fixture(scope="module")
def dice() -> random.Random:
    """Chance that can be had again: the seed is printed; SPARK_COCKPIT_SEED repeats a run."""
    seed = int(os.environ.get("SPARK_COCKPIT_SEED") or random.randrange(1 << 30))
    print(f"SPARK_COCKPIT_SEED={seed}")
    return random.Random(seed)


@pytest.mark.lab
def test_the_deep_check_judges_a_random_few_as_recorded(
    venv: Path, model: Path, state: Path, tmp_path: Path, dice: random.Random
) -> None:
    plain = [line for line in LINES if "env" not in line]
    assert differing(venv, model, state, tmp_path, dice.sample(plain, FEW)) == {}


@pytest.mark.lab
@pytest.mark.full
@pytest.mark.parametrize("part", range(PARTS))
def test_the_deep_check_judges_all_as_recorded(
    venv: Path, model: Path, state: Path, tmp_path: Path, part: int
) -> None:
    plain = [line for line in LINES if "env" not in line]
    assert differing(venv, model, state, tmp_path, plain[part::PARTS]) == {}


@pytest.mark.lab
@pytest.mark.full
@pytest.mark.parametrize("line", [line for line in LINES if "env" in line], ids=lambda line: line["name"])
def test_the_deep_check_judges_an_environment_as_recorded(
    venv: Path, model: Path, state: Path, tmp_path: Path, line: dict[str, Any]
) -> None:
    assert differing(venv, model, state, tmp_path, [line], line["env"]) == {}


def differing(
    venv: Path,
    model: Path,
    state: Path,
    folder: Path,
    lines: list[dict[str, Any]],
    env: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Those of ``lines`` that the deep check judges otherwise than ``vllm serve`` did, with both verdicts."""
    for name, text in FILES.items():
        (folder / name).write_text(text)
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        fill = {"model": str(model), "folder": str(folder), "busy": str(busy.getsockname()[1])}
        argvs = [
            record_verdicts.command(line, {**fill, "port": str(record_verdicts.free_port())}) for line in lines
        ]
        try:
            verdicts = judged(venv, model, state, argvs, env or {})
        except NoVerdictError as error:
            # An environment with which vLLM can't even be imported.
            verdicts = tuple(Verdict("server", str(error)) for _ in lines)
    return {
        line["name"]: (verdict, RECORDED["verdicts"][line["name"]]["words"])
        for line, verdict in zip(lines, verdicts, strict=True)
        if bool(verdict.stage or verdict.bind) == RECORDED["verdicts"][line["name"]]["taken"]
    }


def judged(
    venv: Path, model: Path, state: Path, lines: list[list[str]], env: dict[str, str]
) -> tuple[Verdict, ...]:
    """The deep check's verdicts on several lines, by one process."""
    one = local_profile(venv, ServeSpec(str(model)))
    text = once_text(question(lines=lines, deep=True))
    command = environment(one).script(one.head, text, "ask", env={**ENV, **env}, limit=550)
    completed = Local(one, state).run(command, check=False)
    return read_verdicts(completed.stdout, completed.stderr).verdicts


@pytest.mark.lab
def test_a_wrong_line_is_refused_by_the_program_afresh(
    venv: Path, model: Path, tmp_path: Path, dice: random.Random
) -> None:
    """One line by ``vllm`` itself, a process of its own."""
    wrong = [line["name"] for line in LINES if line["wrong"] and "env" not in line]
    afresh(venv, model, tmp_path, dice.sample(wrong, 1))


@pytest.mark.lab
@pytest.mark.full
def test_a_random_few_are_judged_by_the_program_afresh(
    venv: Path, model: Path, tmp_path: Path, dice: random.Random
) -> None:
    for right, count in ((True, 1), (False, 3)):
        names = [line["name"] for line in LINES if bool(line["wrong"]) != right]
        afresh(venv, model, tmp_path, dice.sample(names, count))


def afresh(venv: Path, model: Path, folder: Path, chosen: list[str]) -> None:
    """Run lines by the program, and compare with what is recorded."""
    out = folder / "verdicts.json"
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
        assert lasting(found[name]["words"])[:200] == lasting(recorded["words"])[:200]


def lasting(words: str) -> str:
    """The words without what is another each time: ports and the like, and a set of names, in no order."""
    return re.sub(r"\d{4,}|0x[0-9a-f]+", "N", re.sub(r"\{'[^{}]*(\}|$)", "{…}", words))
