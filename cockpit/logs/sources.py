"""Which logs a host has: found by asking, never assumed.

The texts are sh for ``Runtime.host_script`` and ``Runtime.script``, which set ``$STATE``; what they print is
parsed here. Whoever has both rooms at hand runs them: this one knows no runtime.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """What writes a log."""

    SERVE = "serve"
    RAY = "ray"
    CONTAINER = "container"
    KERNEL = "kernel"


class Reach(StrEnum):
    """How a source is read: a file on the host, a file inside the environment, or a journal with a cursor."""

    HOST = "host"
    ENVIRONMENT = "environment"
    JOURNAL = "journal"


@dataclass(frozen=True, slots=True)
class Source:
    """One log of a host.

    ``name`` is short and unique on the host ("serve", "raylet.out", "kernel"). ``path`` is the file's, or the
    container's id, or the way the kernel's log is read (``journal``, ``kmsg``). ``run`` is the run's id for a
    serve log, and ``current`` says whether that is the last run. ``size`` in bytes and ``changed_at`` in
    seconds since the epoch where they are known. ``grant`` is what the operator must grant before it can be
    read, "" when it can.
    """

    host: str
    name: str
    kind: Kind
    reach: Reach
    path: str
    run: str = ""
    current: bool = False
    size: int | None = None
    changed_at: float | None = None
    grant: str = ""


SERVE_TEXT: Final = r"""\
[ -d "$STATE/runs" ] || exit 0
printf 'current\t%s\0' "$(readlink "$STATE/runs/current" 2>/dev/null)"
find "$STATE/runs" -mindepth 2 -maxdepth 2 -type f -name serve.log -printf 'serve\t%s\t%T@\t%p\0'
"""
"""Serve logs of all runs. For the host: the state folder is there, whether or not the environment runs."""

KERNEL_TEXT: Final = r"""\
if journalctl -k -n 1 -q -o cat 2>/dev/null | grep -q .; then printf 'kernel\tjournal\0'
elif dd if=/dev/kmsg bs=8192 count=1 iflag=nonblock 2>/dev/null | grep -q .; then printf 'kernel\tkmsg\0'
elif command -v journalctl >/dev/null 2>&1; then printf 'kernel\tdenied-journal\t%s\0' "$(id -un)"
else printf 'kernel\tdenied-kmsg\t%s\0' "$(id -un)"
fi
"""
"""How the kernel's log can be read. For the host."""


def ray_text(folder: str = "/tmp/ray") -> str:
    """Ray's logs of the present session, below its temporary ``folder``. For the environment."""
    return f"""\
logs=$(readlink -f {shlex.quote(folder)}/session_latest)/logs
[ -d "$logs" ] || exit 0
find "$logs" -maxdepth 1 -type f \\( -name 'worker-*.out' -o -name 'worker-*.err' -o -name 'raylet.*' \
-o -name 'gcs_server.*' \\) -printf 'ray\\t%s\\t%T@\\t%p\\0'
"""


def container_source(host: str, container: str) -> Source:
    """The log of a container, by its id."""
    return Source(host, "container", Kind.CONTAINER, Reach.JOURNAL, container)


def parse_sources(host: str, output: bytes) -> tuple[Source, ...]:
    """What the texts above printed, as sources: the current serve log first, then the others by age."""
    found: list[Source] = []
    current = ""
    for record in output.decode("utf-8", "surrogateescape").split("\0"):
        kind, _, rest = record.lstrip("\n").partition("\t")
        if kind == "current":
            current = rest
        elif kind == "kernel":
            found.append(_kernel(host, rest.split("\t")))
        elif kind in (Kind.SERVE, Kind.RAY) and rest.count("\t") >= 2:
            size, changed, path = rest.split("\t", 2)
            if size.isdigit():
                found.append(_file(host, Kind(kind), path, int(size), changed, current))
    return tuple(sorted(found, key=_order))


def _file(host: str, kind: Kind, path: str, size: int, changed: str, current: str) -> Source:
    folder, _, name = path.rpartition("/")
    run = folder.rpartition("/")[2] if kind is Kind.SERVE else ""
    return Source(
        host,
        "serve" if kind is Kind.SERVE else name,
        kind,
        Reach.HOST if kind is Kind.SERVE else Reach.ENVIRONMENT,
        path,
        run,
        kind is Kind.SERVE and run == current,
        size,
        float(changed) if changed.replace(".", "", 1).isdigit() else None,
    )


def _kernel(host: str, words: list[str]) -> Source:
    way, *user = words
    name = shlex.quote(user[0]) if user and user[0] else "USER"
    grants = {
        "denied-journal": f"sudo usermod -aG systemd-journal {name}   (then log in anew)",
        "denied-kmsg": "sudo sysctl kernel.dmesg_restrict=0",
    }
    read_by = "kmsg" if way.endswith("kmsg") else "journal"
    return Source(host, "kernel", Kind.KERNEL, Reach.JOURNAL, read_by, grant=grants.get(way, ""))


def _order(source: Source) -> tuple[int, bool, float, str]:
    return list(Kind).index(source.kind), not source.current, -(source.changed_at or 0.0), source.name
