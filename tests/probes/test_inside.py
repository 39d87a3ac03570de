"""The environment of running processes against the profile's: real processes, and the judgement."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cockpit.model.verdict import Grade
from cockpit.probes.inside import Inside, comparable, inside, parse_inside
from cockpit.runtime.script_text import script_text

SCRIPT = script_text("cockpit.probes.scripts", "inside_facts")


def ask(state: Path, *names: str) -> tuple[Inside, ...]:
    """The script's answer."""
    question = json.dumps({"state": str(state), "names": names})
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-", question],
        input=SCRIPT.encode(),
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return parse_inside(done.stdout)


def test_a_real_process_tells_what_it_was_started_with(tmp_path: Path) -> None:
    mark = {"SPARK_COCKPIT_UNIT": f"{tmp_path}/ray", "NCCL_SOCKET_IFNAME": "eth0"}
    ours = subprocess.Popen(["bash", "-c", "exec -a /opt/ray/raylet sleep 60"], env={**os.environ, **mark})
    others = subprocess.Popen(["bash", "-c", "exec -a /opt/ray/raylet sleep 60"])
    try:
        for process in (ours, others):
            while b"raylet" not in Path(f"/proc/{process.pid}/cmdline").read_bytes():
                assert process.poll() is None
        (found,) = ask(tmp_path, "NCCL_SOCKET_IFNAME", "VLLM_HOST_IP")
    finally:
        for process in (ours, others):
            process.kill()
            process.wait()
    assert (found.kind, found.pid) == ("raylet", ours.pid)
    assert found.values == {"NCCL_SOCKET_IFNAME": "eth0", "VLLM_HOST_IP": None}


EXPECTED = {"NCCL_SOCKET_IFNAME": "enp1s0f1np1", "RAY_ADDRESS": "10.0.0.1:6379", "HF_TOKEN": "hf_x", "A": "1"}


def judged(**values: str | None) -> tuple[Grade, str]:
    process = Inside("raylet", 7, {**EXPECTED, "RAY_ADDRESS": None, **values})
    (verdict,) = inside("pair", "two", EXPECTED, [process])
    assert verdict.hosts == ("two",)
    assert (verdict.remedy != "") is (verdict.grade is not Grade.READY)
    return verdict.grade, verdict.observed


def test_what_differs_is_told_and_secrets_are_not() -> None:
    assert judged()[0] is Grade.READY, "Ray's own address is not set where Ray is started"
    grade, observed = judged(NCCL_SOCKET_IFNAME="eth0")
    assert grade is Grade.BLOCKED
    assert "NCCL_SOCKET_IFNAME is eth0, and enp1s0f1np1 in the profile" in observed
    grade, observed = judged(A=None, HF_TOKEN="hf_private")
    assert grade is Grade.SLOW and "A is not set, and 1 in the profile" in observed
    assert "HF_TOKEN is another" in observed and "hf_" not in observed.replace("HF_TOKEN", "")


def test_paths_of_the_state_folder_are_not_compared() -> None:
    assert comparable({"RAY_AUTH_TOKEN_PATH": "$STATE/ray/token", "A": "1"}) == {"A": "1"}


@pytest.mark.parametrize("output", [b"", b"{}", b"[]", b'{"processes": [{"pid": "x"}]}', b"null"])
def test_hostile_answers_are_refused(output: bytes) -> None:
    with pytest.raises(ValueError):
        parse_inside(output)
