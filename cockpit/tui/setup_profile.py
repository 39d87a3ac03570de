"""A profile proposed from what was found on the hosts. Pure: facts in, YAML out."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cockpit.model.profile import Role
from cockpit.probes.setup import Found, Port


@dataclass(frozen=True, slots=True)
class Candidate:
    """A host of the set-up: how it is reached, and what was found there; ``error`` says why nothing was."""

    address: str
    found: Found | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class End:
    """One end of the fabric."""

    address: str
    interface: str


def host_name(candidate: Candidate, taken: Sequence[str]) -> str:
    """A name for the profile: of its address, or the host's own where that is bare; none that is ``taken``."""
    text = candidate.address.rpartition("@")[2]
    bare = text == "local" or re.fullmatch(r"[\d.:]+", text) is not None
    if bare and candidate.found and candidate.found.name:
        text = candidate.found.name
    place = re.sub(
        r"[^a-z0-9-]+", "-", (text if bare and not candidate.found else text.split(".")[0]).lower()
    ).strip("-")
    place = place or "host"
    name, number = place, 1
    while name in taken:
        number += 1
        name = f"{place}-{number}"
    return name


def fabric(candidates: Sequence[Candidate]) -> list[End] | None:
    """An end of the fabric for each host: interfaces whose addresses are in one network, the fastest that all
    hosts have, a ConnectX before others. None where there is no such network."""
    options = [_ends(candidate.found) for candidate in candidates]
    if len(options) < 2 or not all(options):
        return None
    best: tuple[tuple[bool, int], list[End]] | None = None
    for port, end, network in options[0]:
        chosen, ports, used = [end], [port], {end.address}
        for others in options[1:]:
            match = next(((p, e) for p, e, net in others if net == network and e.address not in used), None)
            if match is None:
                break
            ports.append(match[0])
            chosen.append(match[1])
            used.add(match[1].address)
        if len(chosen) == len(options):
            rank = (all(one.fast for one in ports), min(one.speed or 0 for one in ports))
            if best is None or rank > best[0]:
                best = (rank, chosen)
    return best[1] if best else None


def _ends(found: Found | None) -> list[tuple[Port, End, Any]]:
    return [
        (port, End(str(address.ip), port.name), address.network)
        for port in (found.ports if found else ())
        if port.up
        for address in port.addresses
        if not address.is_loopback
    ]


def image_of(candidates: Sequence[Candidate]) -> str:
    """An image that every host has and whose name tells of vLLM; "" where there is none."""
    sets = [set(candidate.found.images) for candidate in candidates if candidate.found]
    common = set.intersection(*sets) if sets else set()
    return next((image for image in sorted(common) if "vllm" in image.lower()), "")


def propose(base: str, name: str, candidates: Sequence[Candidate], runtime: str, model: str) -> str:
    """The profile's YAML: ``base``, a shipped profile's text, with these hosts; the first is the head.
    ``runtime`` is an image, or the folder of a virtual environment (it begins with / or ~); "" leaves the
    base's, as does an empty ``model``."""
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.width = 4096
    data = yaml.load(base)
    data["name"] = name
    data["hosts"] = _hosts(candidates)
    if runtime.startswith(("/", "~")):
        data["runtime"] = {"kind": "native", "venv": runtime}
    elif runtime:
        data["runtime"]["image"] = runtime
    if model:
        data["serve"]["model"] = model
    out = io.StringIO()
    yaml.dump(data, out)
    return out.getvalue()


def _hosts(candidates: Sequence[Candidate]) -> list[dict[str, Any]]:
    ends = fabric(candidates)
    hosts: list[dict[str, Any]] = []
    for number, candidate in enumerate(candidates):
        role = Role.HEAD if number == 0 else Role.WORKER
        host: dict[str, Any] = {"name": host_name(candidate, [h["name"] for h in hosts])}
        user, _, address = candidate.address.rpartition("@")
        host |= {"address": address, "role": role.value}
        if user:
            host["user"] = user
        if ends is not None:
            host["fabric"] = {"address": ends[number].address, "interface": ends[number].interface}
        hosts.append(host)
    return hosts


def notes(candidates: Sequence[Candidate]) -> list[str]:
    """What has to be looked at before the profile is used."""
    told = []
    if len(candidates) > 1 and fabric(candidates) is None:
        told.append("No network joins all hosts: fill in `fabric` of each host by hand.")
    for candidate in candidates:
        if candidate.found is not None and not candidate.found.gpus:
            told.append(f"{candidate.address}: nvidia-smi lists no GPU.")
    drivers = {driver for c in candidates if c.found for driver, _ in c.found.gpus}
    if len(drivers) > 1:
        told.append(f"The hosts' drivers differ: {', '.join(sorted(drivers))}.")
    return told
