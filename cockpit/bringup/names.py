"""The steps' names and states, and how a run through them ends: words that need nothing else."""

from __future__ import annotations

from enum import StrEnum


class StepName(StrEnum):
    """The steps of the bring-up, in order."""

    CONNECT = "connect"
    PREFLIGHT = "preflight"
    CONTAINERS = "containers"
    RAY_HEAD = "ray-head"
    RAY_WORKERS = "ray-workers"
    MEMBERSHIP = "membership"
    FLAGS = "flags"
    LAUNCH = "launch"
    LOAD = "load"
    PROMPT = "prompt"


class StepState(StrEnum):
    """Where a step stands."""

    WAITING = "waiting"
    READY_TO_RUN = "ready-to-run"
    RUNNING = "running"
    DONE = "done"
    NOT_NEEDED = "not-needed"
    FAILED = "failed"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class Outcome(StrEnum):
    """How ``up`` or ``down`` ended."""

    READY = "ready"
    FAILED = "failed"
    STALLED = "stalled"
    TIMEOUT = "timeout"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    DETACHED = "detached"
    DOWN = "down"
