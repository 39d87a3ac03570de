"""Who is in the Ray cluster, compared with who should be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cockpit.cluster.environment import environment_for
from cockpit.cluster.texts import python
from cockpit.model.command import Command
from cockpit.model.facts import Member, Membership, MemberState
from cockpit.model.profile import HostSpec, Profile
from cockpit.runtime.runtime import Runtime


@dataclass(frozen=True, slots=True)
class Identity:
    """What a host is called by itself, and every address it has: tells which host a strange node is."""

    hostname: str
    addresses: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Node:
    id: str
    address: str
    gpus: float
    started: int


def membership_command(profile: Profile, runtime: Runtime) -> Command:
    """Ask Ray's node table at the head's dashboard; ``parse_membership`` reads the answer. Takes 0.1 s, or
    4 s where nobody answers."""
    return runtime.script(
        profile.head,
        python("nodes", str(profile.ray.dashboard_port)),
        "ask Ray which hosts have joined",
        env=environment_for(profile, profile.head),
        limit=20,
    )


def identity_command(runtime: Runtime, host: HostSpec) -> Command:
    """Ask ``host`` for its name and its addresses; ``parse_identity`` reads the answer."""
    return runtime.host_script(host, "uname -n\nhostname -I\n", "learn the host's addresses", limit=10)


def parse_identity(output: bytes) -> Identity:
    """Read what ``identity_command`` printed."""
    name, _, addresses = output.decode("utf-8", "replace").partition("\n")
    return Identity(name.strip(), frozenset(addresses.split()))


def parse_membership(
    output: bytes, profile: Profile, identities: Mapping[str, Identity] | None = None
) -> Membership:
    """Compare Ray's alive nodes with the profile's hosts, by their addresses in the cluster.

    ``identities`` (by host) lets a host be told that joined by another of its addresses. The hosts come in
    the profile's order, then the nodes that nobody expects. Anything else than the program's own answer makes
    a membership that isn't reachable.
    """
    try:
        found = json.loads(output)
        nodes = [_node(row) for row in found["nodes"] if row["state"] == "ALIVE"]
        version, error = str(found["version"]), str(found["error"])
        hostnames = {str(key): str(value) for key, value in found["hostnames"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        return Membership(False, error=f"Ray's node table could not be read: {problem!r}")
    if error:
        return Membership(False, ray_version=version, error=error)
    return Membership(True, _compare(nodes, profile, identities or {}, hostnames), version)


def _node(row: Mapping[str, Any]) -> _Node:
    return _Node(
        str(row["node_id"]),
        str(row["node_ip"]),
        float((row.get("resources_total") or {}).get("GPU", 0.0)),
        int(row.get("start_time_ms") or 0),
    )


def _compare(
    nodes: list[_Node], profile: Profile, identities: Mapping[str, Identity], hostnames: Mapping[str, str]
) -> tuple[Member, ...]:
    # Of two nodes with one address, as after a quick restart, the later is the host's.
    left = sorted(nodes, key=lambda node: node.started, reverse=True)
    joined: dict[str, _Node] = {}
    for host in profile.hosts:
        node = next((node for node in left if node.address == host.cluster_address), None)
        if node:
            joined[host.name] = node
            left.remove(node)
    missing = [host for host in profile.hosts if host.name not in joined]
    wrong: dict[str, _Node] = {}
    for node in tuple(left):
        candidates = [host for host in missing if _is(host, node, identities, hostnames)]
        if len(candidates) == 1 and candidates[0].name not in wrong:
            wrong[candidates[0].name] = node
            left.remove(node)
    members = [_member(host, joined, wrong) for host in profile.hosts]
    members += [
        Member(
            hostnames.get(node.address) or node.address,
            MemberState.UNEXPECTED,
            node.address,
            node.gpus,
            node.id,
        )
        for node in left
    ]
    return tuple(members)


def _is(host: HostSpec, node: _Node, identities: Mapping[str, Identity], hostnames: Mapping[str, str]) -> bool:
    """Whether ``node``, of an address that isn't the host's in the cluster, may run on ``host``."""
    if node.address == host.address:
        return True
    identity = identities.get(host.name)
    if identity is None:
        return hostnames.get(node.address) == host.name
    return node.address in identity.addresses or (
        bool(identity.hostname) and hostnames.get(node.address) == identity.hostname
    )


def _member(host: HostSpec, joined: Mapping[str, _Node], wrong: Mapping[str, _Node]) -> Member:
    if node := joined.get(host.name):
        return Member(host.name, MemberState.JOINED, node.address, node.gpus, node.id)
    if node := wrong.get(host.name):
        return Member(host.name, MemberState.WRONG_ADDRESS, node.address, node.gpus, node.id)
    return Member(host.name, MemberState.MISSING)
