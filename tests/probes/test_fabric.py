"""The fabric: what the script reads of /sys, and the checks, each both ways; on the rig with real breakage.

The sysfs trees are made as the kernel's Documentation/ABI/stable/sysfs-class-infiniband and
testing/sysfs-class-net describe them, with the names and values of a DGX Spark (NVIDIA's playbook
connect-two-sparks, eugr's NETWORKING.md).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cockpit.hosts.factory import open_host
from cockpit.model.profile import Profile
from cockpit.model.profile_edit import changed
from cockpit.model.profile_yaml import parse
from cockpit.model.verdict import Grade, Verdict
from cockpit.probes import checks_fabric, checks_machine
from cockpit.probes.asked import Asked
from cockpit.probes.fabric import FabricFacts, Gid, Link, Ping, RdmaDevice, Reach, parse_fabric
from cockpit.probes.preflight import ask, preflight
from cockpit.runtime.environment import environment
from cockpit.runtime.script_text import script_text
from tests.rig.layout import FABRIC
from tests.rig.profile import plain_text
from tests.rig.rig import Rig

PAIR = """\
name: pair
hosts:
  - {name: one, address: one, role: head, fabric: {address: 192.168.100.10, interface: enp1s0f1np1}}
  - {name: two, address: two, role: worker, fabric: {address: 192.168.100.11, interface: enp1s0f1np1}}
