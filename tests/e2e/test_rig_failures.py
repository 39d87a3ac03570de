"""What goes wrong on two real hosts is told: which host, which step, which command, the line that matters."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import asyncssh
import pytest
import yaml

from tests.e2e.cockpit import Cockpit
from tests.rig.layout import FABRIC
from tests.rig.profile import plain_text, rig_profile
from tests.rig.rig import Rig

pytestmark = [pytest.mark.rig, pytest.mark.timeout(900)]

QUICK_DEATH = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "10",
    "TORCH_COMPILE_DISABLE": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}
"""Ray notices a lost node after seconds instead of a minute."""


@pytest.fixture
def cockpit(tmp_path: Path) -> Cockpit:
    """The command line."""
    return Cockpit(tmp_path)


def config_with(rig: Rig, folder: Path, known_hosts: str) -> Path:
    """The rig's ssh_config with other known hosts."""
    known = folder / "known_hosts"
    known.write_text(known_hosts)
    config = folder / "ssh_config"
    config.write_text(rig.ssh_config.read_text().replace(str(rig.known_hosts), str(known)))
    return config


def test_an_unknown_host_key_is_a_question_and_the_option_answers_it(
    plain_rig: Rig, tmp_path: Path, cockpit: Cockpit
) -> None:
    config = config_with(plain_rig, tmp_path, "")
    profile = rig_profile_of_addresses(plain_rig, tmp_path, config)
    refused = cockpit("up", profile, "--through", "connect", "--json")
    assert (refused.outcome, refused.status) == ("unreachable", 3)
    reason = refused.step("connect")["reason"]
    fingerprints = [word for word in reason.split() if word.startswith("SHA256:")]
    assert "--trust-host-key" in reason
    trusted = [word for each in dict.fromkeys(fingerprints) for word in ("--trust-host-key", each)]
    accepted = cockpit("up", profile, "--through", "connect", "--json", *trusted)
    assert (accepted.outcome, accepted.status) == ("ready", 0), accepted.out
    assert cockpit("up", profile, "--through", "connect", "--json").outcome == "ready"


def test_a_changed_host_key_is_refused_in_other_words(plain_rig: Rig, tmp_path: Path, cockpit: Cockpit) -> None:
    one, two = plain_rig.hosts.values()
    swapped = f"{one.name},{one.address} {two.public_key}\n{two.name},{two.address} {two.public_key}\n"
    profile = rig_profile_of_addresses(plain_rig, tmp_path, config_with(plain_rig, tmp_path, swapped))
    answer = cockpit("up", profile, "--through", "connect", "--json")
    assert (answer.outcome, answer.status) == ("unreachable", 3)
    step = answer.step("connect")
    assert step["host"] == "spark-1"
    assert "REFUSED" in step["reason"]
    assert "--trust-host-key" not in step["reason"]
    its_own = asyncssh.import_public_key(one.public_key).get_fingerprint()
    forced = cockpit("up", profile, "--through", "connect", "--json", "--trust-host-key", its_own)
    assert (forced.outcome, forced.status) == ("unreachable", 3), "the option answers for unknown keys alone"


def rig_profile_of_addresses(rig: Rig, folder: Path, config: Path) -> Path:
    """A native profile that only has to connect."""
    path = folder / "keys.yaml"
    path.write_text(plain_text(rig, "keys", ssh={"config": str(config)}))
    return path


@pytest.fixture(scope="module")
def module_cockpit(tmp_path_factory: pytest.TempPathFactory) -> Cockpit:
    """The command line, for what several tests share."""
    return Cockpit(tmp_path_factory.mktemp("cockpit"))


@pytest.fixture(scope="module")
def joined(
    standing_rig: Rig, module_cockpit: Cockpit, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Cockpit, Path]]:
    """Both hosts joined in Ray, nothing launched; the profile lacks the one flag."""
    standing_rig.reset()
    folder = tmp_path_factory.mktemp("profile")
    changes = {"ray": {"env": QUICK_DEATH}}
    profile = rig_profile(standing_rig, folder, flags={"distributed-executor-backend": None}, changes=changes)
    answer = module_cockpit("up", profile, "--through", "membership", "--json")
    assert answer.outcome == "ready", answer.out + answer.err
    yield module_cockpit, profile
    module_cockpit("down", profile)
    standing_rig.reset()


def test_the_environment_of_what_runs_is_compared_with_the_profile(
    joined: tuple[Cockpit, Path], tmp_path: Path
) -> None:
    cockpit, profile = joined

    def judged(path: Path) -> dict[str, tuple[str, str]]:
        verdicts = cockpit("check", path, "--json").json["verdicts"]
        found = [one for one in verdicts if one["id"] == "inside"]
        return {host: (one["grade"], one["observed"]) for one in found for host in one["hosts"]}

    fine = judged(profile)
    assert {host: grade for host, (grade, _) in fine.items()} == {"spark-1": "ready", "spark-2": "ready"}
    changed = tmp_path / "rig.yaml"
    declared = yaml.safe_load(profile.read_text())
    declared["hosts"][1]["env"] = {"NCCL_IB_HCA": "rocep1s0f1"}
    changed.write_text(yaml.safe_dump(declared))
    moved = judged(changed)
    assert moved["spark-1"][0] == "ready"
    assert moved["spark-2"][0] == "blocked"
    assert "raylet" in moved["spark-2"][1]
    assert "NCCL_IB_HCA is not set, and rocep1s0f1 in the profile" in moved["spark-2"][1]


