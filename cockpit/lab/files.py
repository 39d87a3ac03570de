"""What a lab writes down: keys, ssh_config, known_hosts, the hosts' folders, and the profile."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

from cockpit.lab.plan import HOSTS, Plan

_STAND_IN = """\
#!/bin/sh
# Spark Cockpit's lab: a stand-in for nvidia-smi. No NVIDIA GPU or driver is here.
PYTHONPATH={root} exec {python} -S -m cockpit.lab.nvidia_smi {folder} "$@"
"""


def user() -> str:
    """The name of the user the lab runs as."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return "lab"


def host_folder(home: Path, name: str) -> Path:
    """The folder of the host called ``name``."""
    return home / "hosts" / name


def write_keys(home: Path) -> None:
    """Make the lab's key and the hosts' keys, where there are none yet."""
    key = _key(home / "id_ed25519")
    for name in HOSTS:
        folder = host_folder(home, name)
        folder.mkdir(parents=True, exist_ok=True)
        _key(folder / "host_key")
        (folder / "authorized_keys").write_text(key)


def _key(path: Path) -> str:
    """The public half, as a line, of the ed25519 key in ``path``, made where there is none."""
    import asyncssh

    public = path.with_name(f"{path.name}.pub")
    if not (path.exists() and public.exists()):
        key = asyncssh.generate_private_key("ssh-ed25519", comment="spark-cockpit-lab")
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(key.export_private_key())
        public.write_bytes(key.export_public_key())
    return public.read_text()


def write_hosts(home: Path, plan: Plan) -> None:
    """Write each host's settings and home, with the nvidia-smi stand-in in its ``bin``."""
    import cockpit

    root = Path(cockpit.__file__).parents[1]
    for name, address in zip(HOSTS, plan.addresses, strict=True):
        folder = host_folder(home, name)
        (folder / "home" / "bin").mkdir(parents=True, exist_ok=True)
        tool = folder / "home" / "bin" / "nvidia-smi"
        words = {"root": str(root), "python": sys.executable, "folder": str(folder)}
        tool.write_text(_STAND_IN.format(**{key: shlex.quote(word) for key, word in words.items()}))
        tool.chmod(0o755)
        scratch = plan.scratch / name[-1]
        scratch.mkdir(exist_ok=True)
        settings = {"name": name, "address": address, "port": plan.ssh, "user": user()}
        env = {"TMPDIR": str(scratch)}
        (folder / "server.json").write_text(json.dumps({**settings, "env": env}, indent=1) + "\n")


def write_ssh(home: Path, plan: Plan) -> Path:
    """Write known_hosts and ssh_config, for OpenSSH as for the cockpit; the value is ssh_config's path."""
    lines = []
    for name, address in zip(HOSTS, plan.addresses, strict=True):
        key = " ".join((host_folder(home, name) / "host_key.pub").read_text().split()[:2])
        lines.append(f"[{address}]:{plan.ssh} {key}\n")
    (home / "known_hosts").write_text("".join(lines))
    config = home / "ssh_config"
    config.write_text(
        "\n".join(
            _stanza(home, plan, name, address) for name, address in zip(HOSTS, plan.addresses, strict=True)
        )
    )
    return config


def _stanza(home: Path, plan: Plan, name: str, address: str) -> str:
    def path(file: str) -> str:
        return '"' + str(home / file).replace("%", "%%") + '"'

    return (
        f"Host {name}\n"
        f"  HostName {address}\n"
        f"  Port {plan.ssh}\n"
        f"  User {user()}\n"
        f"  IdentityFile {path('id_ed25519')}\n"
        "  IdentitiesOnly yes\n"
        f"  UserKnownHostsFile {path('known_hosts')}\n"
        "  StrictHostKeyChecking yes\n"
    )


def profile(home: Path, plan: Plan, name: str, venv: Path, model: Path) -> dict[str, Any]:
    """The profile as data, in the order it is written."""
    return {
        "name": name,
        "description": "The lab: two hosts on this machine, real SSH, Ray and vLLM, a tiny random model",
        "ssh": {"config": str(home / "ssh_config")},
        "hosts": [
            {
                "name": host,
                "address": host,
                "role": role,
                "fabric": {"address": address, "interface": "lo"},
            }
            for host, role, address in zip(HOSTS, ("head", "worker"), plan.addresses, strict=True)
        ],
        "runtime": {"kind": "native", "venv": str(venv), "env": dict(_RUNTIME_ENV)},
        "ray": {
            "port": plan.ray,
            "dashboard_port": plan.dashboard,
            "flags": dict(_RAY_FLAGS),
        },
        "serve": {
            "model": str(model),
            "served_name": "tiny",
            "flags": {
                "host": plan.addresses[0],
                "port": plan.api,
                "tensor-parallel-size": 2,
                "distributed-executor-backend": "ray",
                "max-model-len": 512,
                "max-num-seqs": 4,
                "enforce-eager": True,
            },
            "ready_within": 600,
        },
        "prompt": {"text": "Good morning, Spark.", "max_tokens": 32, "temperature": 0.0},
    }


_RUNTIME_ENV = {
    # Both hosts' workers, the engine and the server share this machine's cores.
    "OMP_NUM_THREADS": "1",
    # With TP vLLM 0.32.0 compiles a part of the embedding at the first request, even with enforce-eager; without a
    # C++ compiler on the machine the engine dies of it.
    "TORCH_COMPILE_DISABLE": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
}
_RAY_FLAGS = {"num-gpus": 1, "num-cpus": 2, "object-store-memory": 100_000_000}


def write_profile(home: Path, data: dict[str, Any]) -> Path:
    """Write the profile; the value is its path."""
    import yaml

    path = home / "profile.yaml"
    text = "# Written by `spark-cockpit lab up`, anew each time.\n" + yaml.safe_dump(
        data, sort_keys=False, width=110
    )
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.replace(path)
    return path
