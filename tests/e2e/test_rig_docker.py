"""The whole main job on two real hosts with the Docker runtime: one bring-up, shared by these tests in order."""

from __future__ import annotations

import hashlib
import re
import shlex
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from cockpit.bringup.lock import hold_command, myself
from cockpit.bringup.profiles import load
from tests.e2e.cockpit import Answer, Cockpit
from tests.rig.profile import rig_profile
from tests.rig.rig import Rig

pytestmark = [pytest.mark.rig, pytest.mark.timeout(900)]

STEPS = (
    *("connect", "preflight", "containers", "ray-head", "ray-workers"),
    *("membership", "flags", "launch", "load", "prompt"),
)
OURS = "label=org.spark-cockpit.cluster=rig"


@pytest.fixture(scope="module")
def cockpit(tmp_path_factory: pytest.TempPathFactory) -> Cockpit:
    """The command line."""
    return Cockpit(tmp_path_factory.mktemp("cockpit"))


@pytest.fixture(scope="module")
def profile(standing_rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A profile of both hosts."""
    return rig_profile(standing_rig, tmp_path_factory.mktemp("profile"))


@pytest.fixture(scope="module")
def others(standing_rig: Rig) -> Iterator[str]:
    """What belongs to somebody else on the worker: a container with a process in it."""
    standing_rig.reset()
    host = standing_rig.hosts["spark-2"]
    words = [
        "--label",
        "owner=somebody",
        "--name",
        "theirs",
        "--entrypoint",
        "sleep",
        standing_rig.image,
        "600",
    ]
    yield host.exec(["docker", "run", "-d", "--network", "host", *words], timeout=60).out.strip()
    standing_rig.reset()


@pytest.fixture(scope="module")
def interrupted(cockpit: Cockpit, profile: Path, others: str) -> list[str]:
    """An `up` that is killed, as by a power cut, in the middle of each of its steps; the steps it was killed in."""
    killed = []
    for step in STEPS[:-1]:
        running = cockpit.start("up", profile, "--json")
        running.until_step(step)
        # Past the step's own question, into its work.
        time.sleep(0.7)
        running.kill()
        killed.append(step)
    return killed


@pytest.fixture(scope="module")
def first(cockpit: Cockpit, profile: Path, interrupted: list[str]) -> Answer:
    """The first `up` that is left alone."""
    return cockpit("up", profile, "--json", timeout=600)


def containers(rig: Rig, host: str, *filters: str) -> list[str]:
    """Ids of the containers on a host."""
    words = [word for each in filters for word in ("--filter", each)]
    return rig.hosts[host].exec(["docker", "ps", "-aq", "--no-trunc", *words], timeout=30).out.split()


def test_up_reaches_an_answered_prompt_whatever_was_interrupted(first: Answer, interrupted: list[str]) -> None:
    assert interrupted == list(STEPS[:-1])
    assert first.outcome == "ready", first.out + first.err
    assert first.status == 0
    states = {step: first.step(step)["state"] for step in STEPS}
    assert set(states.values()) == {"done"}, states
    assert first.step("membership")["reason"].startswith("2 of 2 hosts, 2 GPUs")
    ranks = {event["rank"] for event in first.events if event["event"] == "progress"}
    assert {0, 1} <= ranks
    phases = [
        event["phase"] for event in first.events if event["event"] == "progress" and event["rank"] is None
    ]
    assert phases[-1] == "ready"
    assert "ray" in phases


def test_up_again_starts_nothing(first: Answer, cockpit: Cockpit, profile: Path, standing_rig: Rig) -> None:
    before = [containers(standing_rig, host, OURS) for host in standing_rig.hosts]
    again = cockpit("up", profile, "--json")
    assert again.outcome == "ready", again.out + again.err
    assert again.events[-1]["run"] == first.events[-1]["run"]
    assert [containers(standing_rig, host, OURS) for host in standing_rig.hosts] == before


def test_status_shows_both_hosts_and_the_run(first: Answer, cockpit: Cockpit, profile: Path) -> None:
    answer = cockpit("status", profile, "--json")
    seen = answer.json
    assert answer.status == 0, answer.err
    assert [(host["name"], host["role"], host["rank"], host["ray"]["state"]) for host in seen["hosts"]] == [
        ("spark-1", "head", 0, "joined"),
        ("spark-2", "worker", 1, "joined"),
    ]
    for host in seen["hosts"]:
        assert host["memory"]["total"] == 125513136 * 1024
        assert 0 < host["memory"]["gpu_processes"] < host["memory"]["total"]
    assert seen["run"]["ready"] is True
    assert seen["run"]["id"] == first.events[-1]["run"]
    assert seen["run"]["phase"] == "ready"


def test_prompt_streams_an_answer(first: Answer, cockpit: Cockpit, profile: Path) -> None:
    answer = cockpit("prompt", profile, "Good morning", "--json")
    assert answer.status == 0, answer.err
    assert answer.json["usage"]["completion_tokens"] > 0
    assert answer.json["model"] == "tiny"


def test_the_serve_log_is_whole(first: Answer, cockpit: Cockpit, profile: Path, standing_rig: Rig) -> None:
    saved = Path(cockpit.env["XDG_STATE_HOME"]) / "saved.log"
    saved.parent.mkdir(exist_ok=True)
    answer = cockpit("logs", profile, "--save", saved)
    assert answer.status == 0, answer.err
    path = "/home/aurora/.local/state/spark-cockpit/rig/runs/current/serve.log"
    data = saved.read_bytes()
    assert b"Application startup complete" in data
    # Whoever asks vLLM for its health adds a line: the host's log may be longer by now.
    same = standing_rig.hosts["spark-1"].exec(
        ["sh", "-c", f"head -c {len(data)} {path} | sha256sum"], timeout=30
    )
    assert hashlib.sha256(data).hexdigest() == same.out.split()[0]


@contextmanager
def another_operator(rig: Rig, profile: Path) -> Iterator[None]:
    """Somebody else in the middle of an ``up``: holds the lock by the cockpit's own script."""
    command = hold_command(load(profile), "up")
    argv = ["ssh", "-F", str(rig.ssh_config), command.host, shlex.join(command.remote_argv)]
    over = threading.Event()
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdin is not None and holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"

        def beat(pipe: IO[bytes]) -> None:
            while not over.wait(1):
                pipe.write(b".")
                pipe.flush()

        beating = threading.Thread(target=beat, args=(holder.stdin,))
        beating.start()
        try:
            yield
        finally:
            over.set()
            beating.join()
            holder.stdin.close()


def test_a_second_operator_is_told_who_and_since_when(
    cockpit: Cockpit, profile: Path, first: Answer, standing_rig: Rig
) -> None:
    with another_operator(standing_rig, profile):
        second = cockpit("up", profile, "--json")
    assert second.outcome == "refused", second.out + second.err
    assert second.status == 4
    told = second.events[-2]["reason"]
    assert "spark-1" in told
    assert re.search(rf"{re.escape(myself())} \(up since \d\d:\d\d:\d\d\)", told), told
    assert cockpit("up", profile, "--json").outcome == "ready"


def test_down_leaves_nothing_of_ours_and_everything_of_others(
    first: Answer, cockpit: Cockpit, profile: Path, standing_rig: Rig, others: str
) -> None:
    answer = cockpit("down", profile, "--json")
    assert answer.outcome == "down", answer.out + answer.err
    assert answer.status == 0
    for name, host in standing_rig.hosts.items():
        assert containers(standing_rig, name, OURS) == []
        listening = host.exec(["ss", "-Hltn"], timeout=30).out
        assert not any(f":{port} " in listening for port in (6379, 8265, 8000)), listening
        processes = host.exec(["ps", "-eo", "args"], timeout=30).out
        assert not any(word in processes for word in ("raylet", "gcs_server", "VLLM", "vllm")), processes
    running = standing_rig.hosts["spark-2"].exec(["docker", "ps", "-q", "--no-trunc"], timeout=30).out.split()
    assert others in running
    again = cockpit("down", profile, "--json")
    assert again.outcome == "down", again.out + again.err


def test_the_runbook_reaches_an_answered_prompt_by_hand(
    first: Answer, cockpit: Cockpit, profile: Path, standing_rig: Rig, tmp_path: Path
) -> None:
    script, output = tmp_path / "runbook.sh", tmp_path / "out"
    script.write_text(cockpit("runbook", profile).out)
    with output.open("w") as log:
        done = subprocess.run(
            ["sh", str(script)], stdout=log, stderr=log, timeout=600, env=cockpit.env, stdin=subprocess.DEVNULL
        )
    said = output.read_text()
    assert done.returncode == 0, said[-4000:]
    assert '"choices"' in said
    assert cockpit("status", profile, "--json").json["run"]["ready"] is True
    assert cockpit("down", profile, "--json").outcome == "down"


def test_the_native_runtime_refuses_what_is_not_there(
    standing_rig: Rig, cockpit: Cockpit, tmp_path: Path
) -> None:
    assert standing_rig.environment is not None
    profile = rig_profile(standing_rig, tmp_path, runtime="native", name="bare")
    profile.write_text(profile.read_text().replace(str(standing_rig.environment.venv), "/opt/nothing"))
    answer = cockpit("up", profile, "--json")
    assert (answer.outcome, answer.status) == ("refused", 4)
    assert answer.step("preflight")["state"] == "refused"
    assert "/opt/nothing" in answer.step("preflight")["reason"]
