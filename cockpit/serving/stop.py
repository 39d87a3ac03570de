"""Stopping a run, and seeing that nothing of it is left on any host.

Before a serve is ready SIGTERM leaves its API server hanging (0.24.0), and a wait for a placement group
survives even SIGINT (0.32.0): so SIGINT to the group, 15 seconds, SIGKILL.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from cockpit.model.command import Command
from cockpit.model.profile import DockerRuntime, HostSpec, Profile
from cockpit.runtime import detached
from cockpit.runtime.containers import LABEL
from cockpit.runtime.prelude import heredoc
from cockpit.runtime.runtime import Runtime
from cockpit.runtime.script_text import script_text
from cockpit.serving.launch import CURRENT

GRACE = 15.0
"""Seconds between SIGINT and SIGKILL."""

RELEASE = 10.0
"""Seconds a host has for giving back GPUs and ports; measured: 3 on two H200s."""


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What a run has left on a host. ``gpu`` and ``processes`` are ours, in words; ``gpu_of_others`` are
    compute processes that aren't, or can't be told to be; ``shm`` are files of /dev/shm that our processes
    held and nobody holds now."""

    gpu: tuple[str, ...] = ()
    gpu_of_others: tuple[str, ...] = ()
    processes: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    shm: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether nothing of ours is left that keeps a GPU, a port or memory."""
        return not (self.gpu or self.processes or self.ports or self.shm)

    def words(self) -> str:
        """What is left, in a sentence's end."""
        parts = [f"on the GPU {entry}" for entry in self.gpu]
        parts += [f"process {entry}" for entry in self.processes]
        parts += [f"port {port} in use" for port in self.ports]
        parts += [f"shared memory {path}" for path in self.shm]
        return ", ".join(parts) or "nothing"


def note_command(profile: Profile, runtime: Runtime, host: HostSpec) -> Command:
    """Before the stop, on every host: write down which shared memory the run holds."""
    return _script(profile, runtime, host, "note", (), "note what shared memory the run holds")


def stop_command(profile: Profile, runtime: Runtime) -> Command:
    """On the head: end the run that runs; status 0 when nothing of it is left there."""
    return runtime.script(
        profile.head,
        f'if [ ! -e "$STATE/{CURRENT}" ]; then echo "no run"; exit 0; fi\n'
        + detached.stop(CURRENT, signal="INT", grace=GRACE),
        "stop the run",
        limit=GRACE + 20,
    )


def release_command(profile: Profile, runtime: Runtime, host: HostSpec) -> Command:
    """After the stop, on every host: remove the shared memory that the run held and nobody holds now."""
    word, body = heredoc(script_text("cockpit.serving.scripts", "release"))
    text = f'python3 - "$STATE" {word}\n{body}'
    return runtime.script(host, text, "give back the run's shared memory", limit=30)


def verify_command(profile: Profile, runtime: Runtime, host: HostSpec, ports: Sequence[int] = ()) -> Command:
    """After the stop, on every host: see that GPU, processes and ``ports`` are free, waiting ``RELEASE``
    seconds for it; ``parse_leftovers`` reads the answer."""
    return _script(profile, runtime, host, "verify", ports, "see that nothing of the run is left")


def parse_leftovers(output: bytes) -> Leftovers:
    """Read the answer of ``verify_command``; raises ``ValueError`` on anything else."""
    lines = output.decode("utf-8", "replace").strip().splitlines()
    left = json.loads(lines[-1]) if lines else None
    if not isinstance(left, dict):
        raise ValueError(f"not a list of leftovers: {output[:200]!r}")
    return Leftovers(
        gpu=tuple(_gpu(row) for row in left["gpu"]),
        gpu_of_others=tuple(_gpu(row) for row in left["gpu_of_others"]),
        processes=tuple(f"{row['pid']} {row['name']}" for row in left["processes"]),
        ports=tuple(left["ports"]),
        shm=tuple(left["shm"]),
    )


def _gpu(row: dict[str, object]) -> str:
    return f"{row['pid']} {row['name']} ({row['used']} MiB)"


def _script(
    profile: Profile, runtime: Runtime, host: HostSpec, mode: str, ports: Sequence[int], why: str
) -> Command:
    word, body = heredoc(script_text("cockpit.serving.scripts", "leftovers"))
    asked = json.dumps({"mode": mode, "ports": list(ports), "wait": RELEASE})[:-1]
    find = ""
    if isinstance(profile.runtime, DockerRuntime):
        label = shlex.quote(f"label={LABEL}={profile.name}")
        find = f"CONTAINER=$(docker ps -q --no-trunc --filter {label})\n"
    text = (
        f"CONTAINER=\n{find}"
        f"ASKED={shlex.quote(asked)}\n"
        'python3 - "$ASKED, \\"state\\": \\"$STATE\\", \\"container\\": \\"$CONTAINER\\"}" ' + f"{word}\n{body}"
    )
    return runtime.host_script(host, text, why, limit=RELEASE + 30)
