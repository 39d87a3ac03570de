"""One probe a host: the commands that start it, and its lines as ``Sample``."""

from __future__ import annotations

import json
import math
import shlex
from functools import cache
from typing import Any

from cockpit.model.command import Command, script
from cockpit.model.errors import CockpitError
from cockpit.model.facts import Gpu, GpuProcess, Interface, Memory, Sample
from cockpit.model.profile import HostSpec
from cockpit.runtime.script_text import script_text

MIB = 1024 * 1024
LIMIT = 20.0
"""Seconds for one sample. The probe itself gives nvidia-smi five."""


class SampleError(CockpitError):
    """What the probe printed is no sample."""


def sample_command(host: HostSpec) -> Command:
    """One sample of ``host``: a single line for ``parse_sample``."""
    return script(host.name, _launcher("once"), "look at memory, GPU, network and disks", limit=LIMIT)


def stream_command(host: HostSpec) -> Command:
    """A sample a second, for ``Host.open``: lines for ``parse_sample`` until the stream is left."""
    return script(host.name, _launcher("stream"), "watch memory, GPU, network and disks", limit=LIMIT)


@cache
def _launcher(mode: str) -> str:
    text = script_text("cockpit.probes.scripts", "probe")
    return (
        'PATH="$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"\nexport PATH\n'
        "command -v python3 >/dev/null || {\n"
        '  echo "There is no python3 on this host; the probe is written in it: sudo apt install python3" >&2\n'
        "  exit 127\n}\n"
        f"exec python3 -I -S - {shlex.quote(mode)} <<'END_OF_PROBE'\n{text}END_OF_PROBE\n"
    )


def parse_sample(line: bytes) -> Sample:
    """The sample in one line of the probe; raises ``SampleError`` for anything else."""
    try:
        facts = json.loads(line)
        return _sample(facts)
    except (
        ValueError,
        KeyError,
        TypeError,
        IndexError,
        AttributeError,
        RecursionError,
        OverflowError,
    ) as error:
        shown = line[:80].decode("utf-8", "replace").strip()
        raise SampleError(
            f'The probe\'s answer is no sample ({type(error).__name__}): "{shown}".',
            remedy="Something on the host prints into the connection; see what `ssh HOST true` shows.",
        ) from error


def _sample(facts: dict[str, Any]) -> Sample:
    processes = facts["processes"]
    shares = tuple(
        GpuProcess(_whole(pid), _text(name), _bytes(used, MIB)) for pid, used, name in processes or ()
    )
    known = [share.used for share in shares if share.used is not None]
    memory = facts["memory"]
    return Sample(
        at=_real(facts["at"]),
        memory=Memory(
            total=_whole(memory["total"]),
            available=_whole(memory["available"]),
            page_cache=_whole(memory["page_cache"]),
            swap_total=_whole(memory["swap_total"]),
            swap_free=_whole(memory["swap_free"]),
            gpu_processes=None if processes is None or len(known) < len(shares) else sum(known),
            pressure=_maybe(facts["pressure"]),
        ),
        gpus=tuple(_gpu(row) for row in facts["gpus"]),
        processes=shares,
        interfaces=tuple(
            Interface(_text(name), _whole(received), _whole(sent))
            for name, received, sent in facts["interfaces"]
        ),
        disk_read=_whole(facts["disk_read"]),
        gpu_error=_text(facts["gpu_error"]),
    )


def _gpu(row: list[Any]) -> Gpu:
    index, total, used, utilisation, power, temperature, name = row
    return Gpu(
        index=_whole(index),
        name=_text(name),
        total=_bytes(total, MIB),
        used=_bytes(used, MIB),
        utilisation=_maybe(utilisation),
        power=_maybe(power),
        temperature=_maybe(temperature),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError("not a count")
    return value


def _real(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise TypeError("not a number")
    return float(value)


def _maybe(value: object) -> float | None:
    return None if value is None else _real(value)


def _bytes(value: object, unit: int) -> int | None:
    return None if value is None else round(_real(value) * unit)
