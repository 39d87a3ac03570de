"""The embedded lab, as a newcomer uses it: from nothing to an answered prompt, and back."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.lab.environment import Environment
from tests.e2e.cockpit import Answer, Cockpit
from tests.rig.shell import wait_for

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def lab(
    lab_environment: Environment, lab_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cockpit]:
    """The command line, and a lab of these tests' own."""
    assert lab_environment.folder.exists()
    assert lab_model.exists()
    name = f"e2e-{os.getpid()}"
    cockpit = Cockpit(tmp_path_factory.mktemp("lab"), SPARK_COCKPIT_LAB=name)
    assert cockpit("lab", "up", timeout=600).status == 0
    cockpit.name = name
    yield cockpit
    cockpit("down", name)
    assert cockpit("lab", "down").status == 0


@pytest.fixture(scope="module")
def detached(lab: Cockpit) -> tuple[int, str]:
    """An `up` that is left with Ctrl+C while it watches the load: its exit status, and its last outcome."""
    running = lab.start("up", lab.name, "--json")
    running.until_step("load")
    status = running.interrupt()
    return status, running.last


@pytest.fixture(scope="module")
def first(lab: Cockpit, detached: tuple[int, str]) -> Answer:
    """The first `up` that is left alone."""
    return lab("up", lab.name, "--json", timeout=600)


def test_up_reaches_an_answered_prompt(first: Answer) -> None:
    assert (first.outcome, first.status) == ("ready", 0), first.out + first.err
    assert first.step("containers")["state"] == "not-needed"
    assert first.step("prompt")["state"] == "done"


def test_it_is_listed(lab: Cockpit) -> None:
    listed = {entry["name"]: entry["source"] for entry in lab("profiles", "--json").json["profiles"]}
    assert listed[lab.name] == "lab"
    assert listed["qwen3.5-122b-fp8"] == "shipped"


def test_ctrl_c_detaches_and_everything_goes_on(lab: Cockpit, detached: tuple[int, str], first: Answer) -> None:
    assert detached == (130, "detached")
    launch = first.step("launch")
    assert launch["reason"] == f"run {first.events[-1]['run']}", "the run was found, not started"
    seen = lab("status", lab.name, "--json").json
    assert seen["run"]["ready"] is True


def test_a_healthy_run_is_explained_as_healthy(lab: Cockpit, first: Answer) -> None:
    found = lab("explain", lab.name, "--json").json
    assert found["status"] == "ok", found
    assert found["findings"] == []


def test_the_stacks_of_every_rank_are_taken_and_told(lab: Cockpit, first: Answer) -> None:
    found = lab("explain", lab.name, "--stacks", "--json").json
    assert found["status"] == "ok", found
    (note,) = found["findings"]
    assert note["severity"] == "note"
    files = " ".join(shown["file"] for shown in note["evidence"])
    # Where tracing is not allowed (a container without SYS_PTRACE), that is said instead.
    assert ("spark-1" in files and "spark-2" in files) or "SYS_PTRACE" in " ".join(found["next"]), found
    assert "the engine (process " in note["cause"]


def test_the_logs_of_both_hosts(lab: Cockpit, first: Answer) -> None:
    serve = lab("logs", lab.name)
    assert "Application startup complete." in serve.out
    assert "\x1b" not in serve.out
    listed = lab("logs", lab.name, "--host", "spark-2", "--list")
    assert "raylet.out" in listed.out
    worker = lab("logs", lab.name, "--host", "spark-2")
    assert worker.status == 0
    assert ":actor_name:RayWorkerProc" in worker.out
    wrong = lab("logs", lab.name, "--host", "spark-3")
    assert wrong.status == 2
    assert "Did you mean spark-" in wrong.err


@pytest.mark.full
def test_the_runbook_reaches_an_answered_prompt_by_hand(lab: Cockpit, first: Answer, tmp_path: Path) -> None:
    assert lab("down", lab.name, "--json").outcome == "down"
    script = tmp_path / "runbook.sh"
    script.write_text(lab("runbook", lab.name).out)
    log = (tmp_path / "out").open("w+")
    done = subprocess.run(
        ["sh", str(script)], stdout=log, stderr=log, timeout=600, env=lab.env, stdin=subprocess.DEVNULL
    )
    log.seek(0)
    said = log.read()
    assert done.returncode == 0, said[-4000:]
    assert '"choices"' in said
    assert lab("status", lab.name, "--json").json["run"]["ready"] is True


def test_down_leaves_nothing(lab: Cockpit, first: Answer) -> None:
    answer = lab("down", lab.name, "--json")
    assert (answer.outcome, answer.status) == ("down", 0), answer.out

    def nothing_runs() -> bool:
        return all(host["processes"] == 0 for host in lab("lab", "status", "--json").json["hosts"])

    wait_for(nothing_runs, "no process left on the lab's hosts", timeout=30)
