"""What the cockpit measured on the hosts while a run went: as lines of a source, and what they tell. Pure.

The lines are text like any other evidence: one a sample, for people too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from cockpit.diagnosis.sources import MEASURED, Source
from cockpit.model.facts import Gpu, Sample
from cockpit.model.finding import Confidence, Evidence, Explanation, Finding, Fix, Severity

GIB = 1024**3
LONG = 60.0
"""Seconds that a GPU must be busy without effort before that says something: a load's own pauses are shorter."""

STILL = 120.0
"""Seconds without a byte read from disk that a load of weights is not known to need."""

TIGHT = 2 * GIB
"""Bytes of available memory below which a host is at its end (or a fiftieth of its memory, if that is less)."""

SPINNING = 35.0
"""Watts. A GB10 draws 16 to 27 where it only waits in a loop, and 45 to 90 at work."""

_READ = 8 * 1024**2
_LINE = re.compile(
    r"(?P<at>\S+) memory (?P<available>\d+) of (?P<total>\d+) bytes available, (?P<read>\d+) bytes read from disk"
    r"(?P<gpus>.*)"
)
_GPU = re.compile(r"; GPU (?P<index>\d+) (?P<name>[^:;]*): (?P<busy>[\d.]+) %, (?P<power>[\d.]+) W")


@dataclass(frozen=True, slots=True)
class Measured:
    """One sample as its line says it: bytes, and per GPU its name, per cent and watts; ``line`` from 1."""

    at: float
    available: int
    total: int
    read: int
    gpus: tuple[tuple[str, float, float], ...]
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Told:
    """Something that a host's samples tell: in words, and the line that shows it."""

    source: Source
    words: str
    line: int
    text: str


def source(host: str, samples: Sequence[Sample]) -> Source:
    """The samples of ``host`` as a source."""
    lines = "".join(f"{_line(sample)}\n" for sample in samples)
    return Source(f"what was measured on {host}", host, MEASURED, lines.encode())


def _line(sample: Sample) -> str:
    at = datetime.fromtimestamp(sample.at, UTC).isoformat(timespec="seconds")
    memory = sample.memory
    return (
        f"{at} memory {memory.available} of {memory.total} bytes available, {sample.disk_read} bytes read from disk"
        + "".join(map(_gpu, sample.gpus))
    )


def _gpu(gpu: Gpu) -> str:
    if gpu.utilisation is None or gpu.power is None:
        return ""
    return f"; GPU {gpu.index} {gpu.name.replace(':', ' ').replace(';', ' ')}: {gpu.utilisation:g} %, {gpu.power:g} W"


def read(one: Source) -> list[Measured]:
    """The samples of a source; lines of another form are left out."""
    found = []
    for number, text in enumerate(bytes(one.data).decode("utf-8", "replace").split("\n"), 1):
        match = _LINE.fullmatch(text.strip())
        if match is None:
            continue
        try:
            at = datetime.fromisoformat(match["at"]).timestamp()
        except ValueError:
            continue
        gpus = tuple(
            (gpu["name"], float(gpu["busy"]), float(gpu["power"])) for gpu in _GPU.finditer(match["gpus"])
        )
        available, total, disk = (int(match[name]) for name in ("available", "total", "read"))
        found.append(Measured(at, available, total, disk, gpus, number, text.strip()))
    return found


def _series(sources: Sequence[Source]) -> Iterator[tuple[Source, list[Measured]]]:
    for one in sources:
        if one.role == MEASURED:
            samples = read(one)
            if samples:
                yield one, samples


def spinning(sources: Sequence[Source]) -> list[Told]:
    """The hosts whose GPU has been busy at a power that no work takes: its kernels wait for another rank's."""
    found = []
    for one, samples in _series(sources):
        last = samples[-1]
        for index, (name, _, power) in enumerate(last.gpus):
            run = _busy(samples, index)
            most = max(sample.gpus[index][2] for sample in samples if len(sample.gpus) > index)
            low = power < SPINNING if "GB10" in name else most > 2.5 * power
            if low and run is not None and last.at - run.at >= LONG:
                words = f"{last.gpus[index][1]:g} % busy at {power:g} W for {last.at - run.at:.0f} s"
                found.append(Told(one, words, last.line, last.text))
    return found


