"""A program's output on one host into a program's input on the other: ``docker save`` into ``docker load``, or tar."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence

from cockpit.bringup.preparation.moving import ONE_TIME, Heard
from cockpit.model.command import Command, script, streaming
from cockpit.model.profile import HostSpec
from cockpit.runtime.script_text import script_text


def give_command(host: HostSpec, peer: HostSpec, port: int, argv: Sequence[str], why: str) -> Command:
    """On the host that has it."""
    words = ("give", host.cluster_address, str(port), peer.cluster_address, *argv)
    return _command(host, words, why)


def take_command(
    host: HostSpec, peer: HostSpec, port: int, argv: Sequence[str], why: str, *, before: str = ""
) -> Command:
    """On the host that lacks it; ``before`` is sh text that runs first."""
    words = ("take", host.cluster_address, peer.cluster_address, str(port), *argv)
    return _command(host, words, why, before)


def _command(host: HostSpec, words: Sequence[str], why: str, before: str = "") -> Command:
    text = script_text("cockpit.bringup.preparation.scripts", "pipe")
    line = f"exec python3 -I -S -c {shlex.quote(text)} {shlex.join(words)}"
    secret = f"{ONE_TIME}=${{{ONE_TIME}}}; export {ONE_TIME}\n"
    return streaming(script(host.name, f"{before}{secret}{line}", why, secrets=(ONE_TIME,)))


def parse(piece: bytes) -> Heard | None:
    """A line of the taking end."""
    try:
        told = json.loads(piece)
        status = told.get("status")
        said = str(told.get("said", ""))
        return Heard(int(told["done"]), None if status is None else int(status), said)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
