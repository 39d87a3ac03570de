"""Preflight of the fabric: interfaces, cabling, MTU, routes, firewall, RDMA, and the environment they ask for."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from cockpit.model.finding import Fix
from cockpit.model.profile import HostSpec, Profile
from cockpit.model.verdict import Grade, Verdict
from cockpit.probes.asked import Asked, blocked, ready
from cockpit.probes.fabric import FabricFacts, Link, RdmaDevice, Reach, cabling
from cockpit.probes.measure_rdma import End

FULL_SPEED = 200_000
"""Mb/s of a Spark's port: ethtool must say 200000Mb/s (NVIDIA, DGX Spark performance guide)."""

_OWN = "Ray, NCCL and Gloo are bound to the fabric's address."


def wanted_knocks(profile: Profile, host: HostSpec) -> dict[str, list[int]]:
    """The ports of each peer that must not be filtered: the head's Ray, and of all one of the high ports that
    Ray's workers and NCCL take as they come (Ray 2.60: 10002 to 19999)."""
    return {
        peer.name: [profile.ray.port, 10002] if peer == profile.head else [10002]
        for peer in profile.hosts
        if peer != host
    }


def address(asked: Asked) -> Iterable[Verdict]:
    """Each host has its fabric address, on the interface that the profile names, with a link."""
    for spec, facts in _pairs(asked):
        if spec.fabric is None:
            continue
        link = facts.link_of(spec.fabric.address)
        if link is None:
            have = ", ".join(f"{one.name} {' '.join(one.addresses)}" for one in facts.links if one.addresses)
            observed = f"No interface has the address {spec.fabric.address} (there is {have or 'none'})."
            yield blocked("fabric", spec.name, observed, _OWN, _netplan(spec, facts))
            continue
        if spec.fabric.interface and link.name != spec.fabric.interface:
            observed = (
                f"{spec.fabric.address} is on {link.name}, and the profile names {spec.fabric.interface}."
            )
            why = "NCCL and Gloo are told the interface by its name, and find nothing there."
            remedy = f"Set hosts.{spec.name}.fabric.interface to {link.name}"
            change = {"set": {f"hosts.{spec.name}.fabric.interface": link.name}}
            yield Verdict("fabric", (spec.name,), Grade.BLOCKED, observed, why, remedy, (Fix(remedy, change),))
        yield _cable(spec, link)
        yield from _other_network(spec, facts, link)
        yield from _twins(spec, facts)


def _cable(spec: HostSpec, link: Link) -> Verdict:
    speed = f", {link.speed / 1000:g} Gb/s" if link.speed else ""
    told = f"{link.name} has {', '.join(link.addresses)}, MTU {link.mtu}{speed}."
    if not link.carrier:
        why = "Nothing passes without a link: the interface is down, no cable sits there, or the other end is off."
        remedy = (
            f"Put the cable into the same port of both boxes; on {spec.name}: sudo ip link set {link.name} up"
        )
        return blocked("fabric", spec.name, f"{link.name} has no carrier.", why, remedy)
    if link.connectx and 0 < link.speed < FULL_SPEED:
        why = "The port can do 200 Gb/s; a wrong cable or a tired port negotiates less."
        remedy = f"On {spec.name}: sudo ethtool {link.name} ; use a cable for 200 Gb/s"
        return Verdict("fabric", (spec.name,), Grade.SLOW, told, why, remedy)
    return ready("fabric", spec.name, told)


