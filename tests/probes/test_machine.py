"""The checks over a host's resources: each verdict both ways, and the script that asks, on this machine."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cockpit.model.verdict import Grade, Verdict
from cockpit.probes import checks_environment, checks_machine
from cockpit.probes.asked import Asked
from cockpit.probes.fabric import FabricFacts, Link, RdmaDevice
from cockpit.probes.machine import Disk, Engine, MachineFacts, parse_machine
from cockpit.runtime.script_text import script_text

from .test_checks import ENVIRONMENT, HOST, expect, profile, worst

GIB = 1024**3
MEMORY = {
    **{"MemTotal": 120 * GIB, "MemFree": 112 * GIB, "MemAvailable": 116 * GIB, "Cached": 3 * GIB},
    **{"SwapTotal": 16 * GIB, "SwapFree": 16 * GIB, "CmaTotal": GIB, "CmaFree": GIB},
}
FINE = MachineFacts(
    MEMORY, (Disk("~", 1000 * GIB, 500 * GIB),), gpus=(("Enabled", "0x0000000000000001", "41"),)
)
# A DGX Spark's own answers: nvidia-smi 580 (fields as `nvidia-smi --help-query-gpu` names them).


def asked(two: dict[str, Any] | None = None, **more: Any) -> Asked:
    """All is well, but for what is told of host ``two``."""
    machines = {"one": FINE, "two": replace(FINE, **(two or {}))}
    facts: dict[str, Any] = {
        **{"profile": profile(), "hosts": {"one": HOST, "two": HOST}, "failures": {}},
        **{"environments": {"one": ENVIRONMENT, "two": ENVIRONMENT}, "machines": machines},
    }
    return Asked(**{**facts, **more})


CHECKS = (
    *(checks_machine.kernel, checks_machine.power, checks_machine.memory, checks_machine.leftovers),
    *(checks_machine.disk, checks_machine.limits, checks_machine.clocks, checks_machine.cdi),
)


@pytest.mark.parametrize("check", CHECKS)
def test_nothing_stands_in_the_way(check: Any) -> None:
    assert all(verdict.grade is Grade.READY for verdict in check(asked()))


def with_memory(**changes: int) -> dict[str, Any]:
    return {"memory": {**MEMORY, **changes}}


@pytest.mark.parametrize(
    ("check", "two", "grade", "observed", "remedy"),
    [
        (
            checks_machine.kernel,
            with_memory(CmaFree=2 * GIB),
            Grade.BLOCKED,
            "larger than CmaTotal",
            "another kernel",
        ),
        (checks_machine.memory, with_memory(MemFree=50 * GIB), Grade.SLOW, "116.0 of 120.0 GiB", "drop_caches"),
        (
            checks_machine.memory,
            with_memory(MemAvailable=90 * GIB),
            Grade.BLOCKED,
            "90.0 of 120.0",
            "On two: ps",
        ),
        (checks_machine.memory, with_memory(SwapFree=GIB), Grade.SLOW, "15.0 GiB are swapped out", "swapoff"),
        (
            checks_machine.leftovers,
            {"engines": (Engine(77, 1000, 50 * GIB, "VLLM::EngineCore"),)},
            *(Grade.SLOW, "77 (VLLM::EngineCore, 50.0 GiB)", "on two: kill 77"),
        ),
        (
            checks_machine.leftovers,
            {"containers": (("c0ffee", "spark-cockpit-old", "vllm", "old"),)},
            *(Grade.SLOW, "The cluster old has a container here", "spark-cockpit down old"),
        ),
        (
            checks_machine.leftovers,
            {"shm_left": 2 * GIB, "shm_names": ("/dev/shm/psm a",)},
            *(Grade.SLOW, "2.00 GiB", "rm '/dev/shm/psm a'"),
        ),
        (
            checks_machine.disk,
            {"disks": (Disk("/tmp", 100 * GIB, GIB),)},
            Grade.BLOCKED,
            "/tmp is 99 % full",
            "du",
        ),
        (checks_machine.power, {"gpus": (("Disabled", "0x0", "40"),)}, Grade.SLOW, "Persistence", "-pm 1"),
        (checks_machine.power, {"gpus": (("Enabled", "0x60", "91"),)}, Grade.SLOW, "too hot", "PERFORMANCE"),
        (checks_machine.power, {"gpus": ()}, Grade.UNKNOWN, "does not tell its persistence", "PERFORMANCE"),
        (
            checks_machine.power,
            {"gpus": (("Enabled", "0x0000000000000080", "48"),)},
            *(Grade.SLOW, "the power supply slows it down (48 °C)", "PERFORMANCE"),
        ),
        (checks_machine.limits, {"shm_size": 64 << 20}, Grade.SLOW, "can hold 64 MiB", "remount,size=16g"),
        (
            checks_machine.leftovers,
            {**with_memory(MemFree=40 * GIB, AnonPages=4 * GIB), "gpu_memory": 2 * GIB},
            *(Grade.SLOW, "71.0 GiB are in use and belong to no process", "sudo reboot"),
        ),
        (
            checks_machine.cdi,
            {"cdi": (("/etc/cdi/nvidia.yaml", "570.1"),)},
            Grade.SLOW,
            "570.1",
            "nvidia-ctk cdi",
        ),
    ],
)
def test_what_stands_in_the_way(
    check: Any, two: dict[str, Any], grade: Grade, observed: str, remedy: str
) -> None:
    expect(worst(check(asked(two))), grade, ("two",), observed, remedy)


def test_a_kernel_that_is_known_to_fail() -> None:
    hosts = {"one": HOST, "two": replace(HOST, kernel="7.0.0-1019-nvidia")}
    (verdict,) = checks_machine.kernel(asked(hosts=hosts))
    expect(verdict, Grade.BLOCKED, ("two",), "DSpark#259", "full-upgrade")


def test_memory_of_a_run_of_ours_and_of_a_discrete_gpu_is_not_judged() -> None:
    low = with_memory(MemAvailable=9 * GIB)
    assert worst(checks_machine.memory(asked(low, ours=True))).grade is Grade.READY
    hosts = {name: replace(HOST, gpus=(("580.95", "NVIDIA H200"),)) for name in ("one", "two")}
    assert worst(checks_machine.memory(asked(low, hosts=hosts))).grade is Grade.READY
    inside = {"two": replace(ENVIRONMENT, vllm="0.32.0+cpu")}
    assert worst(checks_machine.memory(asked(low, environments=inside))).grade is Grade.READY
    assert list(checks_machine.leftovers(asked({"shm_left": GIB}, ours=True))) == []


def test_memory_that_somebody_answers_for_is_not_trapped() -> None:
    held = {**with_memory(MemFree=40 * GIB, AnonPages=4 * GIB), "gpu_memory": 72 * GIB}
    assert worst(checks_machine.leftovers(asked(held))).grade is Grade.READY
    assert replace(FINE, **with_memory(MemFree=40 * GIB)).unaccounted is None


def test_locked_memory_matters_where_there_is_rdma() -> None:
    fabrics = {"two": FabricFacts((), (RdmaDevice("rocep1s0f1", "4: ACTIVE", "200 Gb/sec (4X HDR)"),))}
    native = profile("{kind: native, venv: /opt/vllm}")
    limited = asked({"memlock": 8 << 20}, fabrics=fabrics, profile=native)
    expect(worst(checks_machine.limits(limited)), Grade.BLOCKED, ("two",), "8 MiB", "memlock")
    assert worst(checks_machine.limits(asked(fabrics=fabrics, profile=native))).grade is Grade.READY
    docker = profile("{kind: docker, image: v, run_flags: [--ulimit, memlock=8388608, --ipc=private]}")
    found = list(checks_machine.limits(asked(fabrics=fabrics, profile=docker)))
    assert [verdict.grade for verdict in found] == [Grade.BLOCKED, Grade.BLOCKED]
    assert "--shm-size" in found[1].observed


@pytest.mark.parametrize(("ahead", "grade"), [(0.5, Grade.READY), (2.5, Grade.READY), (60.0, Grade.SLOW)])
def test_clocks(ahead: float, grade: Grade) -> None:
    """A clock is known as well as its question was quick: here to within a second."""
    machines = {"one": replace(FINE, between=(-1.0, 0.0)), "two": replace(FINE, between=(ahead - 1, ahead))}
    (verdict,) = checks_machine.clocks(asked(machines=machines))
    assert verdict.grade is grade
    assert ("two is at least 59.0 s ahead" in verdict.observed) == (grade is Grade.SLOW)


def test_processes_of_vllm_are_told_by_whose_they_are() -> None:
    engines = tuple(
        Engine(pid, 1000, 2 * GIB, "VLLM::EngineCore", cluster)
        for pid, cluster in ((11, ""), (12, "other"), (13, "pair"))
    )
    found = {verdict.remedy for verdict in checks_machine.leftovers(asked({"engines": engines}))}
    assert {
        "If they are yours, on two: kill 11",
        "Take that cluster down with its own profile: spark-cockpit down other",
        "spark-cockpit prepare pair --only leftovers",
    } <= found


def test_a_driver_that_is_known_to_fail() -> None:
    """The first line of /proc/driver/nvidia/version, of either flavour of the kernel modules."""
    right = "NVIDIA UNIX Open Kernel Module for aarch64  580.95.05  Release Build  (dvs-builder@U22-I3)"
    wrong = "NVIDIA UNIX aarch64 Kernel Module  580.173.02  Release Build  (dvs-builder@U22-I3)"
    assert list(checks_machine.driver(asked({"driver": right}))) == []
    (verdict,) = checks_machine.driver(asked({"driver": wrong}))
    expect(verdict, Grade.BLOCKED, ("two",), "580.173.02", "nvidia-driver-580-open")
    assert "start-technologies#3693" in verdict.observed


def test_sudo_is_told_where_a_remedy_needs_it() -> None:
    needs = Verdict("memory", ("two",), Grade.SLOW, "o", "w", "On two: sudo true")
    machines = {"one": replace(FINE, sudo=False), "two": replace(FINE, sudo=False)}
    (verdict,) = checks_machine.sudo([needs], machines)
    expect(verdict, Grade.SLOW, ("two",), "password", "ssh -t two")
    assert list(checks_machine.sudo([needs], {"two": FINE})) == []


LINKS = FabricFacts(
    (Link("enp1s0f1np1", True, True, 200_000, 9000, "02:00:00:00:00:01", "mlx5_core"),),
    (RdmaDevice("rocep1s0f1", "4: ACTIVE", ""),),
)


@pytest.mark.parametrize(
    ("variable", "value", "fine"),
    [
        ("NCCL_SOCKET_IFNAME", "enp1s0f0np0", False),
        ("NCCL_SOCKET_IFNAME", "enp1s0f1np1", True),
        ("NCCL_SOCKET_IFNAME", "enp", True),
        ("NCCL_SOCKET_IFNAME", "^docker0", True),
        ("GLOO_SOCKET_IFNAME", "eth0", False),
        ("NCCL_IB_HCA", "rocep1s0f1,roceP2p1s0f1", False),
        ("NCCL_IB_HCA", "=rocep1s0f1:1", True),
        ("NCCL_IB_GID_INDEX", "3", True),
        ("VLLM_HOST_IP", "10.0.0.1", True),
    ],
)
def test_a_variable_of_the_image(variable: str, value: str, fine: bool) -> None:
    inside = {"two": replace(ENVIRONMENT, baked=((variable, value),))}
    found = list(checks_environment.baked(asked(environments=inside, fabrics={"two": LINKS})))
    assert (found == []) is fine
    for verdict in found:
        expect(verdict, Grade.BLOCKED, ("two",), "the image's own environment", "hosts.two.env")


def test_a_container_without_the_hosts_gpu() -> None:
    inside = {"one": ENVIRONMENT, "two": replace(ENVIRONMENT, gpu=False)}
    (verdict,) = checks_environment.container_gpu(asked(environments=inside))
    expect(verdict, Grade.BLOCKED, ("two",), "sees no GPU", "nvidia-ctk runtime configure")
    none = profile("{kind: docker, image: v, run_flags: [--gpus=none]}")
    assert list(checks_environment.container_gpu(asked(environments=inside, profile=none))) == []


def run(limit: int | None = None, env: dict[str, str] | None = None, **more: Any) -> MachineFacts:
    """The script's own answer on this machine, where ``limit`` bytes may be locked."""
    script = script_text("cockpit.probes.scripts", "machine_facts")
    question = json.dumps({"folders": ["~", "/nowhere/at/all"], "image": "", "model": "", **more})
    began = time.time()
    done = subprocess.run(
        [sys.executable, "-", question],
        input=script.encode(),
        capture_output=True,
        timeout=60,
        env={**os.environ, **(env or {})},
        preexec_fn=partial(resource.setrlimit, resource.RLIMIT_MEMLOCK, (limit, limit)) if limit else None,
    )
    assert done.returncode == 0, done.stderr
    return parse_machine(done.stdout, began, time.time())


