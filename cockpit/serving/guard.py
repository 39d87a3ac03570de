"""The memory guard: on each host a small loop beside the ranks, which ends them before the host runs out.

A host whose memory is used up answers no SSH any more, so nobody outside can help it. The guard is the
detached unit ``$STATE/guard``, started on every host with the run, and ends with it. It runs where the ranks
run: in a container /proc/meminfo and /proc/pressure are the host's.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from cockpit.model.command import Command
from cockpit.model.profile import GuardWhile, HostSpec, Profile
from cockpit.runtime import detached
from cockpit.runtime.prelude import heredoc
from cockpit.runtime.runtime import Runtime
from cockpit.runtime.script_text import script_text

FOLDER = "guard"
"""The guard's unit, below ``$STATE``."""

STALE = 30.0
"""Seconds. A guard that watches writes every five."""

_ANY = ("", "0.0.0.0", "::", "localhost")


@dataclass(frozen=True, slots=True)
class GuardSeen:
    """How a host's guard stands. ``state`` is ``watching``, ``stopped`` (it ended the ranks), ``ended``, or
    ``unknown`` where it watched and has not been heard of for ``STALE`` seconds. Memory in bytes; ``stalled``
    is PSI's full avg10 in per cent; ``at`` in seconds since the epoch."""

    state: str
    reason: str
    at: float
    run: str
    reserve: int
    available: int
    lowest: int
    stalled: float

    @property
    def low(self) -> bool:
        """Whether it has seen less than twice the reserve: time to look."""
        return self.lowest < 2 * self.reserve

    def to_json(self) -> dict[str, Any]:
        """For ``status --json``."""
        return {
            "state": self.state,
            "reason": self.reason,
            "at": self.at,
            "reserve": self.reserve,
            "available": self.available,
            "lowest": self.lowest,
            "stalled": self.stalled,
        }


def guard_text(profile: Profile, host: HostSpec, run: str = "") -> str:
    """sh text that starts the guard of ``host`` in its environment, in the place of an earlier run's; with the
    guard off it only ends the earlier one. ``run`` is the run's folder below ``$STATE``, on the head."""
    stop = (
        f"(\n{detached.stop(FOLDER, signal='TERM', grace=2)}) >/dev/null\n"
        f'rm -f "$STATE/{FOLDER}/log" "$STATE/{FOLDER}/guard.json"\n'
    )
    if profile.serve.guard.during is GuardWhile.OFF:
        return stop
    word, body = heredoc(script_text("cockpit.serving.scripts", "guard"))
    # The program is read from its file: what runs detached has no standard input.
    line = 'exec python3 -I -S "$SPARK_COCKPIT_UNIT/guard.py" "$1"'
    argv = ("sh", "-c", line, "guard", json.dumps(_asked(profile, host, run)))
    return (
        f'{stop}mkdir -p "$STATE/{FOLDER}"\ncat >"$STATE/{FOLDER}/guard.py" {word}\n{body}'
        f"(\n{detached.start(FOLDER, argv)})\n"
    )


def _asked(profile: Profile, host: HostSpec, run: str) -> dict[str, object]:
    guard, head = profile.serve.guard, host == profile.head
    declared = str(profile.serve.flags.get("host") or "")
    other = "127.0.0.1" if head else profile.head.cluster_address
    return {
        "host": host.name,
        "run": run,
        "reserve": guard.reserve,
        "serving": guard.during is GuardWhile.SERVING,
        "health": [other if declared in _ANY else declared, profile.serve.port],
        "wait": profile.serve.ready_within,
    }


def guard_command(profile: Profile, runtime: Runtime, host: HostSpec) -> Command:
    """On a worker, before the launch: start its guard."""
    off = profile.serve.guard.during is GuardWhile.OFF
    why = "end an earlier run's memory guard" if off else "start the memory guard"
    return runtime.script(host, guard_text(profile, host), why, limit=40)


def guard_stop_command(profile: Profile, runtime: Runtime, host: HostSpec) -> Command:
    """After the run's end, on every host: end the guard where it has not ended by itself."""
    text = detached.stop(FOLDER, signal="TERM", grace=2)
    return runtime.script(
        host,
        f'if [ ! -e "$STATE/{FOLDER}/pid" ]; then echo "no guard"; exit 0; fi\n{text}',
        "end the memory guard",
        limit=30,
    )


def guard_state_command(runtime: Runtime, host: HostSpec) -> Command:
    """What the guard of ``host`` has written, with the host's clock; ``parse_guard`` reads the answer."""
    text = f'date +%s\ncat "$STATE/{FOLDER}/guard.json" 2>/dev/null\nexit 0'
    return runtime.host_script(host, text, "see how the memory guard stands", limit=15)


def parse_guard(output: bytes) -> GuardSeen | None:
    """Read the answer of ``guard_state_command``; None where no guard has run, or its file can't be read."""
    now, _, text = output.decode("utf-8", "replace").partition("\n")
    try:
        told = json.loads(text)
        seen = GuardSeen(
            state=str(told["state"]),
            reason=str(told["reason"]),
            at=float(told["at"]),
            run=str(told["run"]),
            reserve=int(told["reserve"]),
            available=int(told["available"]),
            lowest=int(told["lowest"]),
            stalled=float(told["stalled"]),
        )
        late = float(now) - seen.at > STALE
    except (ValueError, KeyError, TypeError):
        return None
    if seen.state == "watching" and late:
        return replace(seen, state="unknown", reason="the guard has not been heard of")
    return seen


def guard_log_command(runtime: Runtime, host: HostSpec) -> Command:
    """The guard's log on ``host``."""
    text = f'tail -c 65536 "$STATE/{FOLDER}/log" 2>/dev/null\nexit 0'
    return runtime.host_script(host, text, "read the memory guard's log", limit=15)


def shown(profile: Profile) -> str:
    """The guard as a plan tells it, in a few words."""
    guard = profile.serve.guard
    if guard.during is GuardWhile.OFF:
        return "no memory guard"
    reserve = f"{guard.reserve / 1024**3:g} GiB" if guard.reserve else "8 GiB, at most a 15th of the memory"
    return f"memory guard while {guard.during.value}, reserve {reserve}"
