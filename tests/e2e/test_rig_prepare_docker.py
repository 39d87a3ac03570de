"""Preparation where vLLM lives in an image: the image from the other host or a registry, and what is left over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cockpit import Cockpit
from tests.e2e.test_rig_prepare import FOLDER, ended, events, make_model, shards_of, tasks
from tests.rig import image
from tests.rig.profile import plain_text, rig_profile
from tests.rig.registry import REGISTRY, serve_image
from tests.rig.rig import Rig

pytestmark = [pytest.mark.rig, pytest.mark.timeout(600)]

STATE = "/home/aurora/.local/state/spark-cockpit/rig"


@pytest.fixture
def cockpit(tmp_path: Path) -> Cockpit:
    """The command line."""
    return Cockpit(tmp_path / "cockpit")


@pytest.fixture
def without_image(rig: Rig) -> Iterator[Rig]:
    """The rig whose second host lacks the image."""
    worker = rig.hosts["spark-2"]
    worker.exec(["docker", "rmi", "-f", rig.image], timeout=60)
    yield rig
    assert rig.environment is not None
    image.load(image.archive(rig.environment), rig.hosts.values())


def test_folders_and_image_come_first_then_the_model(
    without_image: Rig, cockpit: Cockpit, tmp_path: Path
) -> None:
    rig = without_image
    head, worker = rig.hosts.values()
    make_model(head, 2_000_000)
    head.exec(["mkdir", "-p", "/home/aurora/data"], user="aurora")
    mounts = [*rig.mounts, "~/models:/big", "~/data:/data"]
    changes = {"runtime": {"mounts": mounts}, "serve": {"model": "/big/big"}}
    profile = rig_profile(rig, tmp_path, changes=changes)
    answer = cockpit("prepare", profile, "--yes", "--json")
    assert answer.status == 0, answer.out + answer.err
    assert list(ended(answer).items()) == [
        ("folders:spark-2", "done"),
        ("image:spark-2", "done"),
        ("model:spark-2", "done"),
    ]
    loading = [event for event in events(answer, "progress") if event["task"] == "image:spark-2"]
    assert loading and loading[-1]["unit"] == "bytes" and int(str(loading[-1]["done"])) > 50_000_000
    ids = [host.exec(["docker", "image", "inspect", "-f", "{{.Id}}", rig.image]).out for host in (head, worker)]
    assert ids[0] == ids[1]
    assert shards_of(worker) == shards_of(head), FOLDER
    assert worker.exec(["stat", "-c", "%U", "/home/aurora/data"]).out.strip() == "aurora"
    checked = cockpit("check", profile, "--json")
    assert checked.status == 0, checked.out


def test_an_image_that_differs_is_replaced_by_the_heads(rig: Rig, cockpit: Cockpit, tmp_path: Path) -> None:
    head, worker = rig.hosts.values()
    head.exec(["docker", "tag", rig.image, "rig/other:test"])
    recipe = f"FROM {rig.image}\nENV MADE=elsewhere\n"
    worker.exec(["docker", "build", "-q", "-t", "rig/other:test", "-"], stdin=recipe, timeout=60)
    profile = rig_profile(rig, tmp_path, changes={"runtime": {"image": "rig/other:test"}})
    try:
        verdicts = cockpit("check", profile, "--json").json["verdicts"]
        differing = [one for one in verdicts if one["id"] == "image" and one["grade"] == "slow"]
        assert [one["hosts"] for one in differing] == [["spark-1", "spark-2"]]
        planned = cockpit("prepare", profile, "--only", "image", "--plan", "--json")
        (task,) = tasks(planned).values()
        assert "in place of" in str(task["title"])
        answer = cockpit("prepare", profile, "--only", "image", "--yes", "--json")
        assert (answer.status, ended(answer)) == (0, {"image:spark-2": "done"}), answer.out + answer.err
        verdicts = cockpit("check", profile, "--json").json["verdicts"]
        assert [one["grade"] for one in verdicts if one["id"] == "image"] == ["ready"]
    finally:
        for host in (head, worker):
            host.exec(["docker", "rmi", "-f", "rig/other:test"])
            host.exec(["docker", "image", "prune", "-f"])


@pytest.mark.full
def test_an_image_that_no_host_has_is_pulled_on_both(rig: Rig, cockpit: Cockpit, tmp_path: Path) -> None:
    reference = f"{REGISTRY}/rig/small:test"
    with serve_image(rig):
        profile = rig_profile(rig, tmp_path, changes={"runtime": {"image": reference}})
        answer = cockpit("prepare", profile, "--only", "image", "--yes", "--json")
        missing = rig_profile(
            rig, tmp_path, name="none", changes={"runtime": {"image": f"{REGISTRY}/rig/none:it"}}
        )
        failed = cockpit("prepare", missing, "--only", "image", "--yes", "--json")
    for host in rig.hosts.values():
        host.exec(["docker", "rmi", "-f", reference], check=False)
    done = {"image:spark-1": "done", "image:spark-2": "done"}
    assert (answer.status, ended(answer)) == (0, done), answer.out + answer.err
    assert "1 of 1 layers are there" in str(events(answer, "progress")[-1]["doing"])
    assert (failed.status, set(ended(failed).values())) == (1, {"failed"}), failed.out
    assert "docker pull" in str(events(failed, "task")[-1]["reason"])


def test_our_own_leftovers_are_asked_about_one_by_one(rig: Rig, cockpit: Cockpit, tmp_path: Path) -> None:
    profile = rig_profile(rig, tmp_path)
    worker = rig.hosts["spark-2"]
    label = "org.spark-cockpit.cluster=rig"
    run = ["docker", "run", "-d", "--network=host", "--pull=never", "--entrypoint", "bash"]
    ranks = "exec -a ray::RayWorkerWrapper.execute sleep 300"
    worker.exec([*run, "--name", "left", "--label", label, rig.image, "-c", f"bash -c '{ranks}'; true"])
    ended_one = [*run, "--name", "ended", "--label", label, rig.image, "-c", "true"]
    worker.exec(ended_one)
    other = worker.exec([*run, "--name", "theirs", rig.image, "-c", ranks]).out.strip()
    shm = "/dev/shm/psm_left_of_a_run"
    worker.exec(
        ["sh", "-c", f"mkdir -p {STATE} && echo '[\"{shm}\", \"/etc/passwd\"]' >{STATE}/shared-memory.json && "
         f"head -c 1000000 /dev/zero >{shm} && head -c 100 /dev/zero >/dev/shm/theirs"],
        user="aurora",
    )  # fmt: skip
    planned = cockpit("prepare", profile, "--only", "leftovers", "--plan", "--json")
    titles = [str(task["title"]) for task in tasks(planned).values()]
    assert len(titles) == 3, titles
    assert any("our container left (ranks of an earlier run in it" in title for title in titles)
    assert any("our container ended (exited)" in title for title in titles)
    assert any(shm in title for title in titles)
    answer = cockpit("prepare", profile, "--only", "leftovers", "--yes", "--json")
    assert (answer.status, set(ended(answer).values())) == (0, {"done"}), answer.out + answer.err
    left = worker.exec(["docker", "ps", "-aq", "--no-trunc"]).out.split()
    assert left == [other], "another's container stays"
    assert worker.exec(["ls", "/dev/shm"]).out.split() == ["theirs"]
    assert tasks(cockpit("prepare", profile, "--only", "leftovers", "--plan", "--json")) == {}


def test_an_earlier_runs_process_is_ended_and_no_other(
    plain_rig: Rig, cockpit: Cockpit, tmp_path: Path
) -> None:
    worker = plain_rig.hosts["spark-2"]
    for host in plain_rig.hosts.values():
        host.exec(
            ["sh", "-c", "mkdir -p ~/venv/bin && ln -sf /usr/bin/python3 ~/venv/bin/python"], user="aurora"
        )
    profile = tmp_path / "left.yaml"
    profile.write_text(plain_text(plain_rig, "left", runtime={"kind": "native", "venv": "~/venv"}))
    unit = "/home/aurora/.local/state/spark-cockpit/left/runs/earlier"
    ours = f"SPARK_COCKPIT_UNIT={unit} bash -c 'trap \"\" TERM; exec -a VLLM::EngineCore sleep 300' >/dev/null 2>&1 &"
    theirs = "bash -c 'exec -a VLLM::EngineCore sleep 301' >/dev/null 2>&1 &"
    worker.exec(["bash", "-c", ours + theirs], user="aurora")
    answer = cockpit("prepare", profile, "--only", "leftovers", "--yes", "--json")
    assert (answer.status, ended(answer)) == (0, {"leftovers:spark-2:1": "done"}), answer.out + answer.err
    assert "VLLM::EngineCore" in str(next(iter(tasks(answer).values()))["title"])
    processes = worker.exec(["ps", "-eo", "args"]).out
    assert "VLLM::EngineCore 301" in processes and "VLLM::EngineCore 300" not in processes


def test_the_page_cache_needs_root_and_says_so(plain_rig: Rig, cockpit: Cockpit, tmp_path: Path) -> None:
    from tests.e2e.test_rig_failures import rig_profile_of_addresses

    profile = rig_profile_of_addresses(plain_rig, tmp_path, plain_rig.ssh_config)
    refused = cockpit("prepare", profile, "--only", "cache", "--yes", "--json")
    assert (refused.status, set(ended(refused).values())) == (4, {"refused"}), refused.out + refused.err
    assert "drop_caches" in str(events(refused, "task")[-1]["reason"])
    # What password-less sudo gives, without a sudo on the machine the rig stands on.
    sudo = '#!/bin/sh\n[ "$1" = -n ] && shift\necho "$*" >>/tmp/asked\n[ "$1" = tee ] && cat >/tmp/written\nexit 0\n'
    for host in plain_rig.hosts.values():
        host.exec(["sh", "-c", "cat >/usr/local/bin/sudo && chmod 755 /usr/local/bin/sudo"], stdin=sudo)
    try:
        answer = cockpit("prepare", profile, "--only", "cache", "--yes", "--json")
        told = [host.exec(["cat", "/tmp/written", "/tmp/asked"]).out for host in plain_rig.hosts.values()]
    finally:
        for host in plain_rig.hosts.values():
            host.exec(["rm", "/usr/local/bin/sudo"])
    assert (answer.status, set(ended(answer).values())) == (0, {"done"}), answer.out + answer.err
    assert all(text.startswith("3\n") and "tee /proc/sys/vm/drop_caches" in text for text in told), told