@pytest.fixture
def engine() -> Iterator[subprocess.Popen[bytes]]:
    argv = ["bash", "-c", "exec -a VLLM::EngineCore sleep 300"]
    mark = {"SPARK_COCKPIT_UNIT": "/home/spark-cockpit/x/.local/state/spark-cockpit/other/runs/1"}
    process = subprocess.Popen(argv, env={**os.environ, **mark})
    yield process
    process.kill()
    process.wait()


def test_the_script_tells_what_is_here(engine: subprocess.Popen[bytes], tmp_path: Path) -> None:
    left = Path("/dev/shm") / f"spark-cockpit-test-{os.getpid()}"
    left.write_bytes(bytes(1 << 20))
    try:
        while b"VLLM" not in Path(f"/proc/{engine.pid}/cmdline").read_bytes():
            assert engine.poll() is None
        found = run()
        held = left.open("rb")
        again = run()
        held.close()
    finally:
        left.unlink()
    assert found.total > found.available > 0
    assert (engine.pid, "other") in [(one.pid, one.cluster) for one in found.engines]
    assert found.disks[0].size >= found.disks[0].free > 0
    low, high = found.between
    assert low <= 0 <= high, "the same clock"
    assert str(left) not in again.shm_names, "it is held"
    # The largest are named: a machine that runs much else may have left larger ones.
    assert str(left) in found.shm_names or len(found.shm_names) == 20


