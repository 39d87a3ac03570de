"""The hosts of a profile, and what must hold between them."""

from __future__ import annotations

import ipaddress
from collections.abc import Hashable

from cockpit.model import profile_words as words
from cockpit.model.profile import Fabric, HostSpec, Role
from cockpit.model.profile_nodes import Map, Scalar
from cockpit.model.profile_nodes import Sequence as List
from cockpit.model.profile_section import Section

PORT = (1, 65535)
_HOST = ("name", "address", "port", "user", "role", "fabric", "env")
_ROLES = ("head", "worker")


def read_hosts(top: Section) -> tuple[HostSpec, ...]:
    """The hosts; with mistakes noted, what could be read of them."""
    sections: list[Section] = []
    nodes = top.items("hosts")
    for index, node in enumerate(nodes):
        if isinstance(node, Map):
            sections.append(Section(top.notes, node, ("hosts", index), _HOST, ("name", "address", "role")))
        else:
            top.expected(f"hosts[{index}]", "a host with name, address and role", node)
    empty = top.node("hosts")
    if (isinstance(empty, List) and not nodes) or (isinstance(empty, Scalar) and empty.value is None):
        top.notes.mistake(top.place("hosts"), "hosts: expected at least one host.")
    hosts = tuple(_host(section) for section in sections)
    _roles(top, sections, hosts)
    _unlike(sections, hosts)
    _fabrics(sections, hosts)
    return hosts


def _host(section: Section) -> HostSpec:
    fabric = section.section("fabric", ("address", "interface"), ("address",))
    address = section.text("address", check=words.address)
    if address == "local":
        for key in ("port", "user"):
            if key in section.map.entries:
                section.notes.mistake(section.place(key), f"`local` is this machine: it takes no `{key}`.")
    fabric_address = fabric.text("address", check=words.ip) if fabric else ""
    interface = fabric.text("interface", check=words.interface) if fabric else ""
    return HostSpec(
        name=section.text("name", check=words.name),
        address=address,
        role=Role.HEAD if section.choice("role", _ROLES) == "head" else Role.WORKER,
        fabric=Fabric(fabric_address, interface) if fabric_address else None,
        user=section.text("user", check=words.user),
        port=section.whole("port", 0, *PORT),
        env=section.env(),
    )


def _roles(top: Section, sections: list[Section], hosts: tuple[HostSpec, ...]) -> None:
    heads = [section for section, host in zip(sections, hosts, strict=True) if host.role is Role.HEAD]
    for section in heads[1:]:
        first = heads[0].place("role").line
        top.notes.mistake(
            section.place("role"), f"A second head (the first is in line {first}): make it a worker."
        )
    clear = all(isinstance(node := s.node("role"), Scalar) and node.value in _ROLES for s in sections)
    if hosts and clear and not heads:
        top.notes.mistake(top.place("hosts"), "No host has `role: head`; rank 0 and the API run on the head.")


def _unlike(sections: list[Section], hosts: tuple[HostSpec, ...]) -> None:
    """No two hosts may be the same one."""
    seen: dict[tuple[str, Hashable], Section] = {}
    for section, host in zip(sections, hosts, strict=True):
        traits: dict[str, Hashable] = {"name": host.name, "address": (_same(host.address), host.port or 22)}
        for key, value in traits.items():
            if key not in section.map.entries or not getattr(host, key):
                continue
            first = seen.setdefault((key, value), section)
            if first is not section:
                line = first.place(key).line
                what = "address and port" if key == "address" else key
                message = f"Two hosts with the same {what} (the other is in line {line})."
                section.notes.mistake(section.place(key), message)


def _same(address: str) -> str:
    """One spelling for every way to write an address."""
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return address.lower()


def _fabrics(sections: list[Section], hosts: tuple[HostSpec, ...]) -> None:
    """Several hosts find each other by their fabric addresses: each has one, its own, of one family."""
    if len(hosts) < 2:
        return
    seen: dict[str, int] = {}
    families: set[int] = set()
    for section, host in zip(sections, hosts, strict=True):
        if host.fabric is None:
            if "fabric" not in section.map.entries:
                message = "Of several hosts each needs `fabric: {address: …}`, where the others reach it."
                section.notes.mistake(section.map.place, message)
            continue
        node = section.mapping("fabric")
        place = node.entries["address"].place if node else section.map.place
        same = _same(host.fabric.address)
        if same in seen:
            message = f"Two hosts with the same fabric address (the other is in line {seen[same]})."
            section.notes.mistake(place, message)
        seen.setdefault(same, place.line)
        families.add(ipaddress.ip_address(same).version)
        if len(families) > 1:
            section.notes.mistake(place, "The fabric addresses are to be of one family, all IPv4 or all IPv6.")
            families.discard(ipaddress.ip_address(same).version)
