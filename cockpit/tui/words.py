"""Figures and states in words, the same everywhere on the screen."""

from __future__ import annotations

from typing import Final

from cockpit.bringup.names import StepState
from cockpit.model.progress import Phase

GIB: Final = 1024**3

MARKS: Final[dict[StepState | None, str]] = {
    None: "·",
    StepState.DONE: "✓",
    StepState.NOT_NEEDED: "–",
    StepState.FAILED: "✗",
    StepState.REFUSED: "✗",
    StepState.UNKNOWN: "?",
    StepState.WAITING: "○",
    StepState.READY_TO_RUN: "▷",
    StepState.RUNNING: "◐",
}

COLOURS: Final[dict[StepState | None, str]] = {
    None: "$muted",
    StepState.DONE: "$text-success",
    StepState.NOT_NEEDED: "$muted",
    StepState.FAILED: "$text-error",
    StepState.REFUSED: "$text-error",
    StepState.UNKNOWN: "$text-warning",
    StepState.WAITING: "$muted",
    StepState.READY_TO_RUN: "$text-primary",
    StepState.RUNNING: "$text-accent",
}

STATE_WORDS: Final[dict[StepState | None, str]] = {
    None: "not asked yet",
    StepState.DONE: "done",
    StepState.NOT_NEEDED: "not needed",
    StepState.FAILED: "failed",
    StepState.REFUSED: "refused",
    StepState.UNKNOWN: "unknown",
    StepState.WAITING: "waiting",
    StepState.READY_TO_RUN: "can run",
    StepState.RUNNING: "running",
}

PHASES: Final = {
    Phase.STARTING: "starting",
    Phase.CONFIG: "reading the configuration",
    Phase.RAY: "connecting to Ray",
    Phase.PLACEMENT: "placing workers",
    Phase.WORKERS: "starting workers",
    Phase.NCCL: "NCCL",
    Phase.WEIGHTS: "weights",
    Phase.PROFILING: "profiling",
    Phase.COMPILE: "compiling",
    Phase.KV_CACHE: "KV cache",
    Phase.GRAPHS: "CUDA graphs",
    Phase.API: "API starting",
    Phase.READY: "ready",
}


def gib(size: float, digits: int = 1) -> str:
    """Bytes as GiB, without the unit."""
    return f"{size / GIB:.{digits}f}"


def size(amount: float) -> str:
    """Bytes with a fitting binary unit."""
    for unit in ("B", "KiB", "MiB"):
        if abs(amount) < 1023.5:
            return f"{amount:.0f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"


def rate(amount: float) -> str:
    """Bytes a second with a fitting decimal unit."""
    for unit in ("B/s", "kB/s", "MB/s"):
        if abs(amount) < 999.5:
            return f"{amount:.0f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB/s"


def span(seconds: float) -> str:
    """A length of time: ``0.1 s``, ``42 s``, ``3 min 12 s``, ``2 h 05 min``, ``3 d 4 h``."""
    if seconds < 9.95:
        return f"{max(0.0, seconds):.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def coarse(seconds: float) -> str:
    """A length of time in whole seconds: for what ticks once a second."""
    return f"{round(max(0.0, seconds))} s" if seconds < 60 else span(seconds)


def about(seconds: float) -> str:
    """An estimate of a length of time: coarser the longer it is."""
    if seconds < 10:
        return f"{max(1, round(seconds))} s"
    if seconds < 90:
        return f"{round(seconds / 5) * 5} s"
    return f"{round(seconds / 60)} min"


def run_name(run: str) -> str:
    """A run's id, shortened to the part that tells it from others; remote text."""
    return run.rpartition("-")[2]


def plural(count: int, word: str) -> str:
    """``1 GPU``, ``2 GPUs``."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