def _other_network(spec: HostSpec, facts: FabricFacts, link: Link) -> Iterable[Verdict]:
    """The fabric's address is on the cable between the hosts, and the rest of the world is not looked for there."""
    cabled = [one.name for one in facts.links if one.connectx and one.carrier]
    if cabled and not link.connectx:
        observed = f"{link.name}, which has {spec.cluster_address}, is no port of the ConnectX; {cabled[0]} has a link."
        why = "All traffic of the ranks would take the slow network: the cable between the hosts is not used."
        remedy = (
            f"On {spec.name}: ip -br address show dev {cabled[0]} ; set hosts.{spec.name}.fabric to its address and "
            "interface"
        )
        yield Verdict("fabric", (spec.name,), Grade.SLOW, observed, why, remedy)
    if link.connectx and facts.default[:1] == (link.name,):
        observed = f"The default route leaves by {link.name}, the cable to the other host."
        why = (
            "Whatever is not on a network of this host, downloads too, is then sent to the other host and lost."
        )
        remedy = (
            f"On {spec.name}, for now: sudo ip route delete default dev {link.name} ; for good: take the gateway of "
            f"{link.name} out of /etc/netplan"
        )
        yield Verdict("route", (spec.name,), Grade.SLOW, observed, why, remedy)


def _netplan(spec: HostSpec, facts: FabricFacts) -> str:
    fabric = spec.fabric
    ports = [link.name for link in facts.links if link.connectx and link.carrier]
    name = (fabric.interface if fabric else "") or (ports[0] if ports else "INTERFACE")
    where = fabric.address if fabric else ""
    return (
        f"On {spec.name}, for now: sudo ip address add {where}/24 dev {name} ; for good, in "
        f"/etc/netplan/40-cx7.yaml: network: {{version: 2, ethernets: {{{name}: {{dhcp4: no, "
        f"addresses: [{where}/24]}}}}}}"
    )


def _twins(spec: HostSpec, facts: FabricFacts) -> Iterable[Verdict]:
    """A port is two logical interfaces; with both in one subnet the kernel answers on either."""
    seen: dict[ipaddress.IPv4Network | ipaddress.IPv6Network, str] = {}
    for link in facts.links:
        for one in link.addresses if link.connectx else ():
            network = ipaddress.ip_interface(one).network
            if network in seen and seen[network] != link.name:
                observed = f"{seen[network]} and {link.name} are both in {network}."
                why = "Packets then leave by either of the two, and RDMA by the wrong one."
                remedy = _readdress(spec, facts, link, one)
                yield blocked("twins", spec.name, observed, why, remedy)
            seen.setdefault(network, link.name)
    for link in facts.links:
        if link.connectx and link.carrier and not link.addresses:
            observed = f"{link.name} has a link and no address."
            why = "A port is two interfaces of some 100 Gb/s each, and RDMA uses those that have addresses."
            mine = facts.link_of(spec.cluster_address)
            remedy = _readdress(spec, facts, link, mine.addresses[0] if mine else "")
            yield Verdict("twins", (spec.name,), Grade.SLOW, observed, why, remedy)


def _readdress(spec: HostSpec, facts: FabricFacts, link: Link, address_: str) -> str:
    """A command that gives ``link`` the address in the next subnet that no interface of this host is in."""
    if not address_:
        return (
            f"On {spec.name}: give {link.name} an address of a subnet of its own, in /etc/netplan/40-cx7.yaml"
        )
    found = ipaddress.ip_interface(address_)
    taken = {ipaddress.ip_interface(one).network for each in facts.links for one in each.addresses}
    while found.network in taken:
        found = ipaddress.ip_interface(f"{found.ip + found.network.num_addresses}/{found.network.prefixlen}")
    old = f"sudo ip address delete {address_} dev {link.name} ; " if address_ in link.addresses else ""
    return (
        f"On {spec.name}, for now: {old}sudo ip address add {found} dev {link.name} ; for good: {link.name}: "
        f"{{dhcp4: no, addresses: [{found}]}} in /etc/netplan/40-cx7.yaml"
    )


