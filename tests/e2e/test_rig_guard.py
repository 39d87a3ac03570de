"""The memory guard on a real run over two hosts: the worker's memory runs short, and both hosts' ranks end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.cockpit import Cockpit
from tests.rig.profile import rig_profile
from tests.rig.rig import Rig
from tests.rig.shell import wait_for

pytestmark = [pytest.mark.rig, pytest.mark.full, pytest.mark.timeout(900)]

GIB = 1 << 30
EAT = """\
import time
held = []
while len(held) < 75:
    held.append(b"x" * (64 << 20))
    time.sleep(0.15)
time.sleep(300)
"""
"""Takes 4.7 GiB, some 400 MiB a second: another program on the worker."""


@pytest.fixture
def cockpit(tmp_path: Path) -> Cockpit:
    """The command line."""
    return Cockpit(tmp_path / "cockpit")


@pytest.fixture
def profile(rig: Rig, tmp_path: Path) -> Path:
    """A profile whose guard watches while serving too, natively, so that it sees the host's own figures."""
    changes = {"serve": {"guard": {"reserve": "1GiB", "while": "serving"}}}
    return rig_profile(rig, tmp_path, runtime="native", changes=changes)


def test_ranks_end_on_both_hosts_and_the_cause_is_named(rig: Rig, cockpit: Cockpit, profile: Path) -> None:
    answer = cockpit("up", profile, "--through", "load", "--json")
    assert answer.outcome == "ready", answer.out + answer.err
    worker = rig.hosts["spark-2"]
    told = json.loads(cockpit("status", profile, "--json").out)
    assert [host["guard"]["state"] for host in told["hosts"]] == ["watching", "watching"]
    worker.limit_memory(6 * GIB)
    worker.exec(["sh", "-c", 'exec python3 -c "$0" >/dev/null 2>&1 &', EAT], user="aurora")

    def ended() -> bool:
        seen = json.loads(cockpit("status", profile, "--json").out)
        return seen["run"]["exit_status"] is not None

    wait_for(ended, "the run has ended", timeout=120)
    told = json.loads(cockpit("status", profile, "--json").out)
    assert {host["name"]: host["guard"]["state"] for host in told["hosts"]}["spark-2"] == "stopped"
    for host in rig.hosts.values():
        assert "RayWorkerProc" not in host.exec(["ps", "-eo", "args"]).out
    found = cockpit("explain", profile, "--json").json
    assert (found["status"], found["findings"][0]["kind"]) == ("failed", "oom-unified-memory")
    assert found["findings"][0]["host"] == "spark-2"
    assert cockpit("down", profile, "--json").outcome == "down"
