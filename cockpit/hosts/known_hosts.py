"""The known_hosts files: which keys a host is known by, where they stand, and how a new one is added.

Imports asyncssh: loaded only by ``hosts.ssh``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncssh

SSH_PORT = 22

TrustedKeys = tuple[list[asyncssh.SSHKey], list[asyncssh.SSHKey], list[asyncssh.SSHKey]]
"""Host keys, keys of certificate authorities, revoked keys: asyncssh's ``known_hosts`` argument."""


@dataclass(frozen=True, slots=True)
class KnownKey:
    """One key of a host; ``place`` is FILE:LINE."""

    key: asyncssh.SSHKey
    place: str


@dataclass(frozen=True, slots=True)
class Known:
    """What the files say of one host. ``keys`` stand under the host's own name and port; ``elsewhere``
    under its bare name although its port is not 22: good to trust, not good to call another key changed
    (OpenSSH 9.2, sshconnect.c, does the same)."""

    keys: tuple[KnownKey, ...]
    elsewhere: tuple[KnownKey, ...]
    authorities: tuple[KnownKey, ...]
    revoked: tuple[KnownKey, ...]

    def trusted(self, accepted: Iterable[asyncssh.SSHKey] = ()) -> TrustedKeys:
        """The keys as asyncssh takes them, with those ``accepted`` in this session."""
        hosts = [known.key for known in (*self.keys, *self.elsewhere)]
        return (
            [*hosts, *accepted],
            [known.key for known in self.authorities],
            [known.key for known in self.revoked],
        )


def name_in_file(host: str, port: int) -> str:
    """A host's name as known_hosts spells it."""
    return host.lower() if port in (0, SSH_PORT) else f"[{host.lower()}]:{port}"


def look_up(files: Sequence[Path], name: str) -> Known:
    """What ``files`` say of ``name`` (as ``name_in_file`` spells it). A missing file is an empty one; a line
    that can't be read is passed over, as OpenSSH does. Raises ``OSError`` for a file that can't be read."""
    bare = name[1:].partition("]")[0] if name.startswith("[") else ""
    keys: list[KnownKey] = []
    elsewhere: list[KnownKey] = []
    authorities: list[KnownKey] = []
    revoked: list[KnownKey] = []
    for place, line in _lines(files):
        for candidate, plain in ((name, keys), (bare, elsewhere)):
            if candidate:
                hosts, cas, bad = _match(line, candidate)
                plain += [KnownKey(key, place) for key in hosts]
                authorities += [KnownKey(key, place) for key in cas]
                revoked += [KnownKey(key, place) for key in bad]
    return Known(tuple(keys), tuple(elsewhere), tuple(authorities), tuple(revoked))


def _lines(files: Sequence[Path]) -> Iterator[tuple[str, str]]:
    for file in files:
        try:
            content = file.read_bytes()
        except FileNotFoundError:
            continue
        for number, line in enumerate(content.split(b"\n"), 1):
            text = line.decode("utf-8", "replace").strip()
            if text and not text.startswith("#"):
                yield f"{file}:{number}", text


def _match(line: str, name: str) -> TrustedKeys:
    try:
        result = asyncssh.import_known_hosts(line).match(name, "", None)
    except ValueError:
        return [], [], []
    return list(result[0]), list(result[1]), list(result[2])


def public_line(key: asyncssh.SSHKey) -> str:
    """The key's type and base64, without a comment."""
    kind, data = key.export_public_key().decode("ascii").split()[:2]
    return f"{kind} {data}"


def append(file: Path, name: str, key: asyncssh.SSHKey) -> None:
    """Add ``key`` under ``name`` at the end of ``file``, which is made (mode 600) where it is missing."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "r+b") as stream:
        end = stream.seek(0, os.SEEK_END)
        if stream.seekable() and end > 0:
            stream.seek(end - 1)
            start = b"" if stream.read(1) == b"\n" else b"\n"
        else:
            start = b""
        stream.write(start + f"{name} {public_line(key)}\n".encode())
