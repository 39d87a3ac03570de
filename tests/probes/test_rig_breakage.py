"""Preflight on real hosts that are broken for real, each verdict both ways: cabling, ports, model, engine.

Beside these: MTU, carrier, address, black hole, firewall, disk, leftovers in test_fabric.py; image, its environment,
mounts, GPU hook in test_preflight.py and tests/e2e/test_rig_prepare_docker.py; memory in tests/serving.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import pytest

from cockpit.hosts.factory import open_host
from cockpit.model.verdict import Grade, Verdict
from cockpit.probes.preflight import survey
from cockpit.runtime.environment import environment
from tests.e2e.test_rig_prepare import FOLDER, make_model
from tests.probes.test_fabric import look, plain_pair
from tests.probes.test_preflight import on_rig
from tests.rig import network
from tests.rig.layout import FABRIC
from tests.rig.profile import plain_text, rig_profile
from tests.rig.rig import Rig
from tests.rig.shell import run, wait_for

pytestmark = [pytest.mark.rig, pytest.mark.timeout(300)]

SECOND = "enp1s0f1np1"
"""The other port of a Spark's ConnectX-7."""


@contextmanager
def second_ports(rig: Rig, *, crossed: bool) -> Iterator[None]:
    """A second port on both hosts, with an address of its own, and two cables: straight, or each in the wrong port."""
    layout, switch = rig.layout, rig.layout.switch
    network.batch(switch, *(f"link add x{one} mtu 9000 type bridge forward_delay 0" for one in (1, 2)))
    network.batch(switch, *(f"link set x{one} up" for one in (1, 2)))
    for index in (1, 2):
        namespace = layout.namespace(index)
        mine, other = (1, 2) if index == 1 or not crossed else (2, 1)
        network.batch(
            switch,
            f"link add g{index} mtu 9000 type veth peer {SECOND} mtu 9000 netns {namespace}",
            f"link set {network.port(index, FABRIC)} master x{mine}",
            f"link set g{index} master x{other} up",
        )
        network.batch(
            namespace,
            f"address add 10.{64 + layout.number}.9.{index}/24 broadcast + dev {SECOND}",
            f"link set {SECOND} up",
            f"neigh flush dev {FABRIC}",
        )
    try:
        yield
    finally:
        network.batch(switch, "link delete g1", "link delete g2", "link delete x1", "link delete x2")
        for index in (1, 2):
            network.mend(layout, index)
            network.batch(layout.namespace(index), f"neigh flush dev {FABRIC}")


async def surveyed(rig: Rig) -> tuple[list[Verdict], str]:
    """What each end says of its cable, and the cabling as it is drawn."""
    profile = plain_pair(rig)
    async with AsyncExitStack() as stack:
        hosts = {spec.name: open_host(spec, ssh_config=profile.ssh_config) for spec in profile.hosts}
        for host in hosts.values():
            stack.push_async_callback(host.close)
        found = await survey(hosts, profile, environment(profile))
        return [verdict for verdict in found.verdicts if verdict.id == "cables"], found.cabling


async def test_swapped_cables_are_told_and_drawn(plain_rig: Rig) -> None:
    with second_ports(plain_rig, crossed=False):
        (fine, drawn), reach = await surveyed(plain_rig), await look(plain_rig, "reach")
    assert {verdict.grade for verdict in (*fine, reach["reach"])} == {Grade.READY}, fine
    assert f"{FABRIC} ({plain_rig.hosts['spark-1'].fabric}/24, MTU 9000) ══ 10 Gb/s ══ spark-2 {FABRIC}" in (
        drawn
    )
    first, second = plain_rig.hosts.values()
    with second_ports(plain_rig, crossed=True):
        # Each has asked for the other before, so each also knows it by the port that the question came in at.
        for one, other in ((second, first), (first, second)):
            one.exec(["ping", "-c", "1", "-W", "2", other.fabric])
        found, drawn = await surveyed(plain_rig)
    assert {verdict.hosts: verdict.grade for verdict in found} == {
        ("spark-1",): Grade.SLOW,
        ("spark-2",): Grade.SLOW,
    }, "there is no RDMA here, where it would be in the way"
    for verdict in found:
        assert re.match(f"{FABRIC} reaches spark-[12]'s {SECOND}, ", verdict.observed)
    assert re.search(f"{FABRIC} .*══ spark-[12] {SECOND}", drawn)


