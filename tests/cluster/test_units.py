"""What is pure in the cluster's room: arguments, environment, backend, and the node table read."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import cockpit.cluster
from cockpit.cluster.arguments import ray_start, temp_dir
from cockpit.cluster.backend import Backend, backend_of
from cockpit.cluster.environment import environment_for, ray_address
from cockpit.cluster.errors import ClusterError
from cockpit.cluster.membership import Identity, parse_identity, parse_membership
from cockpit.cluster.versions import Versions, parse_versions
from cockpit.model.facts import Membership, MemberState
from cockpit.model.profile import (
    DockerRuntime,
    Fabric,
    FlagValue,
    HostSpec,
    NativeRuntime,
    Profile,
    RaySpec,
    Role,
    ServeSpec,
)
from cockpit.runtime.prelude import exports

HEAD = HostSpec("spark-1", "spark-1.lan", Role.HEAD, Fabric("10.0.0.1", "enp1s0f0np0"))
WORKER = HostSpec("spark-2", "spark-2.lan", Role.WORKER, Fabric("10.0.0.2", "enp1s0f1np1"))


def profile(*hosts: HostSpec, flags: dict[str, FlagValue] | None = None, **ray: Any) -> Profile:
    return Profile(
        "two",
        hosts or (HEAD, WORKER),
        NativeRuntime("/venv"),
        ServeSpec("m", flags=flags or {}),
        RaySpec(**ray),
    )


def test_ray_start_of_head_and_worker() -> None:
    two = profile(port=7000, dashboard_port=7001)
    head, worker = ray_start(two, HEAD), ray_start(two, WORKER)
    assert head[:4] == ("ray", "start", "--head", "--block")
    assert {"--node-ip-address=10.0.0.1", "--port=7000", "--dashboard-port=7001"} <= set(head)
    assert {"--dashboard-host=127.0.0.1", "--include-dashboard=true", "--disable-usage-stats"} <= set(head)
    assert worker[:4] == ("ray", "start", "--address=10.0.0.1:7000", "--block")
    assert "--node-ip-address=10.0.0.2" in worker
    assert not [word for word in worker if word.startswith(("--port", "--dashboard", "--include"))]


def test_the_profiles_flags_win_and_head_only_ones_stay_on_the_head() -> None:
    flags: dict[str, FlagValue] = {
        "num_gpus": 1,
        "include-dashboard": False,
        "disable-usage-stats": False,
        "resources": {"a": 1},
        "ray-debugger-external": True,
    }
    two = replace(profile(), ray=RaySpec(flags=flags))
    head, worker = ray_start(two, HEAD), ray_start(two, WORKER)
    assert "--include-dashboard=false" in head
    assert not [word for word in worker if "dashboard" in word]
    for argv in (head, worker):
        assert {"--num-gpus=1", '--resources={"a": 1}', "--ray-debugger-external"} <= set(argv)
        assert "--disable-usage-stats" not in argv


@pytest.mark.parametrize("flag", ["port", "node_ip_address", "head", "address", "dashboard-port", "block"])
def test_a_flag_that_is_declared_elsewhere_is_refused(flag: str) -> None:
    with pytest.raises(ClusterError, match=r"ray\.flags\."):
        ray_start(replace(profile(), ray=RaySpec(flags={flag: 1})), HEAD)


def test_rays_folder_is_its_own_on_each_host_and_short() -> None:
    two = profile()
    assert temp_dir(two, HEAD) != temp_dir(two, WORKER)
    assert temp_dir(two, HEAD) != temp_dir(replace(two, name="three"), HEAD)
    # session_2026-11-30_22-16-08_705156_4194304/sockets/plasma_store.1 is 66 long, and a socket's path 107.
    assert len(temp_dir(two, HEAD)) + 1 + 66 <= 107
    contained = replace(two, runtime=DockerRuntime("image"))
    assert temp_dir(contained, HEAD) == "/spark-cockpit/ray/tmp"
    assert temp_dir(replace(two, ray=RaySpec(flags={"temp-dir": "/x"})), HEAD) == "/x"


def test_each_host_gets_its_own_addresses_and_interface() -> None:
    two = profile()
    head, worker = environment_for(two, HEAD), environment_for(two, WORKER)
    assert (head["VLLM_HOST_IP"], worker["VLLM_HOST_IP"]) == ("10.0.0.1", "10.0.0.2")
    for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "UCX_NET_DEVICES"):
        assert (head[name], worker[name]) == ("enp1s0f0np0", "enp1s0f1np1")
    assert worker["RAY_ADDRESS"] == "10.0.0.1:6379"
    bare = replace(WORKER, fabric=Fabric("10.0.0.2"))
    assert "NCCL_SOCKET_IFNAME" not in environment_for(two, bare)


def test_the_profiles_own_environment_wins() -> None:
    host = replace(HEAD, env={"NCCL_SOCKET_IFNAME": "bond0", "A": "host"})
    two = replace(
        profile(host, WORKER),
        runtime=NativeRuntime("/venv", env={"A": "runtime", "B": "runtime", "RAY_DEDUP_LOGS": "1"}),
        ray=RaySpec(env={"B": "ray"}),
    )
    found = environment_for(two, host)
    assert (found["NCCL_SOCKET_IFNAME"], found["A"], found["B"], found["RAY_DEDUP_LOGS"]) == (
        *("bond0", "host", "ray", "1"),
    )


def test_an_ipv6_head_is_written_in_brackets() -> None:
    assert ray_address(profile(replace(HEAD, fabric=Fabric("fd00::1")), WORKER)) == "[fd00::1]:6379"


def test_exported_values_arrive_as_they_are_and_state_paths_are_put_in() -> None:
    text = exports({"A": "$HOME `x` '\"\\\n", "B": "$STATE/ray/to ken", "C": "x$STATE/y", "D": ""})
    shown = "python3 -c \"import os, json; print(json.dumps({k: os.environ[k] for k in 'ABCD'}))\""
    done = subprocess.run(["sh", "-s"], input=f"STATE='/s p'\n{text}{shown}\n", capture_output=True, text=True)
    assert json.loads(done.stdout) == {
        "A": "$HOME `x` '\"\\\n",
        "B": "/s p/ray/to ken",
        "C": "x$STATE/y",
        "D": "",
    }
    with pytest.raises(ValueError, match="not a variable's name"):
        exports({"A; rm": "x"})


@pytest.mark.parametrize(
    ("hosts", "flags", "backend"),
    [
        ((HEAD,), {"distributed-executor-backend": "ray"}, Backend.ONE_HOST),
        ((HEAD,), {}, Backend.ONE_HOST),
        ((HEAD, WORKER), {"distributed-executor-backend": "ray"}, Backend.RAY),
        ((HEAD, WORKER), {"distributed_executor_backend": "ray"}, Backend.RAY),
        ((HEAD, WORKER), {}, Backend.RAY),
    ],
)
def test_what_joins_the_hosts(
    hosts: tuple[HostSpec, ...], flags: dict[str, FlagValue], backend: Backend
) -> None:
    assert backend_of(profile(*hosts, flags=flags)) is backend


@pytest.mark.parametrize("flags", [{"distributed-executor-backend": "mp"}, {"nnodes": 2}, {"n": 2}])
def test_several_hosts_without_ray_are_refused(flags: dict[str, FlagValue]) -> None:
    with pytest.raises(ClusterError, match=r"Running over several hosts without Ray \(mp\) is not there yet\."):
        backend_of(profile(flags=flags))


def node(
    address: str, *, state: str = "ALIVE", gpus: float | None = 1.0, began: int = 1, name: str = "n"
) -> Any:
    """A row as Ray 2.60's /api/v0/nodes?detail=1 has it."""
    resources = {"CPU": 20.0, f"node:{address}": 1.0} | ({"GPU": gpus} if gpus is not None else {})
    return {
        "node_id": f"{name}{address}",
        "node_ip": address,
        "is_head_node": address.endswith(".1"),
        "state": state,
        "state_message": None,
        "node_name": address,
        "resources_total": resources,
        "labels": {},
        "start_time_ms": began,
        "end_time_ms": 0,
    }


