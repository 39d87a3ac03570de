"""The environment as the running processes have it, compared with what the profile would give them now."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cockpit.model.command import Command
from cockpit.model.profile import HostSpec
from cockpit.model.verdict import Grade, Verdict
from cockpit.runtime.prelude import STATE_PATH, heredoc
from cockpit.runtime.runtime import Runtime
from cockpit.runtime.script_text import script_text

_SECRET = re.compile(r"TOKEN|KEY|SECRET|PASSW", re.IGNORECASE)
_NETWORK = re.compile(r"^(NCCL|GLOO|UCX|OMPI|TP|MN)_|^(VLLM_HOST_IP|MASTER_ADDR)$")
"""What decides whether the ranks find each other."""


@dataclass(frozen=True, slots=True)
class Inside:
    """A process: its kind (``raylet`` or ``serve``), its id inside the environment, and the variables asked about;
    None where it hasn't one."""

    kind: str
    pid: int
    values: Mapping[str, str | None]


def comparable(expected: Mapping[str, str]) -> dict[str, str]:
    """The variables whose values can be compared: a path of the state folder is known to the host alone."""
    return {name: value for name, value in expected.items() if not value.startswith(STATE_PATH)}


def inside_command(runtime: Runtime, host: HostSpec, names: Iterable[str]) -> Command:
    """The question, asked where the processes run; status 97 where no container of ours does."""
    word, body = heredoc(script_text("cockpit.probes.scripts", "inside_facts"))
    asked = shlex.quote(json.dumps({"names": sorted(names)})[:-1])
    text = f'exec python3 -I -S - {asked}", \\"state\\": \\"$STATE\\"}}" {word}\n{body}'
    return runtime.script(host, text, "see the environment of what runs", limit=20)


def parse_inside(output: bytes) -> tuple[Inside, ...]:
    """The answer; raises ``ValueError`` on anything else."""
    try:
        told = json.loads(output.decode("utf-8", "replace").strip().splitlines()[-1])
        return tuple(
            Inside(
                str(row["kind"]),
                int(row["pid"]),
                {str(name): None if value is None else str(value) for name, value in row["values"].items()},
            )
            for row in told["processes"]
        )
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"not an environment ({error!r}): {output[:120]!r}") from error


def inside(word: str, host: str, expected: Mapping[str, str], seen: Iterable[Inside]) -> Iterable[Verdict]:
    """One verdict for each process; nothing where nothing runs. ``word`` is the profile's on a command line."""
    for process in seen:
        # Ray is started without the address of itself.
        left_out = "RAY_ADDRESS" if process.kind == "raylet" else ""
        differing = {name: process.values.get(name) for name in expected if name != left_out}
        differing = {name: value for name, value in differing.items() if value != expected[name]}
        told = f"{process.kind} ({process.pid})"
        if not differing:
            yield Verdict("inside", (host,), Grade.READY, f"{told} has the environment of the profile.")
            continue
        lines = [_line(name, value, expected[name]) for name, value in sorted(differing.items())]
        grade = Grade.BLOCKED if any(_NETWORK.match(name) for name in differing) else Grade.SLOW
        observed = f"{told} runs with another environment than the profile's: {'; '.join(lines)}."
        why = "What runs keeps the environment that it was started with; every rank inherits Ray's."
        yield Verdict("inside", (host,), grade, observed, why, f"spark-cockpit down {word} ; then up again")


def _line(name: str, there: str | None, wanted: str) -> str:
    if _SECRET.search(name):
        return f"{name} is another"
    return f"{name} is {'not set' if there is None else there}, and {wanted} in the profile"
