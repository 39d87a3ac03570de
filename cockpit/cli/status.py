"""One look, as a table for a person."""

from __future__ import annotations

from cockpit.bringup.events import StepState
from cockpit.bringup.look import HostSeen, Seen
from cockpit.bringup.steps import titles
from cockpit.cli import show
from cockpit.cli.output import name, say
from cockpit.cli.watch import MARKS
from cockpit.model.facts import Gpu, MemberState
from cockpit.model.profile import Role

GIB = 1024**3

RAY_WORDS = {
    MemberState.JOINED: "joined",
    MemberState.MISSING: "expected, not joined",
    MemberState.WRONG_ADDRESS: "joined over another network",
    MemberState.UNEXPECTED: "not of this profile",
}


def show_status(seen: Seen) -> None:
    """Hosts, steps, run."""
    for host in seen.hosts:
        say(_host(host))
    say("")
    for step in seen.steps:
        state = step.report.state
        word = "" if state is StepState.DONE else state.value
        reason = show.safe(step.report.reason).partition("\n")[0]
        say(f"{MARKS[state]} {titles()[step.name]:<12} {'  '.join(w for w in (word, reason) if w)}".rstrip())
    say("")
    if seen.run is None:
        head = next((host for host in seen.hosts if host.spec.role is Role.HEAD), None)
        asked = head is None or head.reachable
        say("No run yet." if asked else "The run is unknown: the head can't be reached.")
        return
    say(f"Run {name(seen.run.id)}: {name(seen.run.words)}")


def _host(host: HostSeen) -> str:
    rank = "" if host.rank is None else f" · rank {host.rank}"
    head = f"{host.spec.name} · {host.spec.role.value}{rank}"
    if not host.reachable:
        remedy = f"\n{show.indented(host.remedy)}" if host.remedy else ""
        return f"{head}\n  ✗ not reachable: {name(host.error)}{remedy}"
    lines = [head]
    if host.sample:
        memory = host.sample.memory
        used = (memory.total - memory.available) / GIB
        parts = [f"memory {used:.1f} of {memory.total / GIB:.1f} GiB used"]
        if memory.gpu_processes is not None:
            parts.append(f"GPU processes {memory.gpu_processes / GIB:.1f}")
        parts.append(f"page cache {memory.page_cache / GIB:.1f}")
        lines.append("  " + " · ".join(parts))
        lines += [_gpu_line(gpu) for gpu in host.sample.gpus]
        if host.sample.gpu_error:
            lines.append(f"  GPU can't be asked: {name(host.sample.gpu_error)}")
    if host.guard:
        guard = host.guard
        figures = f"lowest {guard.lowest / GIB:.1f} GiB available, reserve {guard.reserve / GIB:.1f} GiB"
        reason = f" · {name(guard.reason)}" if guard.reason else ""
        lines.append(f"  memory guard {name(guard.state)}{reason} · {figures}")
    if host.member:
        where = f" as {name(host.member.address)}" if host.member.address else ""
        lines.append(f"  Ray {RAY_WORDS[host.member.state]}{where} · {host.member.gpus:g} GPU")
    return "\n".join(lines)


def _gpu_line(gpu: Gpu) -> str:

    figures = [
        f"{value:g} {unit}"
        for value, unit in ((gpu.utilisation, "%"), (gpu.power, "W"), (gpu.temperature, "°C"))
        if value is not None
    ]
    return f"  GPU {gpu.index} {name(gpu.name)} · " + " · ".join(figures)