def test_the_missing_flag_is_refused_before_anything_is_launched(joined: tuple[Cockpit, Path]) -> None:
    cockpit, profile = joined
    answer = cockpit("up", profile, "--json")
    assert (answer.outcome, answer.status) == ("refused", 4), answer.out
    step = answer.step("flags")
    assert step["state"] == "refused"
    assert "distributed-executor-backend" in step["reason"]
    assert "distributed-executor-backend: ray" in step["reason"]
    assert f"{profile}:" in step["reason"]
    status = cockpit("status", profile, "--json").json
    assert status["run"] is None


def test_the_missing_flag_forced_is_explained_from_the_whole_log(joined: tuple[Cockpit, Path]) -> None:
    cockpit, profile = joined
    answer = cockpit("up", profile, "--force", "--json", timeout=400)
    assert (answer.outcome, answer.status) == ("failed", 1), answer.out
    step = answer.step("load")
    assert (step["state"], step["host"]) == ("failed", "spark-1")
    assert "World size (2) is larger than the number of available GPUs (1)" in step["reason"]
    assert "vllm serve" in step["reason"]
    first = answer.findings[0]
    assert (first["kind"], first["confidence"]) == ("executor-backend", "certain")
    assert {"set": {"serve.flags.distributed-executor-backend": "ray"}} in [
        fix["change"] for fix in first["fix"]
    ]
    assert "World size (2)" in first["evidence"][0]["text"]


def test_one_host_only_in_ray_is_told_within_seconds(joined: tuple[Cockpit, Path], standing_rig: Rig) -> None:
    cockpit, profile = joined
    worker = standing_rig.hosts["spark-2"]
    worker.drop("on", FABRIC)
    try:
        # Ray takes the worker out after three missed checks; its processes run on.
        end = time.monotonic() + 60
        while cockpit("status", profile, "--json").json["hosts"][1]["ray"]["state"] == "joined":
            assert time.monotonic() < end
        began = time.monotonic()
        # Preflight refuses on such a fabric; past it, the step itself must tell.
        refused = cockpit("up", profile, "--through", "membership", "--json")
        answer = cockpit("up", profile, "--through", "membership", "--force", "--json")
        took = time.monotonic() - began
    finally:
        worker.drop("off", FABRIC)
    assert refused.status == 4, refused.out
    assert "does not answer over the fabric" in refused.step("preflight")["reason"]
    assert answer.status == 1, answer.out
    failed = answer.events[-2]
    assert failed["state"] == "failed"
    assert failed["host"] == "spark-2"
    assert "spark-2" in failed["reason"]
    assert took < 120, "a membership that can't be complete is told, not waited for"


def test_a_worker_starting_against_a_dead_head_is_told_in_time(
    joined: tuple[Cockpit, Path], standing_rig: Rig
) -> None:
    cockpit, profile = joined
    assert cockpit("down", profile, "--json").outcome == "down"
    assert cockpit("up", profile, "--through", "ray-head", "--json").outcome == "ready"
    head = standing_rig.hosts["spark-1"]
    head.drop("on", FABRIC)
    try:
        answer = cockpit("up", profile, "--through", "ray-workers", "--force", "--json", timeout=120)
    finally:
        head.drop("off", FABRIC)
    step = answer.step("ray-workers")
    assert (step["state"], step["host"]) == ("failed", "spark-2"), answer.out
    assert f"spark-2 can't reach spark-1's Ray at {head.fabric}:6379" in step["reason"]
    assert "Command: " in step["reason"]


def test_the_workers_link_lost_while_loading_is_told(
    joined: tuple[Cockpit, Path], standing_rig: Rig, tmp_path: Path
) -> None:
    cockpit, _ = joined
    changes = {"ray": {"env": QUICK_DEATH}}
    profile = rig_profile(standing_rig, tmp_path, changes=changes)
    running = cockpit.start("up", profile, "--json")
    running.until(lambda e: e["event"] == "progress" and e["phase"] == "ray")
    worker = standing_rig.hosts["spark-2"]
    worker.drop("on", FABRIC)
    try:
        end = running.until(lambda e: e["event"] == "end")
    finally:
        worker.drop("off", FABRIC)
        running.process.wait(timeout=60)
    assert end["outcome"] in ("failed", "stalled"), running.seen
    told = [event for event in running.seen if event["event"] == "step" and event["step"] == "load"][-1]
    assert told["state"] == "failed"
    assert "vllm serve" in told["reason"]
    assert cockpit("down", profile, "--json").outcome == "down"
