"""Collects what tells why a run died or stalls: every log of both hosts, and explains it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from shlex import quote

from cockpit.bringup.errors import StepError
from cockpit.bringup.follow import read_whole
from cockpit.bringup.runs import last_run
from cockpit.bringup.session import Session
from cockpit.cluster.arguments import temp_dir
from cockpit.diagnosis import measured
from cockpit.diagnosis.engine import explain
from cockpit.diagnosis.sources import EXIT, KERNEL, SERVE, STACKS, Source, role_of
from cockpit.model.command import Command
from cockpit.model.facts import Sample
from cockpit.model.finding import Explanation
from cockpit.model.profile import HostSpec
from cockpit.serving.guard import guard_log_command
from cockpit.serving.stacks import keep_command, kept_command, parse_kept, stacks_command

SERVE_MOST = 64 * 1024 * 1024
"""Bytes of a serve log that are explained: a log that is longer is one of hours of serving."""

WORKER_MOST = 4 * 1024 * 1024
WORKER_EACH = 200_000
KERNEL_MOST = 1024 * 1024

NO_SAMPLES: Mapping[str, Sequence[Sample]] = {}

_WORKERS = """\
cd @TEMP@/session_latest/logs 2>/dev/null || exit 0
for file in $(ls -t worker-*.err worker-*.out raylet.err raylet.out 2>/dev/null | head -n 40); do
  size=$(stat -c %s "$file") && [ "$size" -gt 0 ] || continue
  from=0
  [ "$size" -le @EACH@ ] || from=$((size - @EACH@))
  echo "$file $(head -c "$from" "$file" | tr -cd '\\n' | wc -c) $((size - from))"
  tail -c "+$((from + 1))" "$file" | head -c "$((size - from))"
done | head -c @MOST@
exit 0
"""
"""Each file: its name, how many lines stand before what is read of it, how many bytes follow; then these."""

_KERNEL = """\
{ journalctl -k -b --no-pager -o short-iso --since "-2h" 2>/dev/null || dmesg --time-format iso 2>/dev/null; } |
  grep -aE 'Out of memory|oom-kill|oom_reaper|Killed process|NVRM|Xid|NV_ERR|mlx5|segfault' | tail -c @MOST@
exit 0
"""


async def gather(
    session: Session, run: str, samples: Mapping[str, Sequence[Sample]] = NO_SAMPLES
) -> list[Source]:
    """The sources of a run. A host that does not answer leaves its own out. ``samples`` are what was measured
    on the hosts while it went, by name."""
    head = session.profile.head.name
    sources = [
        Source(f"serve.log of run {run} on {head}", head, SERVE, await read_whole(session, run, SERVE_MOST))
    ]
    last = await last_run(session)
    if last is not None and last.id == run and last.process.status is not None:
        name = f"exit-status of run {run} on {head}"
        sources.append(Source(name, head, EXIT, f"{last.process.status}\n".encode()))
    sources += [measured.source(host, found) for host, found in samples.items() if found]
    kept = parse_kept(await _output(session, kept_command(session.profile, run)))
    sources += [
        Source(f"{STACKS}/{host}.txt of run {run} on {head}", host, STACKS, data) for host, data in kept.items()
    ]
    for found in await asyncio.gather(*(_of_host(session, spec) for spec in session.profile.hosts)):
        sources += found
    return sources


async def take_stacks(session: Session, run: str) -> dict[str, bytes]:
    """The Python stacks of every rank, by host, taken now on all hosts at once and kept in the run's folder.

    A host that does not answer has none. What can't be had (no py-spy, tracing refused) is said in the text.
    """
    specs = session.profile.hosts
    taken = await asyncio.gather(*(_output(session, stacks_command(session.runtime, spec)) for spec in specs))
    found = {spec.name: data for spec, data in zip(specs, taken, strict=True) if data}
    for spec in specs:
        if spec.name in found:
            await session.ask(keep_command(session.profile, run, spec, found[spec.name]))
    return found


async def explain_run(
    session: Session, run: str, samples: Mapping[str, Sequence[Sample]] = NO_SAMPLES
) -> Explanation:
    """Why the run is as it is, from the complete logs of every host that answers. ``samples`` as in ``gather``."""
    try:
        sources = await gather(session, run, samples)
    except StepError as error:
        return Explanation("unknown", next=(f"The logs can't be read now: {error.message}",))
    addresses = {spec.cluster_address: spec.name for spec in session.profile.hosts}
    return await asyncio.to_thread(explain, sources, addresses)


def parse_workers(output: bytes, host: str) -> list[Source]:
    """The sources in what ``_WORKERS`` printed on ``host``; what was cut off at its end is left out.

    Lines are counted as in the file, also where only its end was read.
    """
    sources, at = [], 0
    while (end := output.find(b"\n", at)) >= 0:
        name, lines, size = output[at:end].decode("utf-8", "replace").rsplit(" ", 2)
        before, data = int(lines), output[end + 1 : end + 1 + int(size)]
        at = end + 1 + int(size)
        numbers = range(before + 1, before + 2 + data.count(b"\n")) if before else ()
        sources.append(Source(f"{name} on {host}", host, role_of(name), data, numbers))
    return sources


async def _of_host(session: Session, spec: HostSpec) -> list[Source]:
    text = _WORKERS.replace("@MOST@", str(WORKER_MOST)).replace("@EACH@", str(WORKER_EACH))
    workers = session.runtime.script(
        spec,
        text.replace("@TEMP@", quote(temp_dir(session.profile, spec))),
        "read Ray's worker logs",
        limit=30,
    )
    kernel = session.runtime.host_script(
        spec, _KERNEL.replace("@MOST@", str(KERNEL_MOST)), "read what the kernel says", limit=20
    )
    sources = parse_workers(await _output(session, workers), spec.name)
    for command, name in (
        (kernel, f"kernel log on {spec.name}"),
        (guard_log_command(session.runtime, spec), f"memory guard on {spec.name}"),
    ):
        data = await _output(session, command)
        if data:
            sources.append(Source(name, spec.name, KERNEL, data))
    return sources


async def _output(session: Session, command: Command) -> bytes:
    try:
        return (await session.ask(command)).stdout
    except StepError:
        # The host is away: its connect or membership step says so; the other host's logs still count.
        return b""
