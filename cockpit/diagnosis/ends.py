"""What a launch without a fault in its log is: up, loading, waiting for something, stopped, or unknown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from cockpit.diagnosis import findings
from cockpit.diagnosis.candidates import FAR, Attempt, Candidate, hints
from cockpit.diagnosis.reading import Hit, Reading
from cockpit.diagnosis.situation import Situation
from cockpit.diagnosis.sources import EXIT, FACTS, KERNEL, RAY_WORKER, RAYLET, STATUS
from cockpit.model.errors import inline
from cockpit.model.finding import Confidence, Evidence, Explanation, Finding, Fix, Severity

_GONE = re.compile(rb"no process|no such process|not running|exited \(|is gone", re.I)


def stalls(tried: list[Attempt], *, waiting: bool = True) -> Iterator[Hit]:
    """The stalls that nothing came after, the most telling first. ``waiting`` leaves out what needs to be
    seen more than once to be one."""
    found = [
        hit
        for one in tried
        for hit in one.hits
        if hit.signature.role == "stall" and (_last(hit, one) > one.progress or hit.signature.weight > 50)
    ]
    counts: dict[str, int] = {}
    for hit in found:
        counts[hit.signature.id] = counts.get(hit.signature.id, 0) + 1
    enough = [hit for hit in found if not waiting or counts[hit.signature.id] >= hit.signature.least]
    return iter(sorted(enough, key=lambda hit: (-hit.signature.weight, hit.source, hit.line)))


def _last(hit: Hit, one: Attempt) -> int:
    return max(other.line for other in one.hits if other.signature.id == hit.signature.id)


def without_fault(tried: list[Attempt], hosts: Mapping[str, str], facts: Situation) -> Explanation:
    """The explanation where no candidate speaks."""
    stopped = any(one.stop < FAR for one in tried if one.serves)
    stalled = next(stalls(tried), None)
    if stalled is not None:
        deeper = hints(tried, {stalled.signature.id, stalled.signature.kind})
        first, also = (deeper[0], stalled) if deeper else (stalled, None)
        found = findings.of_hit(first, tried, hosts, facts, also=also)
        return Explanation("stalled", (found,), stalled.signature.next)
    if stopped:
        return Explanation("stopped", _stops(tried, hosts, facts))
    killed = _killed(tried)
    if killed is not None:
        return Explanation("failed", (killed,), _ended_silently(tried))
    if gone(tried):
        deeper = hints(tried, {"silent"})
        if deeper:
            return Explanation("failed", (findings.of_hit(deeper[0], tried, hosts, facts),))
        return Explanation("unknown", next=_ended_silently(tried))
    serving = [one for one in tried if one.serves]
    if any(one.ready for one in serving):
        return Explanation("ok")
    names = {hit.signature.id for one in serving for hit in one.hits}
    if "ray-started" in names and not names & {"begin-args", "begin-v0", "fact-version"}:
        return Explanation("ok")
    if names:
        return Explanation("loading")
    return Explanation("unknown", next=collect(tried))


def _stops(tried: list[Attempt], hosts: Mapping[str, str], facts: Situation) -> tuple[Finding, ...]:
    """The line in which the first sign of a stop stands, as a note."""
    signs = [hit for one in tried if one.serves for hit in one.hits if hit.signature.role == "stop"]
    first = min(signs, key=lambda hit: (hit.head.time or "~", hit.source, hit.line))
    return (findings.of_hit(first, tried, hosts, facts, severity=Severity.NOTE),)


_LOADING = re.compile(
    r"Starting to load model|Loading model from scratch|checkpoint shards: +(?!100)\d+% Completed"
)


def loads_weights(readings: Sequence[Reading]) -> bool:
    """Whether the last progress that a log tells is that weights are being loaded."""
    for reading in readings:
        steps = [hit for hit in reading.hits if hit.signature.role in ("progress", "ready")]
        if steps and _LOADING.search(max(steps, key=lambda hit: hit.line).text):
            return True
    return False


_SIGNALS = {
    9: (
        "SIGKILL",
        "crash-engine-core",
        "The kernel's OOM killer ends a process so, and so does `kill -9`.",
        "Read the kernel's log of that time on this host: journalctl -k | grep -i 'killed process'",
    ),
    6: (
        "SIGABRT",
        "crash-engine-core",
        "Compiled code gave up: an assertion of a library, or memory that was not to be had.",
        "Look at the last lines of the log for `terminate called` or an assertion, and at the kernel's log of that time.",
    ),
    7: (
        "SIGBUS",
        "shm",
        "Shared memory was written to that is not there: /dev/shm is too small.",
        "Start the container with --ipc=host or --shm-size=16g; `df -h /dev/shm` inside shows its size.",
    ),
    11: (
        "SIGSEGV",
        "crash-engine-core",
        "Compiled code read memory that is not its own.",
        "The kernel's log names the library (journalctl -k | grep segfault); launch again with --enforce-eager.",
    ),
}
"""What a serve's end by a signal says that nothing of its log does: name, kind, words, what to do."""