def mtu(asked: Asked) -> Iterable[Verdict]:
    """A packet as large as the interface allows gets through unsplit, from both ends; both MTUs are the same."""
    found = {spec.name: facts.link_of(spec.cluster_address) for spec, facts in _pairs(asked)}
    links = {name: link for name, link in found.items() if link is not None}
    most = max((link.mtu for link in links.values()), default=0)
    low = {name: link for name, link in links.items() if link.mtu < most}
    if low:
        told = ", ".join(f"{link.mtu} on {name}" for name, link in links.items())
        why = "The larger packets of one end never arrive at the other: connections open, and then hang."
        raised = " ; ".join(f"on {name}: sudo ip link set {link.name} mtu {most}" for name, link in low.items())
        remedy = f"{raised[0].upper()}{raised[1:]} ; for good: mtu: {most} of that interface in /etc/netplan"
        observed = f"The MTUs, the largest packets of each end, differ: {told}."
        yield Verdict("mtu", tuple(links), Grade.BLOCKED, observed, why, remedy)


def reach(asked: Asked) -> Iterable[Verdict]:
    """Each peer is reached over the fabric, by small and by full packets."""
    for spec, facts in _pairs(asked):
        for peer, way in facts.peers.items():
            yield _reached(asked, spec, facts, peer, way)


def _reached(asked: Asked, spec: HostSpec, facts: FabricFacts, peer: str, way: Reach) -> Verdict:
    address_ = asked.profile.host(peer).cluster_address
    mine = facts.link_of(spec.cluster_address)
    test = f"On {spec.name}: ping -M do -s {max(0, way.full.size - 28)} {address_} ; ip route get {address_}"
    if not way.small.asked:
        observed = f"ping could not be run: {way.small.said}"
        return Verdict("reach", (spec.name,), Grade.UNKNOWN, observed, "The link was not tried.", test)
    if mine is not None and way.interface and way.interface != mine.name:
        observed = f"The way to {peer} ({address_}) leaves by {way.interface}, not by {mine.name}."
        why = "All traffic of the ranks would take the slow network."
        return blocked("reach", spec.name, observed, why, test)
    if not way.small.received:
        said = f": {way.small.said}" if way.small.said else "."
        observed = f"{peer} ({address_}) does not answer over the fabric{said}"
        return blocked("reach", spec.name, observed, "The ranks talk over this link.", test)
    if not way.full.received:
        said = f": {way.full.said}" if way.full.said else "."
        observed = f"{peer} answers small packets, and none of {way.full.size} bytes{said}"
        why = "An MTU on the way is smaller than this end's: connections open, and then hang."
        return blocked("reach", spec.name, observed, why, test)
    time = f", {way.small.ms:g} ms" if way.small.ms is not None else ""
    if way.small.received < 3 or way.full.received < 3:
        lost = 6 - way.small.received - way.full.received
        observed = f"{lost} of 6 packets to {peer} were lost{time}."
        return Verdict(
            "reach", (spec.name,), Grade.SLOW, observed, "Every lost packet is a wait of both ranks.", test
        )
    return ready("reach", spec.name, f"{peer} answers by {way.interface}, {way.full.size} bytes unsplit{time}.")


def cables(asked: Asked) -> Iterable[Verdict]:
    """What each port really reaches, by the hardware address that answers at its other end."""
    owners = {
        link.mac: (host, link.name) for host, facts in asked.fabrics.items() for link in facts.links if link.mac
    }
    for spec, facts in _pairs(asked):
        for peer, way in facts.peers.items():
            mine = facts.link_of(spec.cluster_address)
            if mine is None or not way.mac or way.interface != mine.name:
                continue
            host, port = owners.get(way.mac, ("", ""))
            wanted = (
                asked.fabrics[peer].link_of(asked.profile.host(peer).cluster_address) if host == peer else None
            )
            if wanted is not None and wanted.name != port:
                yield _crossed(spec, facts, mine, (peer, port, wanted.name))
            elif host == peer:
                yield ready("cables", spec.name, f"{mine.name} ══ {host} {port}")
            elif peer in asked.fabrics:
                where = f"{host} {port}" if host else f"a machine with the address {way.mac}"
                observed = f"{mine.name} reaches {where}, and {peer} is expected there."
                why = "Another machine answers to the peer's address: a wrong cable, or an address given twice."
                remedy = f"On {spec.name}: ip neigh show dev {mine.name} ; follow the cable"
                yield blocked("cables", spec.name, observed, why, remedy)


