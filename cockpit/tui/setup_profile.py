"""What a profile can be made of: the hosts of the set-up, and what was found on them. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cockpit.logs.sanitise import clean
from cockpit.model import profile_words
from cockpit.model.errors import CockpitError
from cockpit.model.profile import Profile
from cockpit.probes.setup import Found, Port


class AddressError(CockpitError):
    """What was typed is no address."""


@dataclass(frozen=True, slots=True)
class Address:
    """How a host is reached; ``port`` is 0 and ``user`` "" where ssh_config or the usual ones stand."""

    place: str
    user: str = ""
    port: int = 0


def parse_address(text: str) -> Address:
    """The address in ``user@host:port``, ``[IPv6]:port``, an alias or ``local``; raises ``AddressError``."""
    text = text.strip().removeprefix("ssh://").rstrip("/")
    if len(text.split()) > 1:
        raise AddressError("An address is one word, as in user@host:port; each host is added by itself.")
    user, at, place = text.rpartition("@")
    port = ""
    if bracketed := re.fullmatch(r"\[(.*)\](?::(.*))?", place):
        place, port = bracketed[1], bracketed[2] or ""
    elif place.count(":") == 1:
        place, _, port = place.partition(":")
        if not port:
            raise AddressError(f"{text} ends where a port was expected.")
    if at and (wrong := profile_words.user(user)):
        raise AddressError(f"{user!r} before the @: expected {wrong}.")
    if wrong := profile_words.address(place):
        raise AddressError(f"{place!r}: expected {wrong}.")
    if port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise AddressError(f"{port!r} after the colon: expected a port from 1 to 65535.")
    if place == "local" and (user or port):
        raise AddressError("`local` is this machine: it takes no user and no port.")
    return Address(place, user, int(port or 0))


@dataclass(frozen=True, slots=True)
class Candidate:
    """A host of the set-up: what was typed for it, and what was found there; ``error`` says why nothing was."""

    address: str
    found: Found | None = None
    error: str = ""

    @property
    def reached(self) -> Address:
        """Its address in parts."""
        return parse_address(self.address)


@dataclass(frozen=True, slots=True)
class End:
    """One end of the fabric."""

    address: str
    interface: str


def host_name(candidate: Candidate, taken: Sequence[str]) -> str:
    """A name for the profile: of its address, or the host's own where that is bare; none that is ``taken``."""
    text = candidate.reached.place
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


def gpus_of(candidate: Candidate) -> int:
    """GPUs of a host; one where that is not known: a Spark has one."""
    return len(candidate.found.gpus) if candidate.found and candidate.found.gpus else 1


def _ranks(profile: Profile) -> int:
    ranks = 1
    for name in ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size"):
        value = profile.serve.flags.get(name, 1)
        ranks *= value if isinstance(value, int) and value > 0 else 1
    return ranks


def fit_notes(candidates: Sequence[Candidate], profile: Profile) -> list[str]:
    """Whether the profile's flags ask for as many GPUs as these hosts have."""
    ranks, gpus = _ranks(profile), sum(gpus_of(candidate) for candidate in candidates)
    if ranks > gpus:
        have = f"{gpus} GPU" if gpus == 1 else f"{gpus} GPUs"
        return [
            f"The model is spread over {ranks} GPUs, and there {'is' if gpus == 1 else 'are'} {have}: add the "
            "other host, or take a model for one."
        ]
    if ranks < len(candidates):
        return [
            f"The model takes {'one GPU' if ranks == 1 else f'{ranks} GPUs'} of {len(candidates)} hosts: ^x takes "
            "the last host out, or take a model for more."
        ]
    return []


def notes(candidates: Sequence[Candidate], profile: Profile | None = None) -> list[str]:
    """What has to be looked at before ``profile`` is used, which was made of these hosts."""
    told = fit_notes(candidates, profile) if profile is not None and candidates else []
    if len(candidates) > 1 and fabric(candidates) is None:
        told.append("No network joins all hosts: fill in `fabric` of each host by hand.")
    for candidate in candidates:
        if candidate.found is not None and not candidate.found.gpus:
            told.append(f"{clean(candidate.address)}: nvidia-smi lists no GPU.")
    drivers = {driver for c in candidates if c.found for driver, _ in c.found.gpus}
    if len(drivers) > 1:
        told.append(f"The hosts' drivers differ: {', '.join(sorted(drivers))}.")
    return told
