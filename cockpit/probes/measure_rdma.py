"""RDMA bandwidth between two hosts, by perftest's ib_write_bw where it is installed; on wish, for two seconds."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from cockpit.hosts.errors import HostError
from cockpit.hosts.host import Host
from cockpit.model.command import Command
from cockpit.model.profile import HostSpec
from cockpit.model.verdict import Grade, Verdict
from cockpit.runtime.runtime import Runtime

SLOW = 80.0
"""Gb/s of one RoCE device below which something is wrong. A Spark's port is two devices of some 100 each: 92.6 and
97.3 were measured by NVIDIA (DGX Spark performance guide), 111.7 by eugr on one."""

NO_TOOL = 127
"""The exit status where ib_write_bw is not there."""

_HAVE = f"command -v ib_write_bw >/dev/null || exit {NO_TOOL}\n"
_FLAGS = "-D 2 -F --report_gbits"
_SERVE = """\
PORT=$(python3 -I -S -c 'import socket, sys; s = socket.create_server((sys.argv[1], 0)); print(s.getsockname()[1])' @AT@)
echo "$PORT"
exec timeout 20 ib_write_bw @FLAGS@ -d @DEVICE@ -x @GID@ -p "$PORT"
"""


@dataclass(frozen=True, slots=True)
class End:
    """One end: the RoCE device of the fabric and the index of its usable GID."""

    spec: HostSpec
    device: str
    gid: int


def serve_command(runtime: Runtime, end: End) -> Command:
    """Waits for the other end, on a port that was free; says the port on a line."""
    text = _SERVE.replace("@FLAGS@", _FLAGS).replace("@AT@", shlex.quote(end.spec.cluster_address))
    text = text.replace("@DEVICE@", shlex.quote(end.device)).replace("@GID@", str(end.gid))
    return runtime.host_script(end.spec, _HAVE + text, "take an RDMA measurement's bytes", limit=30)


def send_command(runtime: Runtime, end: End, peer: HostSpec, port: int) -> Command:
    """Writes for two seconds into the other host's memory."""
    words = f"-d {shlex.quote(end.device)} -x {end.gid} -p {port} {shlex.quote(peer.cluster_address)}"
    # The other end may need a moment between its word and its socket.
    text = f"sleep 0.5\nexec timeout 20 ib_write_bw {_FLAGS} {words}"
    return runtime.host_script(end.spec, _HAVE + text, f"measure RDMA to {peer.name}", limit=30)


async def rdma_bandwidth(hosts: Mapping[str, Host], runtime: Runtime, sender: End, receiver: End) -> Verdict:
    """Measure from ``sender`` to ``receiver``; a verdict ``rdma-bandwidth`` over both, unknown where it failed or
    the tool is not there."""
    one, two = sender.spec.name, receiver.spec.name
    said, rate = "", None
    try:
        async with hosts[two].open(serve_command(runtime, receiver)) as stream:
            output = b""
            while b"\n" not in output and (data := await stream.read()):
                output += data
            if b"\n" not in output:
                return _no_tool(two) if await stream.wait() == NO_TOOL else _failed(one, two, stream.error_text)
            port = int(output.partition(b"\n")[0])
            sent = await hosts[one].run(send_command(runtime, sender, receiver.spec, port), check=False)
            rate, said = parse(sent.text), sent.error_text or sent.text
            if sent.status == NO_TOOL:
                return _no_tool(one)
    except HostError as error:
        said = error.message
    except ValueError as error:
        said = str(error)
    if rate is None:
        return _failed(one, two, said)
    observed = f"RDMA write, {one} {sender.device} to {two} {receiver.device}: {rate:.1f} Gb/s."
    if rate < SLOW:
        why = "One device of a Spark's port carries some 100 Gb/s; so little is a port short of power, or a bad cable."
        remedy = (
            f"On {one}: sudo ethtool {shlex.quote(sender.device)} ; see that both boxes have their own supplies"
        )
        return Verdict("rdma-bandwidth", (one, two), Grade.SLOW, observed, why, remedy)
    return Verdict("rdma-bandwidth", (one, two), Grade.READY, observed)


def _no_tool(host: str) -> Verdict:
    observed = "RDMA was not measured: there is no ib_write_bw."
    remedy = f"On {host}: sudo apt install perftest"
    return Verdict("rdma-bandwidth", (host,), Grade.UNKNOWN, observed, "TCP alone was measured.", remedy)


def _failed(one: str, two: str, said: str) -> Verdict:
    lines = [line.strip() for line in said.splitlines() if line.strip()] or ["no figure came back"]
    observed = f"RDMA could not be measured: {lines[-1][:200]}"
    remedy = f"On {one} and {two}: ibv_devinfo ; show_gids"
    return Verdict("rdma-bandwidth", (one, two), Grade.UNKNOWN, observed, "NCCL may fall back to TCP.", remedy)


def parse(text: str) -> float | None:
    """The average in Gb/s of ib_write_bw's table (perftest 4.5 to 25, perftest_parameters.h): below a line that begins
    with ``#bytes`` one with bytes, iterations, peak, average and message rate. None where there is none."""
    lines = text.splitlines()
    for at, line in enumerate(lines[:-1]):
        if line.strip().startswith("#bytes") and "[Gb/sec]" in line:
            fields = lines[at + 1].split()
            try:
                return float(fields[3])
            except (IndexError, ValueError):
                return None
    return None
