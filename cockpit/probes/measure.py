"""TCP throughput between two hosts over the fabric, measured on wish: it takes seconds and fills the link."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping

from cockpit.hosts.errors import HostError
from cockpit.hosts.host import Host
from cockpit.model.command import Command
from cockpit.model.profile import HostSpec
from cockpit.model.verdict import Grade, Verdict
from cockpit.runtime.prelude import heredoc
from cockpit.runtime.runtime import Runtime
from cockpit.runtime.script_text import script_text

SECONDS = 2.0
STREAMS = 4
SLOW = 13e9
"""Bit/s below which something is wrong: a Spark's link carries 200 Gb/s; a power-throttled port showed 12.7 with a
clean link (capetron), and the slower network beside it can do 10."""


def serve_command(runtime: Runtime, receiver: HostSpec) -> Command:
    """Listens on the receiver's fabric address, on a port that the system picks, for this measurement alone."""
    return _command(runtime, receiver, ("serve", receiver.cluster_address), "take a measurement's bytes")


def send_command(runtime: Runtime, sender: HostSpec, receiver: HostSpec, port: int) -> Command:
    """Sends for ``SECONDS`` over ``STREAMS`` connections."""
    words = ("send", receiver.cluster_address, str(port), f"{SECONDS:g}", str(STREAMS))
    return _command(runtime, sender, words, f"measure the throughput to {receiver.name}")


def _command(runtime: Runtime, host: HostSpec, words: tuple[str, ...], why: str) -> Command:
    word, body = heredoc(script_text("cockpit.probes.scripts", "throughput"))
    return runtime.host_script(host, f"exec python3 -I -S - {shlex.join(words)} {word}\n{body}", why, limit=30)


async def throughput(
    hosts: Mapping[str, Host], runtime: Runtime, sender: HostSpec, receiver: HostSpec
) -> Verdict:
    """Measure from ``sender`` to ``receiver``; a verdict ``throughput`` over both, unknown where it failed."""
    both = (sender.name, receiver.name)
    try:
        async with hosts[receiver.name].open(serve_command(runtime, receiver)) as stream:
            output = b""
            while b"\n" not in output and (data := await stream.read()):
                output += data
            port = int(output.partition(b"\n")[0])
            sent = await hosts[sender.name].run(send_command(runtime, sender, receiver, port), check=False)
            while sent.status == 0 and (data := await stream.read()):
                output += data
        rate = _rate(output) if sent.status == 0 else None
        said = sent.error_text.strip().splitlines()[-1:] or ["no figure came back"]
    except HostError as error:
        rate, said = None, [error.message]
    except ValueError as error:
        rate, said = None, [str(error)]
    if rate is None:
        observed = f"The throughput could not be measured: {said[0]}"
        again = f"On {sender.name}: ping -c 3 {receiver.cluster_address} ; then check again with --measure"
        return Verdict("throughput", both, Grade.UNKNOWN, observed, "The link was not tried.", again)
    observed = f"TCP, {STREAMS} streams, {sender.name} to {receiver.name}: {rate / 1e9:.1f} Gb/s."
    if rate < SLOW:
        why = "The link carries 200 Gb/s; so little is the slower network, or a port that is short of power."
        remedy = (
            f"On {sender.name}: ip route get {receiver.cluster_address} ; sudo ethtool {_interface(sender)} ; "
            "see that both boxes have their own power supplies"
        )
        return Verdict("throughput", both, Grade.SLOW, observed, why, remedy)
    return Verdict("throughput", both, Grade.READY, observed)


def _interface(host: HostSpec) -> str:
    return (host.fabric.interface if host.fabric else "") or "INTERFACE"


def _rate(output: bytes) -> float | None:
    """Bit/s of the receiver's figures."""
    line = output.partition(b"\n")[2].strip()
    told = json.loads(line) if line else None
    if not isinstance(told, dict) or not told.get("seconds"):
        return None
    return float(told["bytes"]) * 8 / float(told["seconds"])