def _crossed(spec: HostSpec, facts: FabricFacts, mine: Link, end: tuple[str, str, str]) -> Verdict:
    """A Linux host answers for each of its addresses on every interface, so pings pass over a cable in the wrong
    port (Documentation/networking/ip-sysctl, arp_ignore)."""
    peer, port, wanted = end
    observed = f"{mine.name} reaches {peer}'s {port}, and {peer}'s fabric address is on its {wanted}."
    why = "Pings and TCP may pass all the same; RDMA is bound to the port, and fails or takes the wrong one."
    remedy = (
        f"Put the cable into {wanted} of {peer}, the same port on both boxes; or give {port} the address, in "
        f"/etc/netplan of {peer}"
    )
    return Verdict("cables", (spec.name,), Grade.BLOCKED if facts.rdma else Grade.SLOW, observed, why, remedy)


def firewall(asked: Asked) -> Iterable[Verdict]:
    """The ports between the hosts are not filtered. One that is refused is free: nobody listens yet."""
    for spec, facts in _pairs(asked):
        for peer, way in facts.peers.items():
            if not way.small.received:
                continue
            shut = sorted(port for port, said in way.ports.items() if said not in ("open", "refused"))
            if shut:
                numbers = ", ".join(map(str, shut))
                source = spec.cluster_address
                observed = f"{peer} does not answer {spec.name} on port {numbers}: {way.ports[shut[0]]}."
                why = "Ray and NCCL use these and many high ports between the hosts."
                remedy = (
                    f"On {peer}: sudo ufw allow from {source} ; or sudo iptables -I INPUT -s {source} -j ACCEPT"
                )
                yield Verdict("firewall", (peer,), Grade.BLOCKED, observed, why, remedy)
            elif way.ports:
                yield ready(
                    "firewall", peer, f"Not filtered from {spec.name}: {', '.join(map(str, way.ports))}."
                )


def name(asked: Asked) -> Iterable[Verdict]:
    """Without an interface in the profile, a host's own name decides where Gloo listens."""
    for spec, facts in _pairs(asked):
        if spec.fabric and not spec.fabric.interface and facts.name and facts.name != spec.fabric.address:
            observed = f"This host's own name stands for {facts.name}."
            where = "where no other host reaches it" if facts.name.startswith("127.") else "on the slow network"
            why = f"Without fabric.interface in the profile, Gloo listens there, {where}."
            link = facts.link_of(spec.fabric.address)
            found = link.name if link else "its interface"
            change = {"set": {f"hosts.{spec.name}.fabric.interface": found}} if link else None
            remedy = f"Set hosts.{spec.name}.fabric.interface to {found}"
            yield Verdict("name", (spec.name,), Grade.SLOW, observed, why, remedy, (Fix(remedy, change),))


def rdma(asked: Asked) -> Iterable[Verdict]:
    """The RoCE device of the fabric is up, has a usable GID, and the environment names both."""
    for spec, facts in _pairs(asked):
        if not facts.rdma or spec.fabric is None:
            continue
        link = facts.link_of(spec.fabric.address)
        device = next((one for one in facts.rdma if link and one.interface == link.name), None)
        if device is None or not device.active:
            observed = f"No RoCE device is up for {link.name if link else spec.fabric.address}."
            why = "RoCE is RDMA over this cable; without it NCCL falls back to TCP, which is several times slower."
            remedy = f"On {spec.name}: rdma link ; ibv_devinfo"
            yield Verdict("rdma", (spec.name,), Grade.SLOW, observed, why, remedy)
            continue
        index = device.usable(spec.fabric.address)
        if index is None:
            observed = f"{device.name} has no RoCE v2 GID for {spec.fabric.address}."
            why = (
                "NCCL names the port by its GID, the RDMA address; without it NCCL ends with ibv_modify_qp: 22."
            )
            remedy = f"On {spec.name}: show_gids ; give the interface its IPv4 address again"
            yield blocked("rdma", spec.name, observed, why, remedy)
            continue
        yield _environment(asked, spec, device, index, proposed(spec, facts))


