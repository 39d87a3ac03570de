"""What is explained: the logs of a launch, each with the host and the part it speaks for.

``collect`` turns paths into sources. A file of more than ``SMALL`` bytes is mapped, not read, so that a log
of any size costs no memory.
"""

from __future__ import annotations

import json
import mmap
import re
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cockpit.model.errors import WrongWordError

Data = bytes | mmap.mmap
SMALL = 16 << 20
MOST = 64 << 20
"""Bytes of what can't be mapped as it is (standard input, a packed file) that are read."""


SERVE, RAY_WORKER, RAYLET, CONTAINER, KERNEL = ("serve", "ray-worker", "raylet", "container", "kernel")
FACTS, STATUS, EXIT, OTHER = ("facts", "ray-status", "exit-status", "other")
STACKS, MEASURED = ("stacks", "measured")
NO_LOGS = (OTHER, STACKS, MEASURED)
"""The roles of what is no log: nothing in it is looked for by signature."""

_SKIPPED = {
    ".yaml",
    ".yml",
    ".json",
    ".jsonl",
    ".tsv",
    ".csv",
    ".md",
    ".time",
    ".sh",
    ".py",
    ".zst",
    ".idx",
}


class SourceMissingError(WrongWordError):
    """A path that was to be explained is not there, can't be read or holds no log."""


@dataclass(frozen=True, slots=True)
class Source:
    """One log. ``name`` is the path as given; ``host`` the host's name ("" where it isn't known); ``role``
    one of ``serve``, ``ray-worker``, ``raylet``, ``container``, ``kernel``, ``facts``, ``ray-status``,
    ``exit-status``, ``stacks``, ``measured`` and ``other``; ``data`` the bytes as they are. ``numbers`` are the lines
    of the file, where the source is but a part of it."""

    name: str
    host: str
    role: str
    data: Data
    numbers: Sequence[int] = ()


def role_of(name: str) -> str:
    """The role that a file's name tells."""
    low = name.lower().removesuffix(".gz")
    rules = (
        (KERNEL, ("kernel", "dmesg", "journal", "syslog", "kern.log")),
        (STATUS, ("ray-status", "ray_status")),
        (FACTS, ("host-facts", "facts", "meminfo", "nvidia-smi", "nvidia_smi")),
        (EXIT, ("exit-status", "exit_status")),
        (RAYLET, ("raylet", "gcs_server", "monitor")),
        (RAY_WORKER, ("ray-worker", "python-core-worker", "worker-")),
        (CONTAINER, ("container", "docker")),
    )
    for role, words in rules:
        if any(word in low for word in words):
            return role
    return SERVE if low.endswith((".log", ".txt", ".out", ".err")) or "." not in low else OTHER


def host_of(name: str) -> str:
    """The host that a file's name tells: ``head.log`` and ``worker.log`` name the role they play."""
    stem = Path(name).stem.lower()
    if stem.startswith("head"):
        return "head"
    return "worker" if stem.startswith(("worker", "ray-worker")) else ""


def stdin_source() -> Source:
    """What standard input gives, at most ``MOST`` bytes of it."""
    return Source("standard input", "", SERVE, unwrapped(sys.stdin.buffer.read(MOST)))


def unwrapped(data: bytes) -> bytes:
    """The log itself, line for line, of a file of Docker's json-file driver, of a text in UTF-16 (as Windows
    writes what is redirected) or of a gzip file (its first ``MOST`` bytes); any other bytes as they are."""
    if data.startswith(b"\x1f\x8b"):
        return unwrapped(_unpacked(data))
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace").encode("utf-8", "replace")
    if not re.match(rb'\{"log": ?"', data):
        return data
    return b"\n".join(map(_logged, data.split(b"\n")))


def _unpacked(data: bytes) -> bytes:
    """As much as can be had: a copy that was cut short is still a log."""
    unpacking = zlib.decompressobj(wbits=31)
    try:
        return unpacking.decompress(data, MOST)
    except zlib.error:
        return b""


def _logged(line: bytes) -> bytes:
    try:
        text = json.loads(line)["log"]
    except (ValueError, KeyError, TypeError):
        return line
    return text.rstrip("\n").replace("\n", " ").encode("utf-8", "replace") if isinstance(text, str) else line


def _read(path: Path) -> Data:
    seen = path.stat()
    if not stat.S_ISREG(seen.st_mode):
        raise SourceMissingError(
            f"{path} is no regular file.",
            remedy="To explain what another program prints, pipe it into: explain -",
        )
    size = seen.st_size
    if size <= SMALL:
        return unwrapped(path.read_bytes())
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _record_host(folder: Path) -> str:
    """The host that a run's ``record.json`` names, "" without one."""
    try:
        record = json.loads((folder / "record.json").read_bytes())
    except (OSError, ValueError):
        return ""
    host = record.get("host", "") if isinstance(record, dict) else ""
    return host if isinstance(host, str) else ""


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        hidden = any(part.startswith(".") for part in relative.parts)
        if path.is_file() and not hidden and path.suffix.lower() not in _SKIPPED:
            yield path


def _source(file: Path, *, named: bool) -> Source:
    """A file as a source; one that was named itself is a log, whatever its name says."""
    if file.parent.name == STACKS:
        return Source(str(file), file.stem, STACKS, _read(file))
    host = _record_host(file.parent) or host_of(file.name)
    role = role_of(file.name)
    return Source(str(file), host, SERVE if named and role == OTHER else role, _read(file))


def collect(paths: Iterable[str | Path]) -> list[Source]:
    """The sources under ``paths``: files as they are, folders with all their logs.

    In a folder the names tell the roles: ``head.log``, ``worker.log``, ``ray-worker.err``, ``kernel.log``,
    ``ray-status.txt``, ``host-facts.txt``; a run's folder has ``serve.log``, ``exit-status``,
    ``record.json`` and ``stacks/HOST.txt``. "-" is standard input. Raises ``SourceMissingError``.
    """
    sources: list[Source] = []
    for given in paths:
        if str(given) == "-":
            sources.append(stdin_source())
            continue
        path = Path(given)
        try:
            found = list(_files(path)) if path.is_dir() else [path]
            for file in found:
                sources.append(_source(file, named=not path.is_dir()))
        except OSError as error:
            raise SourceMissingError(
                f"{error.filename or path}: {error.strerror or error}.",
                remedy="Give a log or a folder of logs.",
            ) from error
        if not found:
            raise SourceMissingError(
                f"{path}: no log in this folder.", remedy="Give a log or a folder of logs."
            )
    return sources
