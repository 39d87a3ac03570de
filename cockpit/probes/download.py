"""How a model of the hub is downloaded to where the runtime reads it, as commands for the operator."""

from __future__ import annotations

import shlex
import tomllib
from functools import cache
from importlib.resources import files

from cockpit.model.profile import NativeRuntime
from cockpit.probes.answers import ModelFacts
from cockpit.probes.asked import Asked

_HF = "~/.spark-cockpit-hf"
"""A virtual environment of its own: Ubuntu 24.04 lets pip install nothing beside it (PEP 668)."""

TOKEN = "HF_TOKEN"


@cache
def _sizes() -> dict[str, int]:
    text = (files("cockpit.probes") / "data" / "model_sizes.toml").read_text(encoding="utf-8")
    return {str(name): int(size) for name, size in tomllib.loads(text).items()}


def expected_bytes(asked: Asked, found: ModelFacts) -> int:
    """What the weights will take on disk: by the index that is there already, else as a shipped profile's model is
    known; 0 where neither says."""
    return found.expected or _sizes().get(asked.profile.serve.model, 0)


def download(asked: Asked, name: str, found: ModelFacts) -> str:
    """The command on host ``name``, and in words what it needs."""
    cache_ = host_path(asked, found.path.partition("/models--")[0])
    words = ["download", shlex.quote(asked.profile.serve.model)]
    revision = asked.profile.serve.flags.get("revision")
    if isinstance(revision, str) and revision:
        words += ["--revision", shlex.quote(revision)]
    words += ["--cache-dir", word(cache_)]
    runtime = asked.profile.runtime
    if isinstance(runtime, NativeRuntime):
        command = f"{word(runtime.venv)}/bin/hf {' '.join(words)}"
    else:
        install = f"python3 -m venv {_HF} && {_HF}/bin/pip install -q huggingface_hub"
        command = f"{install} && {_HF}/bin/hf {' '.join(words)}"
    return f"On {name}: {command}  ({'; '.join(_needs(asked, name, found, cache_))})"


def _needs(asked: Asked, name: str, found: ModelFacts, folder: str) -> list[str]:
    size, needs = expected_bytes(asked, found) - found.bytes, []
    if size > 0:
        free = asked.machines[name].free_at(folder) if name in asked.machines else None
        told = f", {free / 1e9:.0f} GB are free" if free is not None else ""
        needs.append(f"about {size / 1e9:.0f} GB are to come{told}")
    needs.append("it can be ended and run again, and goes on")
    if TOKEN in asked.profile.serve.secrets:
        needs.append(f"with {TOKEN} exported there")
    else:
        needs.append(f"for a gated model, with its licence accepted and {TOKEN} exported there")
    return needs


def word(path: str) -> str:
    """A path as a word of sh that still finds the home folder."""
    return f"~/{shlex.quote(path[2:])}" if path.startswith("~/") else shlex.quote(path)


def host_path(asked: Asked, path: str) -> str:
    """The path on the host of what a container sees at ``path``."""
    source, target = mounted(asked, path) or ("", "")
    return source + path[len(target) :]


def mounted(asked: Asked, path: str) -> tuple[str, str] | None:
    """Source and target of the mount that holds ``path`` of the container."""
    for mount in asked.docker.mounts if asked.docker else ():
        source, target = (one.rstrip("/") for one in mount.split(":")[:2])
        if path == target or path.startswith(target + "/"):
            return source, target
    return None