def _environment(
    asked: Asked, spec: HostSpec, device: RdmaDevice, index: int, wanted: dict[str, str]
) -> Verdict:
    declared = {**asked.profile.runtime.env, **asked.profile.ray.env, **spec.env}
    differs = {key: value for key, value in wanted.items() if declared.get(key, value) != value}
    missing = {key: value for key, value in wanted.items() if key not in declared}
    observed = f"{device.name} is up ({device.rate}); its RoCE v2 GID has index {index}."
    fixes = tuple(
        Fix(f"Set {key}={value} for {spec.name}", {"set": {f"hosts.{spec.name}.env.{key}": value}})
        for key, value in {**missing, **differs}.items()
    )
    if not fixes:
        return ready("rdma", spec.name, observed)
    lines = [f"-{key}: {declared[key]}" for key in differs] + [
        f"+{key}: {value}" for key, value in {**missing, **differs}.items()
    ]
    remedy = f"In the profile, hosts.{spec.name}.env: {'; '.join(lines)}"
    if "NCCL_IB_GID_INDEX" in differs or "NCCL_IB_HCA" in differs:
        why = (
            "NCCL takes the port's GID, its RDMA address, by this index, which differs by host and moves after a "
            "restart; a wrong one ends in NCCL's 'unhandled system error'."
        )
        told = ", ".join(f"{key} is {declared[key]} in the profile" for key in differs)
        return Verdict("rdma", (spec.name,), Grade.BLOCKED, f"{observed} {told}.", why, remedy, fixes)
    return Verdict("rdma", (spec.name,), Grade.READY, observed, "", remedy, fixes)


def proposed(spec: HostSpec, facts: FabricFacts) -> dict[str, str]:
    """The environment that this host's RDMA asks for, beside the interface names that the cockpit sets: the
    devices of the port that is cabled (both twins, so both halves of its 200 Gb/s), and the GID's index."""
    if spec.fabric is None:
        return {}
    cabled = [
        device
        for device in facts.rdma
        if device.active and (link := facts.link(device.interface)) and link.carrier and link.addresses
    ]
    own = next((device for device in cabled if device.usable(spec.fabric.address) is not None), None)
    if own is None:
        return {}
    return {
        "NCCL_IB_HCA": ",".join(device.name for device in cabled),
        "NCCL_IB_GID_INDEX": str(own.usable(spec.fabric.address)),
    }


def rdma_ends(asked: Asked) -> dict[str, End]:
    """Of each host that has one the fabric's RoCE device that is up and its usable GID."""
    found: dict[str, End] = {}
    for spec, facts in _pairs(asked):
        for device in facts.rdma:
            index = device.usable(spec.cluster_address)
            if device.active and index is not None:
                found.setdefault(spec.name, End(spec, device.name, index))
    return found


def picture(asked: Asked) -> str:
    """The cabling as text, "" where there is none: a host alone, or hosts on one machine."""
    if len(list(_pairs(asked))) < 2:
        return ""
    addresses = {spec.name: spec.fabric.address for spec in asked.profile.hosts if spec.fabric}
    return cabling(asked.fabrics, addresses)


def _pairs(asked: Asked) -> Iterable[tuple[HostSpec, FabricFacts]]:
    if len(asked.profile.hosts) > 1:
        for spec in asked.profile.hosts:
            # Hosts on one machine (the lab's) have no fabric between them.
            if spec.name in asked.fabrics and not ipaddress.ip_address(spec.cluster_address).is_loopback:
                yield spec, asked.fabrics[spec.name]