def test_the_script_reads_memory_and_cdi_of_a_spark(tmp_path: Path) -> None:
    """A GB10's /proc/meminfo has CMA; CDI is as `nvidia-ctk cdi generate` writes it (CDI 0.6)."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal:  125513136 kB\nCmaTotal: 65536 kB\nCmaFree: 98304 kB\n")
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    version = "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.95.05  Release Build\nGCC version:  gcc\n"
    (tmp_path / "proc/driver/nvidia/version").write_text(version)
    (tmp_path / "etc/cdi").mkdir(parents=True)
    (tmp_path / "etc/cdi/nvidia.yaml").write_text(
        'cdiVersion: "0.6.0"\ncontainerEdits:\n  mounts:\n'
        "  - hostPath: /usr/lib/aarch64-linux-gnu/libcuda.so.580.95.05\n"
    )
    found = run(root=str(tmp_path))
    assert found.memory["CmaFree"] > found.memory["CmaTotal"]
    assert found.cdi == (("/etc/cdi/nvidia.yaml", "580.95.05"),)
    assert found.driver == "NVIDIA UNIX Open Kernel Module for aarch64  580.95.05  Release Build"


def test_room_is_told_by_the_file_system_that_holds_a_folder() -> None:
    disks = (Disk("~", 100, 70, ("~", "/home/n")), Disk("/var/lib/docker", 50, 20, ("/var/lib/docker",)))
    found = replace(FINE, disks=disks)
    told = [found.free_at(one) for one in ("~/.cache", "/home/n/x", "/var/lib/docker", "/home/nn", "/data")]
    assert told == [70, 70, 20, None, None]


def test_the_script_tells_which_folders_a_file_system_holds(tmp_path: Path) -> None:
    found = run(env={"HOME": str(tmp_path)}, folders=["~", str(tmp_path / "not-there-yet")])
    (disk,) = found.disks
    assert disk.folders == (str(tmp_path), "~", str(tmp_path / "not-there-yet"))
    assert found.free_at(f"{tmp_path}/.cache") == found.free_at("~/.cache") == disk.free


def test_the_script_tells_what_may_be_locked() -> None:
    assert run(limit=8 << 20).memlock == 8 << 20
    assert run().memlock == resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]


def test_the_script_tells_whether_sudo_asks(tmp_path: Path) -> None:
    """sudo 1.9: with -n it says "sudo: a password is required" and ends with 1."""
    sudo = tmp_path / "sudo"
    sudo.write_text('#!/bin/sh\n[ "$*" = "-n true" ] && [ -e "$ALLOWED" ]\n')
    sudo.chmod(0o755)
    script = script_text("cockpit.probes.scripts", "machine_facts").replace("os.getuid() == 0 or ", "")
    question = json.dumps({"folders": [], "image": "", "model": ""})
    for allowed in ("", str(sudo)):
        env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "ALLOWED": allowed}
        argv = [sys.executable, "-", question]
        done = subprocess.run(argv, input=script.encode(), capture_output=True, timeout=60, env=env)
        assert parse_machine(done.stdout, 0, 1).sudo is bool(allowed), done.stderr


def hub_model(cache: Path) -> Path:
    """A model of the hub as huggingface_hub lays it out."""
    folder = cache / "models--Qwen--Qwen3"
    snapshot = folder / "snapshots" / "c0ffee"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    (snapshot / "model.safetensors").write_bytes(b"")
    return folder


def test_the_script_finds_a_model_that_the_runtime_does_not_look_for(tmp_path: Path) -> None:
    """In the user's own cache, and in one that only a log-in shell is told of."""
    env = {"HOME": str(tmp_path), "HF_HOME": "", "HF_HUB_CACHE": ""}
    assert run(env=env, model="Qwen/Qwen3").models == ()
    own = hub_model(tmp_path / ".cache/huggingface/hub")
    (tmp_path / ".bashrc").write_text('# HF_HOME=/no\nexport HF_HOME="$HOME/big"  # the large disk\n')
    big = hub_model(tmp_path / "big/hub")
    assert run(env=env, model="Qwen/Qwen3").models == (str(own), str(big))
    assert run(env=env, model=str(own / "snapshots/c0ffee")).models == (str(own / "snapshots/c0ffee"),)
    (big / "snapshots/c0ffee/model.safetensors").unlink()
    assert run(env=env, model="Qwen/Qwen3").models == (str(own),)


@pytest.mark.parametrize("output", [b"", b"null", b"{}", b'{"at": "x"}', b"\xff", b'{"at": 1, "memory": []}'])
def test_hostile_answers_are_refused(output: bytes) -> None:
    with pytest.raises(ValueError):
        parse_machine(output, 0, 1)