runtime: {kind: native, venv: /opt/vllm}
serve: {model: /models/any}
"""
UNUSED = Ping(9000, True, 3, 0.05, "")


def link(number: int, **more: Any) -> Link:
    one = Link("enp1s0f1np1", True, True, 200_000, 9000, f"02:00:00:00:00:0{number}", "mlx5_core")
    return replace(one, addresses=(f"192.168.100.1{number}/24",), **more)


def device(number: int) -> RdmaDevice:
    mapped = f"0000:0000:0000:0000:0000:ffff:c0a8:640{'ab'[number]}"
    gids = (
        Gid(0, f"fe80:0000:0000:0000:0000:00ff:fe00:000{number}", "IB/RoCE v1", "enp1s0f1np1"),
        Gid(1, f"fe80:0000:0000:0000:0000:00ff:fe00:000{number}", "RoCE v2", "enp1s0f1np1"),
        Gid(2, mapped, "IB/RoCE v1", "enp1s0f1np1"),
        Gid(3, mapped, "RoCE v2", "enp1s0f1np1"),
    )
    return RdmaDevice("rocep1s0f1", "4: ACTIVE", "200 Gb/sec (4X HDR)", gids)


def facts(number: int) -> FabricFacts:
    peer = 1 - number
    ports = {10002: "refused"} if number == 0 else {6379: "open", 10002: "refused"}
    reach = Reach("enp1s0f1np1", "", f"02:00:00:00:00:0{peer}", replace(UNUSED, size=84), UNUSED, ports)
    return FabricFacts((link(number),), (), "127.0.1.1", ("enP7s7",), {("one", "two")[peer]: reach})


def asked(text: str = PAIR, **two: Any) -> Asked:
    """All is well, but for what is told of host ``two``."""
    profile = parse(text.encode(), "pair.yaml")
    fabrics = {"one": facts(0), "two": replace(facts(1), **two)}
    return Asked(profile, {}, {}, {}, fabrics=fabrics)


def way(**more: Any) -> Mapping[str, Reach]:
    return {"one": replace(facts(1).peers["one"], **more)}


CHECKS = (
    *(checks_fabric.address, checks_fabric.mtu, checks_fabric.reach, checks_fabric.firewall),
    *(checks_fabric.name, checks_fabric.rdma, checks_fabric.cables),
)


@pytest.mark.parametrize("check", CHECKS)
def test_a_pair_that_is_cabled_well(check: Any) -> None:
    assert {verdict.grade for verdict in check(asked())} <= {Grade.READY}


@pytest.mark.parametrize(
    ("check", "two", "host", "grade", "observed", "remedy"),
    [
        (
            checks_fabric.address,
            {"links": (link(1, carrier=False),)},
            "two",
            Grade.BLOCKED,
            "no carrier",
            "cable",
        ),
        (checks_fabric.address, {"links": ()}, "two", Grade.BLOCKED, "No interface has", "40-cx7.yaml"),
        (checks_fabric.address, {"links": (link(1, speed=100_000),)}, "two", Grade.SLOW, "100 Gb/s", "ethtool"),
        (
            checks_fabric.address,
            {"links": (link(1, name="enp1s0f0np0"),)},
            "two",
            Grade.BLOCKED,
            "names",
            "Set hosts.two",
        ),
        (
            checks_fabric.address,
            {"links": (link(1), replace(link(1), name="enP2p1s0f1np1", addresses=("192.168.100.21/24",)))},
            *("two", Grade.BLOCKED, "both in 192.168.100.0/24", "add 192.168.101.21/24 dev enP2p1s0f1np1"),
        ),
        (
            checks_fabric.address,
            {"links": (link(1), replace(link(1), name="enP2p1s0f1np1", addresses=()))},
            *(
                "two",
                Grade.SLOW,
                "enP2p1s0f1np1 has a link and no address",
                "add 192.168.101.11/24 dev enP2p1s0f1np1",
            ),
        ),
        (
            checks_fabric.address,
            {
                "links": (
                    replace(link(1), name="enP7s7", driver="r8127"),
                    replace(link(1), mac="02:00:00:00:00:21", addresses=("192.168.101.11/24",)),
                )
            },
            *("two", Grade.BLOCKED, "is on enP7s7, and the profile names enp1s0f1np1", "to enP7s7"),
        ),
        (
            checks_fabric.address,
            {"default": ("enp1s0f1np1", "enP7s7")},
            *("two", Grade.SLOW, "The default route leaves by enp1s0f1np1", "ip route delete default"),
        ),
        (
            checks_fabric.mtu,
            {"links": (link(1, mtu=1500),)},
            "one two",
            Grade.BLOCKED,
            "9000 on one, 1500 on two",
            "On two: sudo ip link set enp1s0f1np1 mtu 9000",
        ),
        (
            checks_fabric.reach,
            {"peers": way(full=replace(UNUSED, received=0, said="message too long, mtu=1500"))},
            *("two", Grade.BLOCKED, "none of 9000 bytes: message too long", "ping -M do -s 8972"),
        ),
        (
            checks_fabric.reach,
            {"peers": way(small=replace(UNUSED, received=0))},
            "two",
            Grade.BLOCKED,
            "not answer",
            "ping",
        ),
        (
            checks_fabric.reach,
            {"peers": way(interface="enP7s7")},
            "two",
            Grade.BLOCKED,
            "leaves by enP7s7",
            "ip route get",
        ),
        (
            checks_fabric.reach,
            {"peers": way(full=replace(UNUSED, received=2))},
            "two",
            Grade.SLOW,
            "1 of 6",
            "ping",
        ),
        (
            checks_fabric.reach,
            {"peers": way(small=replace(UNUSED, asked=False))},
            "two",
            Grade.UNKNOWN,
            "could not",
            "ping",
        ),
        (
            checks_fabric.firewall,
            {"peers": way(ports={6379: "filtered"})},
            "one",
            Grade.BLOCKED,
            "port 6379",
            "ufw allow",
        ),
        (
            checks_fabric.rdma,
            {"rdma": (replace(device(1), state="1: DOWN"),)},
            "two",
            Grade.SLOW,
            "No RoCE",
            "rdma link",
        ),
        (
            checks_fabric.rdma,
            {"rdma": (replace(device(1), gids=device(1).gids[:3]),)},
            "two",
            Grade.BLOCKED,
            "no RoCE v2",
            "gids",
        ),
    ],
)
def test_what_stands_in_the_way(
    check: Any, two: dict[str, Any], host: str, grade: Grade, observed: str, remedy: str
) -> None:
    found = [verdict for verdict in check(asked(**two)) if verdict.grade is not Grade.READY]
    verdict = found[0]
    assert (verdict.hosts, verdict.grade) == (tuple(host.split()), grade)
    assert observed in verdict.observed and remedy in verdict.remedy and verdict.why


def test_the_environment_that_rdma_asks_for_is_proposed_and_can_be_applied() -> None:
    (verdict,) = checks_fabric.rdma(asked(rdma=(device(1),)))
    assert "index 3" in verdict.observed
    assert "+NCCL_IB_HCA: rocep1s0f1; +NCCL_IB_GID_INDEX: 3" in verdict.remedy
    mended = changed(PAIR.encode(), "pair.yaml", [fix.change for fix in verdict.fix if fix.change])
    profile = parse(mended, "pair.yaml")
    assert profile.host("two").env == {"NCCL_IB_HCA": "rocep1s0f1", "NCCL_IB_GID_INDEX": "3"}
    assert not profile.host("one").env
    (again,) = checks_fabric.rdma(asked(mended.decode(), rdma=(device(1),)))
    assert (again.grade, again.fix) == (Grade.READY, ())
    (moved,) = checks_fabric.rdma(
        asked(mended.decode().replace('"3"', '"5"').replace("'3'", "'5'"), rdma=(device(1),))
    )
    assert moved.grade is Grade.BLOCKED and "-NCCL_IB_GID_INDEX: 5; +NCCL_IB_GID_INDEX: 3" in moved.remedy


def test_without_an_interface_in_the_profile_the_hosts_name_matters() -> None:
    text = PAIR.replace(", interface: enp1s0f1np1", "")
    found = list(checks_fabric.name(asked(text)))
    assert [verdict.grade for verdict in found] == [Grade.SLOW, Grade.SLOW]
    assert found[0].fix[0].change == {"set": {"hosts.one.fabric.interface": "enp1s0f1np1"}}
    fine = asked(text, name="192.168.100.11")
    assert [verdict.hosts for verdict in checks_fabric.name(fine)] == [("one",)]
    slow = list(checks_fabric.name(asked(text, name="10.0.0.11")))[-1]
    assert "10.0.0.11" in slow.observed and "on the slow network" in slow.why


def test_an_address_that_is_not_on_the_cable_is_told() -> None:
    text = PAIR.replace(", interface: enp1s0f1np1", "")
    slow = replace(link(1), name="enP7s7", driver="r8127")
    free = replace(link(1), mac="02:00:00:00:00:21", addresses=("192.168.101.11/24",))
    found = [one for one in checks_fabric.address(asked(text, links=(slow, free))) if one.grade is Grade.SLOW]
    assert [verdict.hosts for verdict in found] == [("two",)]
    assert "enP7s7, which has 192.168.100.11, is no port of the ConnectX" in found[0].observed
    assert "address show dev enp1s0f1np1" in found[0].remedy
    alone = list(checks_fabric.address(asked(text, links=(slow,))))
    assert {verdict.grade for verdict in alone} == {Grade.READY}, "without a ConnectX it is the only network"


def test_hosts_on_one_machine_have_no_fabric() -> None:
    text = PAIR.replace("192.168.100.1", "127.0.0.1")
    assert [verdict for check in CHECKS for verdict in check(asked(text))] == []


def test_the_cabling_is_drawn() -> None:
    drawn = checks_fabric.picture(asked())
    assert drawn.splitlines() == [
        "one",
        "  enp1s0f1np1 (192.168.100.10/24, MTU 9000) ══ 200 Gb/s ══ two enp1s0f1np1",
        "two",
        "  enp1s0f1np1 (192.168.100.11/24, MTU 9000) ══ 200 Gb/s ══ one enp1s0f1np1",
    ]
    crossed = checks_fabric.picture(asked(peers=way(mac="02:00:00:00:00:99")))
    assert "an unknown machine (02:00:00:00:00:99)" in crossed
    assert "╌╌ no carrier" in checks_fabric.picture(asked(links=(link(1, carrier=False),), peers={}))


def test_a_cable_in_the_wrong_port_is_told() -> None:
    """A Linux host answers on every interface, so what tells is the hardware address."""
    other = replace(link(1), name="enp1s0f0np0", mac="02:00:00:00:00:11", addresses=("192.168.200.11/24",))
    peers = {"two": replace(facts(0).peers["two"], mac="02:00:00:00:00:11")}
    pair = asked(links=(link(1), other))
    crossed = replace(pair, fabrics={**pair.fabrics, "one": replace(facts(0), peers=peers)})
    found = {verdict.hosts: verdict for verdict in checks_fabric.cables(crossed)}
    assert found["one",].grade is Grade.SLOW
    assert "enp1s0f1np1 reaches two's enp1s0f0np0" in found["one",].observed
    assert "enp1s0f1np1 of two" in found["one",].remedy
    assert found["two",].grade is Grade.READY
    assert "══ two enp1s0f0np0" in checks_fabric.picture(crossed)
    rdma = replace(
        crossed, fabrics={**crossed.fabrics, "one": replace(crossed.fabrics["one"], rdma=(device(0),))}
    )
    assert next(iter(checks_fabric.cables(rdma))).grade is Grade.BLOCKED


def tree(root: Path, values: Mapping[str, str]) -> Path:
    for name, value in values.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value + "\n")
    return root


def test_the_script_reads_a_sparks_sysfs(tmp_path: Path) -> None:
    port = "class/infiniband/rocep1s0f1/ports/1"
    mapped = "0000:0000:0000:0000:0000:ffff:c0a8:640a"
    sys_ = tree(
        tmp_path,
        {
            **{f"class/net/enp1s0f1np1/{key}": value for key, value in NET.items()},
            f"{port}/state": "4: ACTIVE",
            f"{port}/rate": "200 Gb/sec (4X HDR)",
            f"{port}/gids/0": "fe80:0000:0000:0000:4abb:2dff:fe00:0001",
            f"{port}/gids/3": mapped,
            f"{port}/gids/10": "0000:0000:0000:0000:0000:0000:0000:0000",
            f"{port}/gid_attrs/types/0": "IB/RoCE v1",
            f"{port}/gid_attrs/types/3": "RoCE v2",
            f"{port}/gid_attrs/ndevs/0": "enp1s0f1np1",
            f"{port}/gid_attrs/ndevs/3": "enp1s0f1np1",
        },
    )
    script = script_text("cockpit.probes.scripts", "fabric_facts")
    question = json.dumps({"address": "192.168.100.10", "peers": {}, "ports": {}, "sys": str(sys_)})
    done = subprocess.run(
        [sys.executable, "-", question], input=script.encode(), capture_output=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    found = parse_fabric(done.stdout)
    assert found.links == (Link("enp1s0f1np1", True, True, 200_000, 9000, "4c:bb:47:00:00:01", ""),)
    (rdma,) = found.rdma
    assert (rdma.active, rdma.interface, [gid.index for gid in rdma.gids]) == (True, "enp1s0f1np1", [0, 3])
    assert (rdma.usable("192.168.100.10"), rdma.usable("192.168.100.11")) == (3, None)


NET = {"operstate": "up", "carrier": "1", "speed": "200000", "mtu": "9000", "address": "4c:bb:47:00:00:01"}


@pytest.mark.parametrize("output", [b"", b"[]", b"{}", b"\xff\xfe", b'{"interfaces": [{}], "rdma": []}'])
def test_hostile_answers_are_refused(output: bytes) -> None:
    with pytest.raises(ValueError):
        parse_fabric(output)


def plain_pair(rig: Rig) -> Profile:
    """The rig's two hosts; their runtime is one that is not there, which the fabric doesn't ask about."""
    return parse(plain_text(rig, "plain").encode(), "plain.yaml")


async def look(rig: Rig, *ids: str) -> dict[str, Verdict]:
    """The gravest verdict of each of ``ids``."""
    profile = plain_pair(rig)
    order = [Grade.BLOCKED, Grade.UNKNOWN, Grade.SLOW, Grade.READY]
    async with AsyncExitStack() as stack:
        hosts = {spec.name: open_host(spec, ssh_config=profile.ssh_config) for spec in profile.hosts}
        for host in hosts.values():
            stack.push_async_callback(host.close)
        verdicts = await preflight(hosts, profile, environment(profile))
    found: dict[str, Verdict] = {}
    for verdict in sorted(verdicts, key=lambda verdict: order.index(verdict.grade)):
        found.setdefault(verdict.id, verdict)
    return {name: found[name] for name in ids}


ALL = ("fabric", "reach", "firewall", "leftovers", "disk", "clocks", "memory")


@pytest.mark.rig
async def test_real_breakage_of_the_link(plain_rig: Rig) -> None:
    first, second = plain_rig.hosts.values()
    fine = await look(plain_rig, *ALL)
    assert {verdict.grade for verdict in fine.values()} == {Grade.READY}, fine
    second.mtu(FABRIC, 1500)
    found = await look(plain_rig, "mtu", "reach")
    assert found["mtu"].grade is Grade.BLOCKED and "1500 on spark-2" in found["mtu"].observed
    assert found["reach"].grade is Grade.BLOCKED and found["reach"].hosts == ("spark-1",)
    second.mtu(FABRIC, 9000)
    second.drop("on", FABRIC)
    found = await look(plain_rig, "reach")
    assert "does not answer over the fabric" in found["reach"].observed
    second.drop("off", FABRIC)
    second.link("down", FABRIC)
    found = await look(plain_rig, "fabric")
    assert (found["fabric"].grade, found["fabric"].observed) == (Grade.BLOCKED, f"{FABRIC} has no carrier.")
    second.link("up", FABRIC)
    first.exec(["ip", "address", "flush", "dev", FABRIC])
    found = await look(plain_rig, "fabric")
    assert f"No interface has the address {first.fabric}" in found["fabric"].observed
    first.exec(["ip", "address", "add", f"{first.fabric}/24", "broadcast", "+", "dev", FABRIC])
    assert (await look(plain_rig, "fabric"))["fabric"].grade is Grade.READY


@pytest.mark.rig
async def test_real_breakage_of_the_hosts(plain_rig: Rig) -> None:
    first, second = plain_rig.hosts.values()
    rule = [
        "iptables-legacy",
        "-A",
        "INPUT",
        "-i",
        FABRIC,
        "-p",
        "tcp",
        "-m",
        "tcp",
        "--dport",
        "6379",
        "-j",
        "DROP",
    ]
    first.exec(rule)
    left = "exec -a VLLM::EngineCore sleep 300 >/dev/null 2>&1 &"
    second.exec(["bash", "-c", left], user="aurora")
    second.exec(["sh", "-c", "head -c 100000000 /dev/zero >/dev/shm/psm_left"], user="aurora")
    second.exec(["mount", "-t", "tmpfs", "-o", "mode=1777,size=300m", "small", "/tmp"])
    second.exec(["sh", "-c", "head -c 290000000 /dev/zero >/tmp/filled"])
    try:
        found = await look(plain_rig, "firewall", "leftovers", "disk")
    finally:
        second.exec(["umount", "/tmp"])
    assert (found["disk"].grade, found["disk"].hosts) == (Grade.BLOCKED, ("spark-2",))
    assert "/tmp is 9" in found["disk"].observed
    assert (found["firewall"].grade, found["firewall"].hosts) == (Grade.BLOCKED, ("spark-1",))
    assert "on port 6379: filtered" in found["firewall"].observed
    assert (found["leftovers"].grade, found["leftovers"].hosts) == (Grade.SLOW, ("spark-2",))
    plain_rig.reset()
    fine = await look(plain_rig, "firewall", "leftovers", "disk")
    assert {verdict.grade for verdict in fine.values()} == {Grade.READY}


@pytest.mark.rig
async def test_the_real_cabling_is_drawn(plain_rig: Rig) -> None:
    profile = plain_pair(plain_rig)
    async with AsyncExitStack() as stack:
        hosts = {spec.name: open_host(spec, ssh_config=profile.ssh_config) for spec in profile.hosts}
        for host in hosts.values():
            stack.push_async_callback(host.close)
        found, unknown = await ask(hosts, profile, environment(profile), profile.hosts, ours=False)
    assert unknown == []
    drawn = checks_fabric.picture(found)
    assert (
        f"{FABRIC} ({plain_rig.hosts['spark-1'].fabric}/24, MTU 9000) ══ 10 Gb/s ══ spark-2 {FABRIC}" in drawn
    )
    assert [verdict.grade for verdict in checks_machine.clocks(found)] == [Grade.READY]
