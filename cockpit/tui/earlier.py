"""How long each phase of a profile's earlier loads took, kept on this machine: what estimates are made of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import platformdirs

from cockpit.logs.spools import safe_name
from cockpit.model.progress import Phase
from cockpit.serving.eta import phase_durations

KEPT: Final = 5
"""Loads of a profile that are kept: the last ones."""
PROMPTLY: Final = 20.0
"""Seconds after the launch within which a load must have been watched to count: one that was come upon later
has no beginning."""

Durations = Mapping[Phase, float]


def _file(profile: str) -> Path:
    return (
        platformdirs.user_state_path("spark-cockpit", appauthor=False) / "loads" / f"{safe_name(profile)}.json"
    )


def read(profile: str) -> tuple[Durations, ...]:
    """The earlier loads; none where there is no record, or a damaged one."""
    try:
        told = json.loads(_file(profile).read_text(encoding="utf-8"))
        return tuple({Phase(name): float(took) for name, took in load.items()} for load in told)
    except (OSError, ValueError, AttributeError, TypeError):
        return ()


def observed(began: float | None, phases: tuple[tuple[Phase, float], ...]) -> Durations | None:
    """The durations of a load that was watched from its beginning to ready, else None."""
    if began is None or not phases or phases[0][1] - began > PROMPTLY or phases[-1][0] is not Phase.READY:
        return None
    return phase_durations(dict(phases))


def add(profile: str, durations: Durations) -> None:
    """Keep one more; a folder that can't be written is no reason to stop."""
    loads = [*read(profile), durations][-KEPT:]
    path = _file(profile)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = path.with_suffix(".new")
        new.write_text(
            json.dumps([{phase.value: round(took, 1) for phase, took in load.items()} for load in loads]),
            encoding="utf-8",
        )
        new.replace(path)
