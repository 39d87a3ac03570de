"""Profiles for the rig, as an operator would write them."""

from __future__ import annotations

import resource
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import yaml

from tests.rig.host import Host
from tests.rig.layout import FABRIC
from tests.rig.models import NAME
from tests.rig.rig import Rig

QUIET = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "RAY_USAGE_STATS_ENABLED": "0"}
CPU = {"VLLM_CPU_KVCACHE_SPACE": "1", "TORCH_COMPILE_DISABLE": "1"}
"""For each rank of the CPU build: GiB of KV cache, and no compilation. Over TP vLLM 0.32.0 compiles a part of
the embedding (``layers/vocab_parallel_embedding.py``) even with enforce-eager, at the first request; that
needs a C++ compiler, and without one, as in the rig's image, the engine dies of the request."""


def rig_profile(
    rig: Rig,
    folder: Path,
    *,
    runtime: Literal["docker", "native"] = "docker",
    name: str = "rig",
    hosts: Sequence[str] = (),
    flags: Mapping[str, object] | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Path:
    """Write ``folder/NAME.yaml`` for TP over the rig's ``hosts`` (default: all, the first is the head).

    ``flags`` are put over the default flags of the serve; one that is None is left out. ``changes`` are put
    over the profile's top-level keys, mappings merged one level deep.
    """
    chosen = [rig.hosts[each] for each in hosts] or list(rig.hosts.values())
    serve_flags: dict[str, object] = {
        "tensor-parallel-size": len(chosen),
        "distributed-executor-backend": "ray" if len(chosen) > 1 else None,
        "max-model-len": 512,
        "max-num-seqs": 4,
        "enforce-eager": True,
        **(flags or {}),
    }
    profile: dict[str, Any] = {
        "name": name,
        "ssh": {"config": str(rig.ssh_config)},
        "hosts": hosts_of(chosen),
        "runtime": runtime_of(rig, runtime),
        "ray": {
            "flags": {"num-gpus": 1, "num-cpus": 2, "object-store-memory": 100_000_000},
            "env": {"RAY_USAGE_STATS_ENABLED": "0", **CPU},
        },
        "serve": {
            "model": f"/models/{NAME}",
            "served_name": NAME,
            "flags": {flag: value for flag, value in serve_flags.items() if value is not None},
            "env": {**CPU, **{key: value for key, value in QUIET.items() if not key.startswith("RAY_")}},
            "ready_within": 300,
        },
        "prompt": {"text": "Say something.", "max_tokens": 16},
    }
    for key, value in (changes or {}).items():
        merged = isinstance(value, Mapping) and isinstance(profile.get(key), dict)
        profile[key] = {**profile[key], **value} if merged else value
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(profile, sort_keys=False))
    return path


def hosts_of(hosts: Iterable[Host]) -> list[dict[str, object]]:
    """The profile's hosts, reached by their names; the first is the head."""
    return [
        {
            "name": host.name,
            "address": host.name,
            "role": "worker" if index else "head",
            "fabric": {"address": host.fabric, "interface": FABRIC},
        }
        for index, host in enumerate(hosts)
    ]


def plain_text(rig: Rig, name: str, **sections: object) -> str:
    """A profile of all the rig's hosts with nothing to run, native where ``sections`` say nothing else, as text."""
    text = {
        **{"name": name, "ssh": {"config": str(rig.ssh_config)}, "hosts": hosts_of(rig.hosts.values())},
        **{"runtime": {"kind": "native", "venv": "/opt/none"}, "serve": {"model": "/models/none"}},
        **sections,
    }
    return yaml.safe_dump(text, sort_keys=False)


def runtime_of(rig: Rig, kind: Literal["docker", "native"]) -> dict[str, object]:
    """The profile's runtime section; the environment lies at the same path in containers and on the hosts."""
    if rig.environment is None:
        raise ValueError("This rig has no environment with vLLM.")
    if kind == "native":
        return {"kind": "native", "venv": str(rig.environment.venv)}
    # An engine that may not raise limits, as in an unprivileged machine, refuses the cockpit's own.
    limits = [
        f"--ulimit={name}={resource.getrlimit(number)[1]}"
        for name, number in (("memlock", resource.RLIMIT_MEMLOCK), ("nofile", resource.RLIMIT_NOFILE))
    ]
    return {"kind": "docker", "image": rig.image, "mounts": list(rig.mounts), "run_flags": limits}
