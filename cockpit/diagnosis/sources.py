"""What is explained: the logs of a launch, each with the host and the part it speaks for.

``collect`` turns paths into sources. A large file is mapped, not read, so that a log of any size costs no memory.
"""

from __future__ import annotations

import json
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath

from cockpit.diagnosis.archives import is_archive, logs_of
from cockpit.diagnosis.unwrap import Data, Unwrapped, of_file, of_path
from cockpit.model.errors import WrongWordError, inline

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


_SERVES = re.compile(rb"non-default args: \{|\((?:APIServer|EngineCore\w*) pid=\d+\)")
"""What only the log of ``vllm serve`` has, whatever the file is named."""
_HEAD = 1 << 20
_NUMBERED = re.compile(r"(?i)(?:dgx-?)?(?:spark|node|host|gx10|dgx)[-_]?(?:\d{1,3}|(?<=[-_])[a-z])(?=[._-])")
"""A file's name that begins with a host's, as in ``spark-2.log``."""


class SourceMissingError(WrongWordError):
    """A path that was to be explained is not there, can't be read or holds no log."""


@dataclass(frozen=True, slots=True)
class Source:
    """One log. ``name`` is the path as given; ``host`` the host's name ("" where it isn't known); ``role``
    one of ``serve``, ``ray-worker``, ``raylet``, ``container``, ``kernel``, ``facts``, ``ray-status``,
    ``exit-status``, ``stacks``, ``measured`` and ``other``; ``data`` the log's own bytes. ``numbers`` are the lines
    of the file that the log's lines stand in, where they are not the same; ``note`` says what is missing of it."""

    name: str
    host: str
    role: str
    data: Data
    numbers: Sequence[int] = ()
    note: str = ""

    def line_of(self, line: int) -> int:
        """The line of the file that the log's ``line`` stands in."""
        return self.numbers[line - 1] if line <= len(self.numbers) else line


def role_of(name: str) -> str:
    """The role that a file's name tells."""
    low = name.lower().removesuffix(".gz").removesuffix(".xz").removesuffix(".bz2")
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
    """The host that a file's name tells: ``head.log`` and ``worker.log`` name the role they play, ``spark-2.log``
    the host itself; "" where it tells none."""
    stem = Path(name).stem.lower()
    if stem.startswith("head"):
        return "head"
    if stem.startswith(("worker", "ray-worker")):
        return "worker"
    named = _NUMBERED.match(Path(name).name)
    return named[0] if named else ""


def stdin_source() -> Source:
    """What standard input gives."""
    return _of("standard input", "", SERVE, of_file(sys.stdin.buffer))


def _of(name: str, host: str, role: str, log: Unwrapped) -> Source:
    return Source(name, host, role, log.data, log.numbers, f"{inline(name)} {log.note}" if log.note else "")


def _read(path: Path) -> Unwrapped:
    if not stat.S_ISREG(path.stat().st_mode):
        raise SourceMissingError(
            f"{inline(path)} is no regular file.",
            remedy="To explain what another program prints, pipe it into: explain -",
        )
    return of_path(path)


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
        if path.is_file() and _may_be_log(relative):
            yield path


def _may_be_log(relative: PurePath) -> bool:
    hidden = any(part.startswith(".") for part in relative.parts)
    return not hidden and relative.suffix.lower() not in _SKIPPED


def _of_archive(path: Path) -> Iterator[Source]:
    """The logs of an archive, named as if it were a folder."""
    for name, log in logs_of(path):
        inner = PurePosixPath(name)
        if not name or (_may_be_log(inner) and role_of(inner.name) != OTHER and inner.parent.name != STACKS):
            yield _named(str(path / name), inner.name, log)


def _named(name: str, file: str, log: Unwrapped) -> Source:
    """A log whose file's name tells its role and host."""
    return _of(name, host_of(file), _role(role_of(file) if file else SERVE, log), log)


def _role(named: str, log: Unwrapped) -> str:
    """The role that the name tells, but of a serve log whatever its name."""
    serve = named == OTHER or (named != CONTAINER and _SERVES.search(log.data[:_HEAD]))
    return SERVE if serve else named


def _source(file: Path, *, named: bool) -> Source:
    """A file as a source; one that was named itself is a log, whatever its name says."""
    if file.parent.name == STACKS:
        return _of(str(file), file.stem, STACKS, _read(file))
    host = _record_host(file.parent) or host_of(file.name)
    role = role_of(file.name)
    if role == OTHER and not named:
        return Source(str(file), host, OTHER, b"")
    log = _read(file)
    return _of(str(file), host, _role(role, log), log)


def collect(paths: Iterable[str | Path]) -> list[Source]:
    """The sources under ``paths``: files as they are, folders with all their logs.

    An archive (tar, packed or not, or zip) is as the folder it was made of. In a folder the names tell the roles:
    ``head.log``, ``worker.log``, ``ray-worker.err``, ``kernel.log``, ``ray-status.txt``, ``host-facts.txt``; a run's
    folder has ``serve.log``, ``exit-status``, ``record.json`` and ``stacks/HOST.txt``. "-" is standard input. Raises
    ``SourceMissingError``.
    """
    sources: list[Source] = []
    for given in paths:
        if str(given) == "-":
            sources.append(stdin_source())
            continue
        path = Path(given)
        try:
            if path.is_file() and is_archive(path):
                own = list(_of_archive(path))
            else:
                found = list(_files(path)) if path.is_dir() else [path]
                own = [_source(file, named=not path.is_dir()) for file in found]
        except OSError as error:
            raise SourceMissingError(
                f"{inline(error.filename or path)}: {error.strerror or error}.",
                remedy="Give a log or a folder of logs.",
            ) from error
        if all(source.role in NO_LOGS for source in own):
            raise SourceMissingError(
                f"{inline(path)}: there is no log in it.", remedy="Give a log or a folder of logs."
            )
        sources += own
    return sources
