"""A host's panel as text. Pure: a ``HostView`` and the time in, lines out; remote text is sanitised here."""

from __future__ import annotations

from collections.abc import Iterable

from textual.content import Content

from cockpit.logs.sanitise import clean
from cockpit.model.facts import Gpu, Sample
from cockpit.tui import member_words, memory_watch, reach, words
from cockpit.tui.bars import stacked
from cockpit.tui.state import HostView, Link, State

STALE = 3.5
"""Seconds after which a sample's age is told."""

Line = Content
MUTED = "$muted"


def label(word: str) -> tuple[str, str]:
    """The word a line begins with."""
    return (f"{word:<8}", MUTED)


def unified(sample: Sample) -> bool:
    """Whether GPU and CPU share the memory: the driver then tells no total (GB10)."""
    return bool(sample.gpus) and all(gpu.total is None for gpu in sample.gpus)


def utilisation(state: State) -> float | None:
    """The profile's own gpu-memory-utilization, None where vLLM's default stands."""
    value = state.profile.serve.flags.get("gpu-memory-utilization") if state.profile else None
    return (
        float(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1
        else None
    )


def memory_lines(host: HostView, state: State, width: int) -> list[Line]:
    """The bar and its figures."""
    sample = host.sample
    if sample is None:
        return [Content.assemble(label("Memory"), ("no sample yet", MUTED)), Content("")]
    memory = sample.memory
    used = memory.total - memory.available
    shared = unified(sample)
    gpu = min(memory.gpu_processes or 0, used) if shared else 0
    cache = min(memory.page_cache, memory.available)
    parts = [
        (float(gpu), "█", "$text-primary"),
        (float(used - gpu), "▓", "$text-accent"),
        (float(cache), "░", "$text-success"),
    ]
    share = utilisation(state) if shared else None
    lines_at = [(share * memory.total, "┊", "bold $text-warning")] if share else []
    kept = memory_watch.reserve(host, state)
    if kept:
        lines_at.append((memory.total - kept, "┃", "bold $text-error"))
    figures = f" {words.gib(used, 0)}/{words.gib(memory.total, 0)} GiB"
    bar = stacked(parts, memory.total, max(4, width - 8 - len(figures)), lines_at)
    lines = [Content.assemble(label("Memory"), bar, (figures, "bold"))]
    parts_told: list[str | tuple[str, str]] = []
    if shared:
        known = "unknown" if memory.gpu_processes is None else words.gib(gpu)
        parts_told = [("█ ", "$text-primary"), f"GPU {known}  "]
    parts_told += [
        ("▓ ", "$text-accent"),
        f"{'other' if shared else 'used'} {words.gib(used - gpu)}  ",
        ("░ ", "$text-success"),
        f"cache {words.gib(cache)}  ",
        ("· ", MUTED),
        f"free {words.gib(memory.available - cache)}",
    ]
    legend = Content.assemble(*parts_told)
    indent = max(0, min(8, width - legend.cell_length))
    lines.append(Content.assemble(" " * indent, legend).truncate(width, ellipsis=True))
    if told := list(_pressure(sample)):
        lines.append(Content.assemble(" " * 8, *told).truncate(width, ellipsis=True))
    return lines + [line for g in sample.gpus if (line := gpu_memory(g, utilisation(state), width))]


def _pressure(sample: Sample) -> Iterable[tuple[str, str]]:
    memory = sample.memory
    swap = memory.swap_total - memory.swap_free
    if swap > words.GIB / 20:
        yield (f"▲ swap {words.gib(swap)} GiB  ", "$text-warning")
    if memory.pressure is not None and memory.pressure >= 1:
        yield (f"▲ waits for memory {memory.pressure:.0f} % of the time", "$text-warning")


def gpu_memory(gpu: Gpu, share: float | None, width: int) -> Line | None:
    """The bar of a GPU with memory of its own."""
    if gpu.total is None or gpu.used is None:
        return None
    figures = f" {words.gib(gpu.used, 0)}/{words.gib(gpu.total, 0)} GiB"
    bar = stacked(
        [(float(gpu.used), "█", "$text-primary")],
        gpu.total,
        max(4, width - 8 - len(figures)),
        [(share * gpu.total, "┊", "bold $text-warning")] if share else [],
    )
    return Content.assemble(label(f"GPU {gpu.index}"), bar, (figures, "bold"))


def gpu_line(host: HostView, width: int) -> Line:
    """What the GPUs do, and the fabric's traffic at the end of the line."""
    sample = host.sample
    left: Content
    if sample is None:
        left = Content.assemble(label("GPU"), ("–", MUTED))
    elif sample.gpu_error:
        left = Content.assemble(label("GPU"), (f"can't be asked: {clean(sample.gpu_error)}", "$text-warning"))
    else:
        left = Content.assemble(label("GPU"), " | ".join(_gpu(gpu) for gpu in sample.gpus) or "none")
    right = fabric(host)
    gap = width - left.cell_length - right.cell_length
    if gap < 2:
        return Content.assemble(left.truncate(max(8, width - right.cell_length - 1), ellipsis=True), " ", right)
    return Content.assemble(left, " " * gap, right)


def _gpu(gpu: Gpu) -> str:
    figures = ((gpu.utilisation, "%"), (gpu.power, "W"), (gpu.temperature, "°C"))
    return "  ".join(f"{value:.0f} {unit}" for value, unit in figures if value is not None) or "no figures"


def fabric(host: HostView) -> Content:
    """Throughput in and out."""
    if host.spec.fabric is None:
        return Content("")
    if host.fabric is None:
        return Content.styled("fabric –", MUTED)
    received, sent = words.rate(host.fabric.received), words.rate(host.fabric.sent)
    return Content.assemble(("fabric ", MUTED), f"↓ {received}  ↑ {sent}")


def guard_lines(host: HostView, state: State, width: int) -> list[Line]:
    """The memory guard's line, while there is something to guard."""
    line = memory_watch.guard_line(host, state)
    return [Content.assemble(label("Guard"), line).truncate(width, ellipsis=True)] if line else []


def ray_line(host: HostView, state: State, width: int) -> Line:
    """The host's place in the Ray cluster."""
    if len(state.hosts) < 2:
        return Content.assemble(label("Ray"), ("not needed on one host", MUTED))
    if host.member is not None:
        mark, style = member_words.MEMBER_MARKS[host.member.state]
        text = member_words.member_words(host.member)
        if host.sample and host.sample.gpus and host.member.gpus:
            text = text.replace(" GPU", f" of {len(host.sample.gpus)} GPU", 1)
        line = Content.assemble(label("Ray"), (f"{mark} ", style), clean(text))
        if age := reach.age(state):
            line = Content.assemble(label("Ray"), ("? ", "$text-warning"), f"{age} ago: {clean(text)}")
    elif state.ray_error:
        why = f": {clean(state.ray_error)}" if host is state.hosts[0] else ""
        then = f"{age} ago: " if (age := reach.age(state)) else ""
        line = Content.assemble(label("Ray"), ("? " if then else "○ ", MUTED), f"{then}no cluster{why}")
    else:
        line = Content.assemble(label("Ray"), ("· not asked yet", MUTED))
    return line.truncate(width, ellipsis=True)


def unasked_lines(host: HostView, state: State, width: int) -> list[Line]:
    """On a head that answers: what it could not be asked, and since when; the reasons stand in its details."""
    if host is not state.hosts[0] or host.link.state is not Link.UP:
        return []
    if not state.troubles:
        return []
    names = ", ".join(clean(trouble.what) for trouble in state.troubles)
    first = state.troubles[0]
    told = f"{names} can't be asked for {words.coarse(state.now - first.since)}: "
    line = Content.assemble(label("Look"), ("▲ ", "$text-warning"), told, clean(first.reason))
    return [line.truncate(width, ellipsis=True)]


def trouble_lines(host: HostView, state: State) -> list[Line]:
    """What is wrong with the connection; empty when nothing is."""
    link = host.link
    if link.state is Link.UP:
        told = f"✗ no samples: {clean(host.probe_error)}"
        return [Content.styled(told, "$text-error")] if host.probe_error else []
    age = words.coarse(state.now - link.since)
    if link.state is Link.CONNECTING and not link.error:
        return [Content.styled(f"◐ connecting to {clean(host.spec.address)} … {age}", "$text-accent")]
    lines = [Content.styled(f"✗ {reach.since(host)} ({age})", "bold $text-error")]
    lines += [Content(part) for part in clean(link.error, multiline=True).split("\n") if part]
    then = reach.next_try(host, state.now)
    if link.state is Link.CONNECTING:
        return [*lines, Content.styled(f"◐ {then}", "$text-accent")]
    lines.append(Content(f"{then[:1].upper()}{then[1:]}; r tries now."))
    return lines + [
        Content.styled(part, MUTED) for part in clean(link.remedy, multiline=True).split("\n") if part
    ]


def title(host: HostView) -> Content:
    """Name, role, rank."""
    rank = f" · rank {host.rank}" if host.rank is not None else ""
    return Content.assemble((host.name, "bold"), f" · {host.spec.role.value}{rank}")


def badge(host: HostView, state: State) -> Content:
    """The round trip, or how old what is shown is."""
    if host.link.state is not Link.UP:
        if host.sample is None:
            return Content.styled(reach.how(host), "$text-warning")
        return Content.styled(f"values {words.coarse(state.now - host.sampled_at)} old", "$text-warning")
    if host.sample is not None and state.now - host.sampled_at > STALE:
        return Content.styled(f"values {words.coarse(state.now - host.sampled_at)} old", "$text-warning")
    return Content("connected" if host.link.rtt is None else f"{host.link.rtt * 1000:.1f} ms")


def summary(host: HostView, state: State, load: Content, width: int) -> Content:
    """The host in two lines, for when the other has the screen."""
    sample = host.sample
    parts: list[Content | str | tuple[str, str]] = [(host.name, "bold"), f" {host.spec.role.value} "]
    if host.link.state is not Link.UP:
        mark, style = ("✗", "$text-error") if reach.away(host) else ("◐", "$text-accent")
        parts.append((f"{mark} {reach.how(host)} {words.coarse(state.now - host.link.since)} ", style))
    else:
        parts.append(("● ", "$text-success"))
    if sample is not None:
        used = sample.memory.total - sample.memory.available
        parts.append(f"{words.gib(used, 0)}/{words.gib(sample.memory.total, 0)} GiB · ")
    if host.member is not None:
        parts.append(f"Ray {host.member.state.value.replace('-', ' ')} · ")
    if memory_watch.warning(host, state):
        parts.append(("▲ memory · ", "bold $text-warning"))
    if sample is not None and sample.gpus:
        parts.append(f"GPU {_gpu(sample.gpus[0])}")
    first = Content.assemble(*parts).truncate(width, ellipsis=True)
    return Content("\n").join([first, load.truncate(width, ellipsis=True)])
