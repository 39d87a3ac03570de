"""A model's files on two hosts: the question, the answers as records, and what differs."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import Any

from cockpit.bringup.session import Session
from cockpit.model.command import Command
from cockpit.model.profile import HostSpec
from cockpit.runtime.prelude import heredoc
from cockpit.runtime.runtime import Runtime
from cockpit.runtime.script_text import script_text

Entry = tuple[str, int, str, str]
"""Path below the folder, bytes, where a link leads, the hub's sum."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A folder on a host. ``at`` is the nearest folder that exists, ``free`` the bytes there; ``port`` is one that
    nobody had on the fabric's address; ``outside`` are links that lead out of the folder."""

    folder: str
    exists: bool
    writable: bool
    at: str
    free: int
    rsync: bool
    port: int
    entries: tuple[Entry, ...]
    outside: tuple[str, ...]

    @property
    def bytes(self) -> int:
        """All files together."""
        return sum(size for _, size, _, _ in self.entries)


@dataclass(frozen=True, slots=True)
class Compared:
    """What of a list a host lacks, or has otherwise; ``summed`` files were compared by the hub's sums."""

    missing: tuple[str, ...]
    differs: tuple[str, ...]
    summed: int

    @property
    def same(self) -> bool:
        """Whether all of the list is there."""
        return not (self.missing or self.differs)


def list_command(runtime: Runtime, host: HostSpec, folder: str) -> Command:
    """The question what is in ``folder``."""
    asked = {"folder": folder, "address": host.cluster_address}
    return _command(runtime, host, asked, f"list the files of {folder}", 60)


def compare_command(
    runtime: Runtime, host: HostSpec, folder: str, wanted: tuple[Entry, ...], limit: float
) -> Command:
    """The comparison of ``folder`` with a list; those with a sum of the hub's are read whole."""
    return _command(
        runtime, host, {"folder": folder, "files": wanted}, "compare the files with the other host's", limit
    )


def _command(runtime: Runtime, host: HostSpec, asked: dict[str, Any], why: str, limit: float) -> Command:
    text = script_text("cockpit.bringup.preparation.scripts", "model_files")
    word, body = heredoc(json.dumps(asked))
    return runtime.host_script(
        host, f"exec python3 -I -S -c {shlex.quote(text)} {word}\n{body}", why, limit=limit
    )


async def listed(session: Session, host: HostSpec, folder: str) -> Listed:
    """Ask; raises ``StepError``."""
    completed = await session.ask(list_command(session.runtime, host, folder))
    if completed.status != 0:
        raise session.failed(completed)
    return parse_listed(completed.stdout)


def parse_listed(output: bytes) -> Listed:
    """Read the answer to ``list_command``; raises ``ValueError`` on anything else."""
    try:
        told = json.loads(output.decode("utf-8", "replace").strip().splitlines()[-1])
        return Listed(
            str(told["folder"]),
            bool(told["exists"]),
            bool(told["writable"]),
            str(told["at"]),
            int(told["free"]),
            bool(told["rsync"]),
            int(told["port"]),
            tuple((str(a), int(b), str(c), str(d)) for a, b, c, d in told["files"]),
            tuple(str(one) for one in told["outside"]),
        )
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(f"not a list of files ({error!r}): {output[:120]!r}") from error


def parse_compared(line: bytes) -> Compared | tuple[int, int] | None:
    """A line of the comparison: the result, how far it is (done, total), or None for anything else."""
    try:
        told = json.loads(line)
        if told.get("end"):
            missing, differs = (tuple(str(one) for one in told[key]) for key in ("missing", "differs"))
            return Compared(missing, differs, int(told["summed"]))
        return int(told["done"]), int(told["total"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def lacking(source: Listed, target: Listed) -> tuple[Entry, ...]:
    """What of the source the target lacks by name, size or link."""
    there = {path: (size, link) for path, size, link, _ in target.entries}
    return tuple(one for one in source.entries if there.get(one[0]) != (one[1], one[2]))
