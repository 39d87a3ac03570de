"""What one broken launch is: what is wrong with it, and what is done to it while it runs."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

HEAD, WORKER = "head", "worker"
TINY = "@MODEL@"
"""Stands for the folder of the model as this breakage has it."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A signal to a process once ``after`` stands in the head's log. ``process`` is a name of vLLM's prefixes
    (its pid stands there), ``serve`` for ``vllm serve`` itself, or ``raylet`` and ``gcs_server`` of ``host``."""

    after: str
    process: str
    signal: signal.Signals = signal.SIGKILL
    host: str = HEAD


@dataclass(frozen=True, slots=True)
class Breakage:
    """One broken launch.

    ``over``: "" (one rank), "ray" (two ranks over two Ray nodes), "ray-one" (only the head's node is there),
    "ray-none" (no Ray runs), "mp" (two ranks, each with a ``vllm serve`` of its own), "mp-one" (only rank 0) or
    "join" (only ``ray start`` of the worker, to a head that is not there). ``model`` spoils a copy of the tiny
    model; with ``model_on`` only that host sees the copy, and the others the whole one. ``env`` is the serve's,
    ``host_env`` that of Ray (or of the rank) on a host. ``before`` is sh text that is run in front of the serve
    (of both ranks' processes with ``wrap_ray``) in a mount namespace of its own. ``until`` is what ends a launch
    that does not end by itself: a text in the head's log that has stood ``linger`` seconds, or the time alone.
    ``early``: it ends before there is an engine. ``request`` asks for an answer once the server is up.
    """

    name: str
    what: str
    over: str = ""
    flags: tuple[str, ...] = ()
    model_arg: str = TINY
    env: Mapping[str, str] = field(default_factory=dict)
    host_env: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    model: Callable[[Path], None] | None = None
    model_on: str = ""
    before: str = ""
    before_on: str = HEAD
    hits: tuple[Hit, ...] = ()
    until: str = ""
    linger: float = 3.0
    limit: float = 400.0
    busy_port: int = 0
    request: bool = False
    eager: bool = True
    ray_defaults: bool = False
    ray_version: str = ""
    early: bool = False