async def test_a_third_machine_at_the_other_end_is_told(plain_rig: Rig) -> None:
    layout, second = plain_rig.layout, plain_rig.hosts["spark-2"]
    second.drop("on", FABRIC)
    stranger = f"sc{layout.number}-9"
    run(["ip", "netns", "add", stranger])
    try:
        network.batch(
            layout.switch,
            f"link add h9 mtu 9000 type veth peer eth0 mtu 9000 netns {stranger}",
            "link set h9 master fabric up",
        )
        network.batch(
            stranger, f"address add {second.fabric}/24 dev eth0", "link set eth0 up", "link set lo up"
        )
        network.batch(layout.namespace(1), f"neigh flush dev {FABRIC}")
        found = await look(plain_rig, "cables")
    finally:
        run(["ip", "netns", "delete", stranger])
        second.drop("off", FABRIC)
        network.batch(layout.namespace(1), f"neigh flush dev {FABRIC}")
    assert found["cables"].grade is Grade.BLOCKED
    assert "and spark-2 is expected there" in found["cables"].observed


LISTEN = "import socket, time; s = socket.create_server(('0.0.0.0', 6379)); time.sleep(300)"


async def test_a_port_that_is_taken(plain_rig: Rig) -> None:
    head = plain_rig.hosts["spark-1"]

    async def taken(before: str, user: str) -> Verdict:
        head.exec(["sh", "-c", f'{before} python3 -c "{LISTEN}" >/dev/null 2>&1 &'], user=user)
        wait_for(lambda: ":6379" in head.exec(["ss", "-Hltn"]).out, "somebody listens", timeout=10)
        verdict = (await look(plain_rig, "ports"))["ports"]
        head.exec(["pkill", "-f", "create_server"], check=False)
        wait_for(lambda: ":6379" not in head.exec(["ss", "-Hltn"]).out, "nobody listens", timeout=10)
        return verdict

    assert (await look(plain_rig, "ports"))["ports"].grade is Grade.READY
    mine = await taken("", "aurora")
    assert mine.grade is Grade.BLOCKED and "kill " in mine.remedy and "python3" in mine.observed
    theirs = await taken("", "root")
    assert "a process of another user" in theirs.observed and "sudo ss" in theirs.remedy
    mark = "SPARK_COCKPIT_UNIT=/home/aurora/.local/state/spark-cockpit/other/ray"
    other = await taken(mark, "aurora")
    assert "the cluster other of this cockpit" in other.observed and "spark-cockpit down other" in other.remedy
    assert (await look(plain_rig, "ports"))["ports"].grade is Grade.READY


async def test_a_shard_that_is_cut_short(plain_rig: Rig, tmp_path: Path) -> None:
    for host in plain_rig.hosts.values():
        make_model(host, 1_000_000)
        host.exec(
            ["sh", "-c", "mkdir -p ~/venv/bin && ln -sf /usr/bin/python3 ~/venv/bin/python"], user="aurora"
        )
    profile = tmp_path / "cut.yaml"
    runtime = {"kind": "native", "venv": "~/venv"}
    profile.write_text(plain_text(plain_rig, "cut", runtime=runtime, serve={"model": FOLDER}))
    (fine,) = (await on_rig(plain_rig, profile))["model"]
    assert (fine.grade, fine.hosts) == (Grade.READY, ("spark-1", "spark-2"))
    shard = f"{FOLDER}/model-00002-of-00003.safetensors"
    plain_rig.hosts["spark-2"].exec(["truncate", "-s", "-1", shard])
    found = {verdict.hosts: verdict for verdict in (await on_rig(plain_rig, profile))["model"]}
    cut = found["spark-2",]
    assert cut.grade is Grade.BLOCKED and "1 are cut short or damaged (model-00002" in cut.observed
    assert "spark-cockpit prepare cut --only model" in cut.remedy


async def test_an_engine_that_is_stopped(rig: Rig, tmp_path: Path) -> None:
    worker = rig.hosts["spark-2"]
    profile = rig_profile(rig, tmp_path)
    fine = await on_rig(rig, profile)
    assert [verdict.grade for verdict in fine["docker"]] == [Grade.READY]
    assert "CUDA up to 13.0" in fine["gpu"][0].observed
    worker.exec(["pkill", "-x", "dockerd"])
    wait_for(
        lambda: worker.exec(["pgrep", "-x", "dockerd"], check=False).status, "the engine ended", timeout=20
    )
    try:
        found = await on_rig(rig, profile)
    finally:
        worker.crash()
        worker.boot()
    stopped = next(verdict for verdict in found["docker"] if verdict.grade is Grade.BLOCKED)
    assert stopped.hosts == ("spark-2",) and "Docker does not answer" in stopped.observed
    assert "sudo systemctl start docker" in stopped.remedy
    unknown = [verdict for verdict in found["environment"] if verdict.hosts == ("spark-2",)]
    assert [verdict.grade for verdict in unknown] == [Grade.UNKNOWN], "what can't be asked is not blamed"


