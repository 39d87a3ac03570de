"""What a host says of its network, as records, and the cabling as a drawing. It is not to be trusted."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Link:
    """A network interface; ``speed`` in Mb/s, 0 where the driver doesn't tell; ``addresses`` with prefix."""

    name: str
    up: bool
    carrier: bool
    speed: int
    mtu: int
    mac: str
    driver: str
    addresses: tuple[str, ...] = ()

    @property
    def connectx(self) -> bool:
        """Whether it is a port of the ConnectX-7 (driver mlx5_core)."""
        return self.driver == "mlx5_core"


@dataclass(frozen=True, slots=True)
class Gid:
    """One entry of an RDMA port's GID table."""

    index: int
    gid: str
    type: str
    interface: str


@dataclass(frozen=True, slots=True)
class RdmaDevice:
    """An RDMA device's port 1; ``state`` and ``rate`` in the kernel's words (``4: ACTIVE``)."""

    name: str
    state: str
    rate: str
    gids: tuple[Gid, ...] = ()

    @property
    def active(self) -> bool:
        """Whether its port is up."""
        return self.state.endswith("ACTIVE")

    @property
    def interface(self) -> str:
        """The network interface it belongs to."""
        return next((gid.interface for gid in self.gids if gid.interface), "")

    def usable(self, address: str) -> int | None:
        """The index of the RoCE v2 GID that is this IPv4 address; None where there is none."""
        try:
            wanted = ipaddress.ip_address(address)
        except ValueError:
            return None
        for gid in self.gids:
            try:
                parsed = ipaddress.IPv6Address(gid.gid)
            except ValueError:
                continue
            if gid.type == "RoCE v2" and wanted in (parsed, parsed.ipv4_mapped):
                return gid.index
        return None


@dataclass(frozen=True, slots=True)
class Ping:
    """Three packets of ``size`` bytes that may not be split. ``asked`` is false where ping could not be run."""

    size: int
    asked: bool
    received: int
    ms: float | None
    said: str


@dataclass(frozen=True, slots=True)
class Reach:
    """The way to a peer: route, the hardware address that answers, pings, and what each port's knock gave."""

    interface: str
    gateway: str
    mac: str
    small: Ping
    full: Ping
    ports: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FabricFacts:
    """A host's network. ``name`` is the address that its own name stands for."""

    links: tuple[Link, ...]
    rdma: tuple[RdmaDevice, ...] = ()
    name: str = ""
    default: tuple[str, ...] = ()
    peers: Mapping[str, Reach] = field(default_factory=dict)

    def link_of(self, address: str) -> Link | None:
        """The interface that has an address."""
        for link in self.links:
            if any(one.split("/")[0] == address for one in link.addresses):
                return link
        return None

    def link(self, name: str) -> Link | None:
        """The interface called ``name``."""
        return next((link for link in self.links if link.name == name), None)


def parse_fabric(output: bytes) -> FabricFacts:
    """The answer of ``scripts/fabric_facts.py``; raises ``ValueError`` on anything else."""
    try:
        facts = json.loads(output.decode("utf-8", "replace").strip().splitlines()[-1])
        return FabricFacts(
            links=tuple(_link(row) for row in facts["interfaces"]),
            rdma=tuple(_device(row) for row in facts["rdma"]),
            name=str(facts["name"]),
            default=tuple(str(name) for name in facts["default"]),
            peers={str(name): _reach(row) for name, row in facts["peers"].items()},
        )
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"not a host's network ({error!r}): {output[:120]!r}") from error


def _link(row: dict[str, Any]) -> Link:
    return Link(
        str(row["name"]),
        bool(row["up"]),
        bool(row["carrier"]),
        int(row["speed"]),
        int(row["mtu"]),
        str(row["mac"]).lower(),
        str(row["driver"]),
        tuple(str(one) for one in row["addresses"]),
    )


def _device(row: dict[str, Any]) -> RdmaDevice:
    gids = tuple(
        Gid(int(one["index"]), str(one["gid"]), str(one["type"]), str(one["interface"])) for one in row["gids"]
    )
    return RdmaDevice(str(row["name"]), str(row["state"]), str(row["rate"]), gids)


def _ping(row: dict[str, Any]) -> Ping:
    ms = row["ms"]
    return Ping(
        int(row["size"]),
        bool(row["asked"]),
        int(row["received"]),
        None if ms is None else float(ms),
        str(row["said"]),
    )


def _reach(row: dict[str, Any]) -> Reach:
    way = row["way"]
    return Reach(
        str(way["interface"]),
        str(way["gateway"]),
        str(way["mac"]).lower(),
        _ping(row["small"]),
        _ping(row["full"]),
        {int(port): str(said) for port, said in row["ports"].items()},
    )


def cabling(fabrics: Mapping[str, FabricFacts], addresses: Mapping[str, str]) -> str:
    """The cabling, drawn: a line for each interface that has a carrier or an address of the fabric, and the
    peer's interface that answers at its other end (by hardware address)."""
    owners = {link.mac: f"{host} {link.name}" for host, facts in fabrics.items() for link in facts.links}
    lines = []
    for host, facts in fabrics.items():
        lines.append(host)
        for link in facts.links:
            mine = addresses.get(host) in [one.split("/")[0] for one in link.addresses]
            if not (mine or link.connectx or (link.carrier and link.addresses)):
                continue
            ends = sorted(
                {
                    owners.get(reach.mac, f"an unknown machine ({reach.mac})")
                    for reach in facts.peers.values()
                    if reach.interface == link.name and reach.mac
                }
            )
            speed = f" {link.speed / 1000:g} Gb/s" if link.speed else ""
            wire = f"══{speed} ══ {', '.join(ends)}" if ends else ("══ ?" if link.carrier else "╌╌ no carrier")
            where = ", ".join(link.addresses) or "no address"
            lines.append(f"  {link.name} ({where}, MTU {link.mtu}) {wire}")
    return "\n".join(lines)