def _killed(tried: list[Attempt]) -> Finding | None:
    """A serve that was ended by a signal says nothing itself: its exit status does (128 + the signal)."""
    for one in tried:
        source, status = one.reading.source, _status(one)
        told = _SIGNALS.get(-status if status < 0 else status - 128) if status is not None else None
        if told is not None:
            name, kind, words, step = told
            return Finding(
                kind,
                Severity.ERROR,
                f"vllm serve was ended by a signal ({name}) and could say nothing of it. {words}",
                Confidence.POSSIBLE,
                source.host or next((other.reading.source.host for other in tried if other.serves), ""),
                (Fix(step),),
                (Evidence(source.name, 1, bytes(source.data[:64]).decode("ascii", "replace").strip()),),
            )
    return None


def _status(one: Attempt) -> int | None:
    """The exit status that a source gives."""
    word = bytes(one.reading.source.data[:64]).strip()
    return int(word) if one.reading.source.role == EXIT and re.fullmatch(rb"-?\d{1,3}", word) else None


def gone(tried: list[Attempt]) -> bool:
    """Whether a note or an exit status says that the process is no more."""
    for one in tried:
        data = one.reading.source.data
        if one.reading.source.role == FACTS and _GONE.search(bytes(data[:65536])):
            return True
        if one.reading.source.role == EXIT and bytes(data[:64]).strip():
            return True
    return False


def _exit_status(tried: list[Attempt]) -> int | None:
    return next((status for status in map(_status, tried) if status is not None), None)


def _ended_silently(tried: list[Attempt]) -> tuple[str, ...]:
    status = _exit_status(tried)
    first = "The log ends without an error or a shutdown line, and the process is gone."
    if status in (137, 9):
        first = "The process was killed (exit status 137): the log can't say by whom; most often the kernel's OOM killer."
    return (
        first,
        "Kernel log of both hosts around that time: journalctl -k -b (after a reboot: journalctl -k -b -1); "
        "look for 'Out of memory', 'NVRM', 'Xid'.",
        "Whether a host was rebooted: uptime and last -x; memory over time from the cockpit's samples.",
        *_others(tried),
    )


def _others(tried: list[Attempt]) -> tuple[str, ...]:
    roles = {one.reading.source.role for one in tried}
    wanted = []
    if not roles & {RAY_WORKER, RAYLET}:
        wanted.append(
            "Ray's worker files on every node: /tmp/ray/session_latest/logs/worker-*.err and raylet.out."
        )
    if KERNEL not in roles:
        wanted.append("The kernel log (dmesg -T) of both hosts.")
    return tuple(wanted)


def no_log(readings: Sequence[Reading]) -> tuple[str, ...]:
    """Of each source in which nothing is known: what it is instead of a log."""
    words = []
    for reading in readings:
        source = reading.source
        if reading.hits or reading.blocks or source.role in (FACTS, EXIT, STATUS, KERNEL):
            continue
        head = bytes(source.data[:4096])
        if not head.strip():
            words.append(f"{source.name} is empty.")
        elif b"\0" in head or head.decode("utf-8", "replace").count("\ufffd") * 10 > len(head):
            words.append(f"{source.name} is no text, and so no log.")
        else:
            words.append(f"{inline(source.name)} has no line that is known of vLLM, Ray or a container tool.")
    return tuple(words)


def told_mixed(told: Explanation, readings: Sequence[Reading]) -> Explanation:
    """The explanation, where a log holds launches that run through each other: what ended one is no other's end."""
    words = tuple(
        f"{one.source.name} holds several launches at the same time ({one.mixed}): "
        "explain the log of each by itself to be sure."
        for one in readings
        if one.mixed
    )
    if not words:
        return told
    if told.status in ("ok", "stopped", "loading"):
        return Explanation("unknown", next=words)
    return replace(told, next=(*told.next, *words))


def _alone(tried: list[Attempt]) -> bool:
    """Whether the log says that there is but one rank."""
    worlds = {hit.parts.get("world") for one in tried for hit in one.hits if hit.signature.id == "fact-world"}
    return worlds == {"1"}


def collect(tried: list[Attempt]) -> tuple[str, ...]:
    """What to collect where these logs do not tell all."""
    if _alone(tried):
        return ("The kernel log (journalctl -k, or dmesg -T) of this host around that time.",)
    return ("The complete log of the other node (worker.log), from its first line.", *_others(tried))


def unknown(best: Candidate, tried: list[Attempt]) -> tuple[str, ...]:
    """What to collect when the log only says that something ended."""
    file = inline(best.reading.source.name)
    text = best.hit.text.strip() if best.hit else ""
    own = best.hit.signature.next if best.hit else ()
    line = best.reading.source.line_of(best.line)
    return (f"Not in this log: {file}, line {line} only says: {text[:200]}", *own, *collect(tried))