def table(*nodes: Any, hostnames: dict[str, str] | None = None, error: str = "") -> bytes:
    return json.dumps(
        {"version": "2.60.0", "nodes": nodes, "hostnames": hostnames or {}, "error": error}
    ).encode()


def seen(membership: Membership) -> list[tuple[str, str, str]]:
    return [(member.host, member.state.value, member.address) for member in membership.members]


def test_complete_only_with_every_host_and_a_gpu_each() -> None:
    assert parse_membership(table(node("10.0.0.1"), node("10.0.0.2")), profile()).complete
    short = parse_membership(table(node("10.0.0.1"), node("10.0.0.2", gpus=None)), profile())
    assert [member.gpus for member in short.members] == [1.0, 0.0]
    assert not short.complete


def test_dead_rows_do_not_count() -> None:
    found = parse_membership(table(node("10.0.0.1"), node("10.0.0.2", state="DEAD")), profile())
    assert seen(found) == [("spark-1", "joined", "10.0.0.1"), ("spark-2", "missing", "")]
    again = table(node("10.0.0.2", state="DEAD"), node("10.0.0.1"), node("10.0.0.2", began=9, name="m"))
    assert parse_membership(again, profile()).complete


def test_of_two_nodes_with_one_address_the_later_is_the_hosts() -> None:
    rows = (node("10.0.0.1"), node("10.0.0.2", began=1, name="old"), node("10.0.0.2", began=2, name="new"))
    found = parse_membership(table(*rows), profile())
    assert [member.node_id for member in found.members] == ["n10.0.0.1", "new10.0.0.2", "old10.0.0.2"]
    assert not found.complete


