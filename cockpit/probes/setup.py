"""What the guided set-up asks a host, and its answer as a record."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from ipaddress import IPv4Interface
from typing import Any

from cockpit.model.command import Command, script
from cockpit.model.errors import CockpitError
from cockpit.runtime.script_text import script_text

LIMIT = 45.0


class SetupError(CockpitError):
    """What the host answered are no facts."""


@dataclass(frozen=True, slots=True)
class Port:
    """A network interface. ``speed`` in Mb/s, None where it isn't told; ``driver`` is the kernel's."""

    name: str
    driver: str
    up: bool
    speed: int | None
    addresses: tuple[IPv4Interface, ...] = ()

    @property
    def fast(self) -> bool:
        """Whether it may be the fabric: a ConnectX, or as fast as one."""
        return self.driver.startswith("mlx5") or (self.speed or 0) >= 100_000


@dataclass(frozen=True, slots=True)
class Found:
    """A host as it was found. ``gpus`` are (driver, name); ``docker`` is the engine's version, "" without one;
    ``memory`` in bytes. Everything here was said by a host."""

    name: str
    system: str
    memory: int
    gpus: tuple[tuple[str, str], ...] = ()
    docker: str = ""
    images: tuple[str, ...] = ()
    ports: tuple[Port, ...] = ()
    models: tuple[str, ...] = ()


def setup_command(host: str) -> Command:
    """The question."""
    text = script_text("cockpit.probes.scripts", "setup_facts")
    return script(host, f"exec python3 -I -S -c {shlex.quote(text)}\n", "see what the host has", limit=LIMIT)


def parse_found(output: bytes) -> Found:
    """The answer; raises ``SetupError``."""
    try:
        facts = json.loads(output.decode("utf-8", "replace").strip().splitlines()[-1])
        return Found(
            str(facts["name"]),
            str(facts["system"]),
            int(facts["memory"]),
            tuple((str(driver), str(name)) for driver, name in facts["gpus"]),
            str(facts["docker"]),
            tuple(str(image) for image in facts["images"]),
            tuple(_port(row) for row in facts["interfaces"]),
            tuple(str(model) for model in facts["models"]),
        )
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise SetupError(f"What the host answered are no facts ({type(error).__name__}).") from error


def _port(row: dict[str, Any]) -> Port:
    speed = int(row["speed"])
    addresses = tuple(IPv4Interface(text) for text in row["addresses"])
    return Port(str(row["name"]), str(row["driver"]), bool(row["up"]), speed if speed > 0 else None, addresses)
