"""How far a load is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Phase(StrEnum):
    """The phases of a load, in order: vLLM compiles while it profiles, and captures graphs when the KV cache
    stands (0.24.0, 0.32.0)."""

    STARTING = "starting"
    CONFIG = "config"
    RAY = "ray"
    PLACEMENT = "placement"
    WORKERS = "workers"
    NCCL = "nccl"
    WEIGHTS = "weights"
    PROFILING = "profiling"
    COMPILE = "compile"
    KV_CACHE = "kv-cache"
    GRAPHS = "graphs"
    API = "api"
    READY = "ready"


ORDER: Final = {phase: at for at, phase in enumerate(Phase)}
"""A phase's place in the order of a load."""


@dataclass(frozen=True, slots=True)
class Progress:
    """One step forward of one rank, read from the serve log.

    ``rank`` is None where the line speaks for the whole engine. ``done`` of ``total`` are in ``unit``
    (``shards``, ``graphs``, ``bytes``). ``ip`` is the rank's address as the log gives it, "" for the head.
    ``line`` is the line of the serve log, counted by ``\\n`` from 1. ``detail`` holds the line's own figures
    in words ("took 17.9 s").
    """

    phase: Phase
    line: int
    rank: int | None = None
    ip: str = ""
    done: int | None = None
    total: int | None = None
    unit: str = ""
    detail: str = ""