def test_a_host_that_joined_over_the_management_network_is_told() -> None:
    identities = {
        "spark-1": Identity("box-a", frozenset({"10.0.0.1", "192.168.1.11"})),
        "spark-2": Identity("box-b", frozenset({"10.0.0.2", "192.168.1.12"})),
    }
    rows = table(node("10.0.0.1"), node("192.168.1.12"))
    found = parse_membership(rows, profile(), identities)
    assert seen(found)[1] == ("spark-2", "wrong-address", "192.168.1.12")
    unknown = parse_membership(rows, profile())
    assert seen(unknown)[1:] == [
        ("spark-2", "missing", ""),
        ("192.168.1.12", "unexpected", "192.168.1.12"),
    ]
    named = table(node("10.0.0.1"), node("172.17.0.9"), hostnames={"172.17.0.9": "box-b"})
    assert seen(parse_membership(named, profile(), identities))[1] == ("spark-2", "wrong-address", "172.17.0.9")


def test_an_address_that_two_hosts_have_tells_nothing() -> None:
    both = {name: Identity(name, frozenset({"172.17.0.1"})) for name in ("spark-1", "spark-2")}
    found = parse_membership(table(node("172.17.0.1")), profile(), both)
    assert [member.state for member in found.members] == [
        *(MemberState.MISSING, MemberState.MISSING, MemberState.UNEXPECTED)
    ]


def test_nobody_else_may_be_in_it() -> None:
    rows = (node("10.0.0.1"), node("10.0.0.2"), node("10.0.0.3"))
    found = parse_membership(table(*rows, hostnames={"10.0.0.3": "spark-3"}), profile())
    assert seen(found)[2] == ("spark-3", "unexpected", "10.0.0.3")
    assert not found.complete


@pytest.mark.parametrize("output", [b"", b"[]", b"{}", b"null", b'{"nodes": 3}', b"Traceback", b"\xff"])
def test_what_is_no_table_is_not_reachable(output: bytes) -> None:
    found = parse_membership(output, profile())
    assert (found.reachable, found.complete) == (False, False)
    assert found.error


def test_a_dashboard_that_does_not_answer_is_told() -> None:
    found = parse_membership(table(error="Ray's dashboard on port 8265: no answer within 4 s"), profile())
    assert not found.reachable
    assert found.error == "Ray's dashboard on port 8265: no answer within 4 s"


def test_a_cluster_that_is_not_there_is_told_without_numbers_of_errors() -> None:
    """The first thing that a head without Ray tells."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound and not listening: the port stays ours, and refuses
        port = held.getsockname()[1]
        asker = Path(cockpit.cluster.__file__).with_name("remote") / "nodes.py"
        answer = subprocess.run([sys.executable, asker, str(port)], capture_output=True, check=True, timeout=60)
    found = parse_membership(answer.stdout, profile())
    assert not found.reachable
    assert found.error == f"nothing listens on port {port} (Ray's dashboard)"


def test_identity_and_versions_are_read() -> None:
    assert parse_identity(b"box-a\n10.0.0.1 fd00::1 \n") == Identity(
        "box-a", frozenset({"10.0.0.1", "fd00::1"})
    )
    noise = b'A warning.\n{"python": "3.12.3", "ray": "", "vllm": "0.24.0"}\n'
    assert parse_versions(noise) == Versions("3.12.3", "", "0.24.0")
    assert parse_versions(noise).python_series == "3.12"
    for bad in (b"", b"[]", b'{"python": 3}', b"x"):
        with pytest.raises(ValueError, match=r".+"):
            parse_versions(bad)
