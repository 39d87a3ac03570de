"""The memory guard on a real run over two hosts: the worker's memory runs short, and both hosts' ranks end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.cockpit import Cockpit
from tests.rig.host import Host
from tests.rig.profile import rig_profile, runtime_of
from tests.rig.rig import Rig
from tests.rig.shell import wait_for

pytestmark = [pytest.mark.rig, pytest.mark.full, pytest.mark.timeout(900)]

GIB, MIB = 1 << 30, 1 << 20
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


BASE = 3_500_000
"""kB that the rig's hosts tell as used beside what their control group uses (tests/rig/files/memory.py)."""


def used(host: Host) -> int:
    """Bytes that the host's control group uses, while it has no limit."""
    lines = dict(line.split(":", 1) for line in host.exec(["cat", "/proc/meminfo"]).out.splitlines())
    total, available = (int(lines[name].split()[0]) for name in ("MemTotal", "MemAvailable"))
    return (total - available - BASE) * 1024


def test_a_load_in_containers_that_runs_short_is_told_by_up(rig: Rig, cockpit: Cockpit, tmp_path: Path) -> None:
    flags = [*runtime_of(rig, "docker")["run_flags"], "-v", "/proc/meminfo:/proc/meminfo:ro"]  # type: ignore[misc]
    changes = {"serve": {"guard": {"reserve": "1GiB"}}, "runtime": {"run_flags": flags}}
    profile = rig_profile(rig, tmp_path, changes=changes)
    worker = rig.hosts["spark-2"]
    running = cockpit.start("up", profile, "--through", "load", "--json")
    running.until(lambda e: e["event"] == "progress" and e["phase"] in ("workers", "nccl", "weights"))
    wait_for(
        lambda: "RayWorkerProc" in worker.exec(["ps", "-eo", "args"]).out,
        "the worker's rank is there",
        timeout=60,
    )
    worker.limit_memory(used(worker) + 900 * MIB)
    end = running.until(lambda e: e["event"] == "end")
    running.process.wait(timeout=60)
    assert end["outcome"] == "failed", running.seen
    found = [event for event in running.seen if event["event"] == "finding"]
    assert (found[0]["kind"], found[0]["host"]) == ("oom-unified-memory", "spark-2")
    assert "memory guard on spark-2 ended the ranks" in found[0]["cause"]
    told = [event for event in running.seen if event["event"] == "step" and event["step"] == "load"][-1]
    assert told["state"] == "failed"
    for host in rig.hosts.values():
        assert "RayWorkerProc" not in host.exec(["ps", "-eo", "args"]).out
    assert cockpit("down", profile, "--json").outcome == "down"
