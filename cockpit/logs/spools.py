"""Which spools there are: where each is, and which runs' are kept."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

RUNS_KEPT: Final = 10


def safe_name(text: str) -> str:
    """``text`` as the name of a file: whatever is unusual in it is replaced, and told apart by a hash."""
    name = re.sub(r"[^A-Za-z0-9._+-]", "_", text).lstrip(".")[:100]
    return (
        name
        if name and name == text
        else f"{name}-{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    )


def spool_root() -> Path:
    """The folder of all spools."""
    from platformdirs import user_state_path

    return user_state_path("spark-cockpit") / "spool"


def spool_path(root: Path, profile: str, run: str, host: str, source: str) -> Path:
    """Where the spool of one source is."""
    return root / safe_name(profile) / safe_name(run) / safe_name(host) / f"{safe_name(source)}.log"


def runs_kept() -> int:
    """Of how many runs a profile's spools are kept: ``SPARK_COCKPIT_RUNS_KEPT``, 10 where that is no number."""
    told = os.environ.get("SPARK_COCKPIT_RUNS_KEPT", "")
    return max(1, int(told)) if told.isdecimal() and len(told) < 7 else RUNS_KEPT


def prune(root: Path, profile: str, *, keep: int, current: Sequence[str] = ()) -> list[str]:
    """Remove the spools of all but the ``keep`` latest runs of ``profile``; the names of those removed.

    Never removes a run named in ``current``, nor one that is being written.
    """
    folder = root / safe_name(profile)
    spared = {safe_name(run) for run in current}
    runs = sorted(
        folder.iterdir() if folder.is_dir() else [], key=lambda run: run.stat().st_mtime, reverse=True
    )
    removed: list[str] = []
    for run in runs[keep:]:
        if run.name not in spared and not any(_in_use(path) for path in run.rglob("*.log")):
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(run)
            removed.append(run.name)
    return removed


def _in_use(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False