def _busy(samples: Sequence[Measured], index: int) -> Measured | None:
    """The first sample since which the GPU was busy, and at no more than the last one's power and a half."""
    first, last = None, samples[-1]
    for sample in reversed(samples):
        if (
            len(sample.gpus) <= index
            or sample.gpus[index][1] < 90
            or sample.gpus[index][2] > 1.5 * last.gpus[index][2]
        ):
            break
        first = sample
    return first


def unread(sources: Sequence[Source]) -> list[Told]:
    """The hosts that have read nothing from disk for long; empty unless that is so on every measured host."""
    found, measured = [], 0
    for one, samples in _series(sources):
        measured += 1
        last = samples[-1]
        still = [sample for sample in samples if last.read - sample.read < _READ]
        if last.at - still[0].at >= STILL:
            words = f"{last.read - still[0].read} bytes read from disk in {last.at - still[0].at:.0f} s"
            found.append(Told(one, words, last.line, last.text))
    return found if len(found) == measured else []


def tight(sources: Sequence[Source]) -> list[Told]:
    """The hosts whose memory was at its end, the tightest first."""
    found = []
    for one, samples in _series(sources):
        least = min(samples, key=lambda sample: sample.available)
        if least.available < min(TIGHT, least.total // 50):
            words = (
                f"{least.available / GIB:.1f} of {least.total / GIB:.1f} GiB of memory available at its least"
            )
            found.append((least.available, Told(one, words, least.line, least.text)))
    return [told for _, told in sorted(found, key=lambda pair: pair[0])]


def told_with(told: Explanation, sources: Sequence[Source], *, weights: bool) -> Explanation:
    """The explanation with what the samples among ``sources`` add. ``weights``: the log's last word is that
    weights are being loaded."""
    if told.status == "failed" and told.findings:
        return _memory(told, sources)
    if told.status not in ("loading", "ok", "stalled") or any(
        one.kind != "hang-timeout" for one in told.findings
    ):
        return told
    found = spinning(sources)
    if found:
        cause = f"{_hosts(found)}: the GPU waits in a loop and does no work; another rank does not come, or is stuck."
        return _stalled(told, cause, found)
    found = unread(sources) if weights and told.status == "loading" else []
    if found:
        return _stalled(told, f"The load of the weights stands still. {_hosts(found)}.", found)
    return told


def _hosts(found: Sequence[Told]) -> str:
    return "; ".join(f"{one.source.host}: {one.words}" for one in found)


def _evidence(found: Sequence[Told]) -> tuple[Evidence, ...]:
    return tuple(Evidence(one.source.name, one.line, one.text) for one in found)


_STACKS = Fix(
    "See what each rank waits in: take the Python stacks (`spark-cockpit explain PROFILE --stacks`), and look at the "
    "log of the host whose GPU or disk is idle; then end the run and launch again."
)


def _stalled(told: Explanation, cause: str, found: Sequence[Told]) -> Explanation:
    if told.findings:
        first = told.findings[0]
        first = replace(first, cause=f"{first.cause} {cause}", evidence=(*first.evidence, *_evidence(found)))
        return replace(told, findings=(first, *told.findings[1:]))
    finding = Finding(
        "hang-timeout",
        Severity.ERROR,
        cause,
        Confidence.LIKELY,
        found[0].source.host,
        (_STACKS,),
        _evidence(found),
    )
    return Explanation("stalled", (finding,), told.next)


def _memory(told: Explanation, sources: Sequence[Source]) -> Explanation:
    """A death without a word of its own, on a host whose memory was at its end."""
    first, found = told.findings[0], tight(sources)
    silent = (
        first.kind in ("crash-engine-core", "ray-membership") and first.confidence is not Confidence.CERTAIN
    )
    if not found or not silent:
        return told
    where = next((one for one in found if one.source.host == first.host), found[0])
    host = where.source.host
    finding = replace(
        first,
        kind="oom-unified-memory",
        cause=f"{host} ran out of memory: {where.words}. {first.cause}",
        confidence=Confidence.LIKELY,
        host=host,
        fix=(
            Fix(
                f"Leave more room on {host}: lower --gpu-memory-utilization, --max-model-len or --max-num-seqs, end what "
                "else holds memory there, and drop the page cache before the launch."
            ),
            *first.fix,
        ),
        evidence=(*first.evidence, *_evidence([where])),
    )
    return replace(told, findings=(finding, *told.findings[1:]))
