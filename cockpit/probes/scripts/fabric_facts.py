"""Preflight's questions about a host's network: prints one line of JSON. Reads, and changes nothing.

Argument: JSON with ``address`` (this host's on the fabric), ``peers`` (the others': name to address), ``ports``
(numbers that must not be filtered on the way to a peer, by its address) and ``sys`` ("" for /sys), for tests.
The folders are those of the kernel's Documentation/ABI/stable/sysfs-class-infiniband and
testing/sysfs-class-net.
"""

import json
import os
import re
import socket
import sys
from pathlib import Path
from typing import Any

from cockpit.runtime.scripts.programs import at_once, call

LIMIT = 4.0
HEADERS = 28  # IPv4's and ICMP's


def read(path: Path) -> str:
    """A file's text without its line break, empty where it can't be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def described(*argv: str) -> "list[dict[str, Any]]":
    """What ``ip -json`` says, empty where it says nothing."""
    said = call("ip", "-json", *argv, limit=LIMIT)
    try:
        found = json.loads(said.output or "[]") if said.status == 0 else []
    except ValueError:
        return []
    return [row for row in found if isinstance(row, dict)]


def interfaces(sys_: Path) -> "list[dict[str, Any]]":
    """Every interface but loopback: its link, and its addresses with their prefix."""
    addresses: dict[str, list[str]] = {}
    for row in described("address", "show"):
        for one in row.get("addr_info", []):
            if one.get("scope") != "link":
                addresses.setdefault(row["ifname"], []).append(f"{one['local']}/{one['prefixlen']}")
    found = []
    for folder in sorted((sys_ / "class/net").glob("*")):
        if folder.name == "lo" or not (folder / "mtu").exists():
            continue
        speed = read(folder / "speed")
        found.append(
            {
                "name": folder.name,
                "up": read(folder / "operstate") not in ("down", "lowerlayerdown"),
                "carrier": read(folder / "carrier") == "1",
                "speed": int(speed) if speed.isdigit() else 0,
                "mtu": int(read(folder / "mtu") or 0),
                "mac": read(folder / "address"),
                "driver": Path(os.path.realpath(folder / "device/driver")).name
                if (folder / "device/driver").exists()
                else "",
                "addresses": addresses.get(folder.name, []),
            }
        )
    return found


def rdma(sys_: Path) -> "list[dict[str, Any]]":
    """RDMA devices, port 1 of each, with their GIDs that are set."""
    found = []
    for folder in sorted((sys_ / "class/infiniband").glob("*")):
        port = folder / "ports/1"
        gids = []
        for path in sorted((port / "gids").glob("*"), key=lambda path: int(path.name)):
            gid = read(path)
            if gid.replace(":", "").strip("0"):
                attributes = port / "gid_attrs"
                kind, device = read(attributes / "types" / path.name), read(attributes / "ndevs" / path.name)
                gids.append({"index": int(path.name), "gid": gid, "type": kind, "interface": device})
        found.append(
            {"name": folder.name, "state": read(port / "state"), "rate": read(port / "rate"), "gids": gids}
        )
    return found


def ping(peer: str, size: int) -> "dict[str, Any]":
    """Three packets of ``size`` bytes that may not be split: how many came back, the fastest in ms."""
    payload = str(max(0, size - HEADERS))
    argv = ("ping", "-n", "-q", "-c", "3", "-i", "0.2", "-W", "1", "-w", "2", "-M", "do", "-s", payload, peer)
    answer = call(*argv, limit=LIMIT)
    text = f"{answer.output}\n{answer.error}".strip()
    received = re.search(r"(\d+) received", text)
    fastest = re.search(r"= ([\d.]+)/", text)
    lines = [
        line for line in text.splitlines() if re.search(r"too long|nreachable|not permitted|unknown", line)
    ]
    return {
        "size": size,
        "asked": received is not None,
        "received": int(received[1]) if received else 0,
        "ms": float(fastest[1]) if fastest else None,
        "said": (lines or text.splitlines()[-1:] or [f"status {answer.status}"])[0][:200],
    }


def knock(peer: str, port: int) -> str:
    """open, refused (nobody listens; the way is free), filtered, or what the kernel said."""
    with socket.socket(socket.AF_INET6 if ":" in peer else socket.AF_INET) as connection:
        connection.settimeout(1.5)
        try:
            connection.connect((peer, port))
        except ConnectionRefusedError:
            return "refused"
        except TimeoutError:
            return "filtered"
        except OSError as error:
            return os.strerror(error.errno or 0)
    return "open"


def way(peer: str) -> "dict[str, str]":
    """The route to a peer, and the hardware address that answers there.

    A peer whose cable is in another port has a second entry: learned there from what it asked itself.
    """
    routes = described("route", "get", peer)
    route = routes[0] if routes else {}
    entries = described("neigh", "show", peer, "dev", str(route["dev"])) if route.get("dev") else []
    neighbours = [row for row in entries if row.get("lladdr")]
    return {
        "interface": str(route.get("dev", "")),
        "source": str(route.get("prefsrc", "")),
        "gateway": str(route.get("gateway", "")),
        "mac": str(neighbours[0]["lladdr"]) if neighbours else "",
    }


def reach(peer: str, mtu: int, ports: "list[int]") -> "dict[str, Any]":
    """Everything about the way to one peer, at once."""
    # The hardware address is known when somebody has been asked.
    (small, route), full, *knocks = at_once(
        lambda: (ping(peer, 84), way(peer)),
        lambda: ping(peer, mtu),
        *(lambda port=port: knock(peer, port) for port in ports),
    )
    return {"small": small, "way": route, "full": full, "ports": dict(zip(ports, knocks, strict=True))}


def own_name() -> str:
    """The address this host's own name stands for, "" for none."""
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return ""


def main(asked: "dict[str, Any]") -> None:
    """Print the answer."""
    sys_ = Path(asked.get("sys") or "/sys")
    found = interfaces(sys_)
    mine = [row for row in found if any(one.split("/")[0] == asked["address"] for one in row["addresses"])]
    mtu = mine[0]["mtu"] if mine else 1500
    reached = at_once(
        *(
            lambda name=name, address=address: reach(address, mtu, asked["ports"].get(name, []))
            for name, address in asked["peers"].items()
        )
    )
    facts = {
        "interfaces": found,
        "rdma": rdma(sys_),
        "name": own_name(),
        "default": [str(row.get("dev", "")) for row in described("route", "show", "default")],
        "peers": dict(zip(asked["peers"], reached, strict=True)),
    }
    print(json.dumps(facts), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
