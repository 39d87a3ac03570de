"""The rig's cables and switches, and what can go wrong with them.

Both switches are bridges in a namespace of their own, so a cable pulled there shows as a lost carrier on
the host, as on a real machine. The operator's cable ends in the namespace the tests run in.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.rig.layout import FABRIC, MANAGEMENT, MTU, Layout
from tests.rig.shell import Result, RigError, run

DELAYER = Path(__file__).parent / "files" / "delay.py"
BRIDGES = {MANAGEMENT: "management", FABRIC: "fabric"}


def batch(namespace: str, *lines: str) -> None:
    """Several ``ip`` commands in one namespace; the first that fails raises ``RigError``."""
    run(["ip", "-netns", namespace, "-batch", "-"], stdin="\n".join(lines) + "\n")


def inside(namespace: str, *argv: str, check: bool = True) -> Result:
    """Run ``argv`` in the network namespace alone."""
    return run(["ip", "netns", "exec", namespace, *argv], check=check)


def port(index: int, interface: str) -> str:
    """The switch's end of a host's cable."""
    return f"{'m' if interface == MANAGEMENT else 'f'}{index}"


def build(layout: Layout) -> None:
    """The switches and the operator's cable."""
    run(["ip", "netns", "add", layout.switch])
    lines = ["link set lo up"]
    for interface, bridge in BRIDGES.items():
        lines += [
            f"link add {bridge} mtu {MTU[interface]} type bridge forward_delay 0",
            f"link set {bridge} up",
        ]
    batch(layout.switch, *lines)
    run(["ip", "link", "add", layout.operator, "type", "veth", "peer", "op", "netns", layout.switch])
    batch(layout.switch, f"link set op master {BRIDGES[MANAGEMENT]} up")
    run(["ip", "address", "add", f"{layout.address(254)}/24", "dev", layout.operator])
    run(["ip", "link", "set", layout.operator, "up"])


def plug(layout: Layout, index: int) -> None:
    """A host's own network, with a cable to each switch.

    Its hardware addresses are the same at each boot, else the others would go on sending to the old ones.
    """
    namespace = layout.namespace(index)
    run(["ip", "netns", "add", namespace])
    at_switch, at_host = [], ["link set lo up"]
    for interface, mtu in MTU.items():
        end = port(index, interface)
        at_switch += [
            f"link add {end} mtu {mtu} type veth peer {interface} mtu {mtu} netns {namespace}",
            f"link set {end} master {BRIDGES[interface]} up",
        ]
        at_host += [
            f"link set {interface} address {layout.mac(index, interface)}",
            f"address add {layout.address(index, interface)}/24 broadcast + dev {interface}",
            f"link set {interface} up",
        ]
    batch(layout.switch, *at_switch)
    batch(namespace, *at_host)


def unplug(layout: Layout, index: int) -> None:
    """Take the host's network away, with its cables."""
    # A namespace's end is worked off later by the kernel, a cable's at once, and both its ends.
    batch(layout.switch, *(f"link delete {port(index, interface)}" for interface in MTU))
    run(["ip", "netns", "delete", layout.namespace(index)])


def ends(layout: Layout, index: int, interface: str) -> list[str]:
    """The switch's ends that go dark with this host's cable: on a fabric of two hosts it is one cable."""
    if interface == FABRIC and layout.count == 2:
        return [port(number, interface) for number in (1, 2)]
    return [port(index, interface)]


def link(layout: Layout, index: int, interface: str, *, up: bool) -> None:
    """Pull or replug the cable."""
    batch(
        layout.switch,
        *(f"link set {end} {'up' if up else 'down'}" for end in ends(layout, index, interface)),
    )


def link_end(layout: Layout, index: int, interface: str, *, up: bool) -> None:
    """One switch's end alone."""
    batch(layout.switch, f"link set {port(index, interface)} {'up' if up else 'down'}")


def drop(layout: Layout, index: int, interface: str, *, on: bool) -> None:
    """A black hole: the carrier stays, no frame passes."""
    master = "nomaster" if on else f"master {BRIDGES[interface]}"
    batch(layout.switch, f"link set {port(index, interface)} {master}")


def loss(layout: Layout, index: int, interface: str, percent: float) -> None:
    """Lose this share of the packets, at random, in both directions; 0 ends it."""
    namespace = layout.namespace(index)
    for chain, side in (("INPUT", "-i"), ("OUTPUT", "-o")):
        inside(namespace, "iptables-legacy", "-F", chain)
        if percent:
            rule = ["-m", "statistic", "--mode", "random", "--probability", f"{percent / 100:.4f}"]
            inside(namespace, "iptables-legacy", "-A", chain, side, interface, *rule, "-j", "DROP")


def rate(layout: Layout, index: int, interface: str, limit: str) -> None:
    """Limit the cable to ``limit`` (tc's notation, ``10mbit``) in each direction; "" ends it."""
    for namespace, end in (
        (layout.namespace(index), interface),
        (layout.switch, port(index, interface)),
    ):
        inside(namespace, "tc", "qdisc", "delete", "dev", end, "root", check=False)
        if limit:
            bucket = ["tbf", "rate", limit, "burst", "64kb", "latency", "100ms"]
            inside(namespace, "tc", "qdisc", "add", "dev", end, "root", *bucket)


def delay(layout: Layout, milliseconds: float) -> subprocess.Popen[str]:
    """Let the operator's packets to and from the hosts arrive this much later, each way.

    Returns the process that does it: ended, with ``undelay`` after it, packets go straight again.
    """
    batch(
        layout.switch,
        "link set op nomaster",
        "link add late type veth peer late-op",
        f"link set late master {BRIDGES[MANAGEMENT]} up",
        "link set late-op up",
    )
    # Large segments and checksums left to the card would not survive the way through a program.
    plain = ["tx", "off", "tso", "off", "gso", "off", "gro", "off"]
    for end in ("op", "late", "late-op"):
        inside(layout.switch, "ethtool", "-K", end, *plain, check=False)
    run(["ethtool", "-K", layout.operator, *plain], check=False)
    for index in range(1, layout.count + 1):
        inside(layout.namespace(index), "ethtool", "-K", MANAGEMENT, *plain, check=False)
    enter = ["ip", "netns", "exec", layout.switch, "python3", "-IS", str(DELAYER), "op", "late-op"]
    process = subprocess.Popen(
        [*enter, f"{milliseconds:g}"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    )
    if process.stdout is None or process.stdout.readline() != "ready\n":
        raise RigError("The program that delays packets did not start.")
    return process


def undelay(layout: Layout) -> None:
    """The operator's cable back in the switch."""
    batch(layout.switch, "link delete late", f"link set op master {BRIDGES[MANAGEMENT]}")


def mend(layout: Layout, index: int) -> None:
    """Undo every fault of this host's cables, and every packet rule on it that is not Docker's."""
    lines = []
    for interface, mtu in MTU.items():
        rate(layout, index, interface, "")
        end = port(index, interface)
        lines += [f"link set {end} master {BRIDGES[interface]}", f"link set {end} up"]
        batch(layout.namespace(index), f"link set {interface} mtu {mtu} up")
    batch(layout.switch, *lines)
    for tables in ("iptables-legacy", "iptables-nft"):
        for chain in ("INPUT", "OUTPUT"):
            inside(layout.namespace(index), tables, "-F", chain, check=False)


def namespaces(number: int) -> list[str]:
    """The network namespaces of rig ``number`` that stand."""
    folder = Path("/run/netns")
    return sorted(path.name for path in folder.glob(f"sc{number}-*")) if folder.is_dir() else []