EAT = "import time; held = b'x' * (1200 << 20); print('held', flush=True); time.sleep(300)"


async def test_memory_that_others_hold_and_a_page_cache_in_the_way(plain_rig: Rig) -> None:
    """What vLLM would ask for as on a GB10: nine tenths of the memory, which is here 2 GiB for real."""
    worker = plain_rig.hosts["spark-2"]

    def figure(name: str) -> int:
        lines = dict(line.split(":", 1) for line in worker.exec(["cat", "/proc/meminfo"]).out.splitlines())
        return int(lines[name].split()[0]) << 10

    worker.limit_memory(2 << 30)
    wait_for(lambda: figure("MemTotal") == 2 << 30, "the limit is told", timeout=10)
    fine = (await look(plain_rig, "memory"))["memory"]
    assert fine.grade is Grade.READY, fine
    worker.exec(["sh", "-c", "head -c 700000000 /dev/zero >/home/aurora/cached"], user="aurora")
    wait_for(lambda: figure("Cached") > 600_000_000, "it is in the cache", timeout=10)
    cached = (await look(plain_rig, "memory"))["memory"]
    assert (cached.grade, cached.hosts) == (Grade.SLOW, ("spark-2",)), cached
    assert "page cache" in cached.why and "prepare plain --only cache" in cached.remedy
    worker.exec(["sh", "-c", f'exec python3 -c "{EAT}" >/tmp/eat 2>&1 &'], user="aurora")
    wait_for(lambda: "held" in worker.exec(["cat", "/tmp/eat"], check=False).out, "it is held", timeout=20)
    wait_for(lambda: figure("MemAvailable") < 1 << 30, "it is told", timeout=10)
    taken = (await look(plain_rig, "memory"))["memory"]
    assert (taken.grade, taken.hosts) == (Grade.BLOCKED, ("spark-2",)), taken


async def test_a_host_that_is_off_is_unknown_and_the_other_is_asked(plain_rig: Rig) -> None:
    worker = plain_rig.hosts["spark-2"]
    worker.crash()
    try:
        found = await look(plain_rig, "connect", "system", "reach")
    finally:
        worker.boot()
    assert (found["connect"].grade, found["connect"].hosts) == (Grade.UNKNOWN, ("spark-2",))
    assert found["system"].hosts == ("spark-1",)
    assert found["reach"].grade is Grade.BLOCKED
    with pytest.raises(KeyError):
        await look(plain_rig, "connect")


async def test_shared_memory_that_is_too_small(plain_rig: Rig) -> None:
    worker = plain_rig.hosts["spark-2"]
    with pytest.raises(KeyError):
        await look(plain_rig, "limits")
    worker.exec(["mount", "-o", "remount,size=64m", "/dev/shm"])
    try:
        found = (await look(plain_rig, "limits"))["limits"]
    finally:
        worker.exec(["mount", "-o", "remount,size=50%", "/dev/shm"])
    assert (found.grade, found.hosts) == (Grade.SLOW, ("spark-2",))
    assert "can hold 64 MiB" in found.observed


HUB = ".cache/huggingface/hub/models--Qwen--Qwen3"


async def test_a_model_in_a_cache_that_the_runtime_does_not_read(plain_rig: Rig, tmp_path: Path) -> None:
    """The runtime is told another cache; the user's own has the model."""
    for host in plain_rig.hosts.values():
        make_model(host, 1_000_000)
        lay = (
            f"mkdir -p ~/venv/bin ~/{HUB}/refs ~/{HUB}/snapshots && ln -sf /usr/bin/python3 ~/venv/bin/python && "
            f"cp -r {FOLDER} ~/{HUB}/snapshots/c0ffee && printf c0ffee >~/{HUB}/refs/main"
        )
        host.exec(["sh", "-c", lay], user="aurora")

    async def told(env: dict[str, str]) -> Verdict:
        runtime = {"kind": "native", "venv": "~/venv", "env": env}
        profile = tmp_path / "cache.yaml"
        profile.write_text(plain_text(plain_rig, "cache", runtime=runtime, serve={"model": "Qwen/Qwen3"}))
        (verdict,) = (await on_rig(plain_rig, profile))["model"]
        return verdict

    fine = await told({})
    assert (fine.grade, fine.hosts) == (Grade.READY, ("spark-1", "spark-2")), fine
    away = await told({"HF_HOME": "/home/aurora/other"})
    assert (away.grade, away.hosts) == (Grade.SLOW, ("spark-1", "spark-2")), away
    assert f"is on this host in /home/aurora/{HUB}" in away.observed
    assert "runtime.env.HF_HOME: /home/aurora/.cache/huggingface" in away.remedy
