"""Archives of logs (tar, packed or not, and zip): their files, as if they lay in a folder."""

from __future__ import annotations

import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO

from cockpit.diagnosis.unwrap import MOST, Unwrapped, of_file
from cockpit.logs.unpack import SNIFFED, Damaged, packed_as, unpacked

_BLOCK = 512
_TAR = slice(257, 262)
_ZIP = b"PK\x03\x04"
_BROKEN = (tarfile.TarError, zipfile.BadZipFile, lzma.LZMAError, zlib.error, EOFError, OSError, RuntimeError)
"""What reading a damaged archive (or one with a password) raises."""


def is_archive(path: Path) -> bool:
    """Whether a file is an archive, by its first bytes. Raises ``OSError``."""
    with path.open("rb") as file:
        first = file.read(_BLOCK)
        packed = packed_as(first[:SNIFFED])
        if packed:
            first = _plain(packed, iter((first, file.read(1 << 20))))
    return first[_TAR] == b"ustar" or first.startswith(_ZIP)


def _plain(packed: str, pieces: Iterator[bytes]) -> bytes:
    """The first bytes of what is packed, as far as they can be had."""
    with suppress(Damaged):
        return next(unpacked(packed, pieces), b"")
    return b""


def logs_of(path: Path) -> list[tuple[str, Unwrapped]]:
    """The files of an archive, each by its name, as many as can be read; the last tells what is missing."""
    found: list[tuple[str, Unwrapped]] = []
    left, missing = MOST, ""
    try:
        for name, size, file in _zip(path) if zipfile.is_zipfile(path) else _tar(path):
            left -= size
            if left < 0:
                missing = f"is longer than {MOST >> 30} GiB unpacked: the rest was not read."
                break
            found.append((name, of_file(file)))
    except _BROKEN as error:
        missing = f"could not be read to its end: {error}."
    if missing:
        name, last = found.pop() if found else ("", Unwrapped(b""))
        found.append((name, replace(last, note=f"{last.note} The archive {missing}".strip())))
    return found


def _tar(path: Path) -> Iterator[tuple[str, int, IO[bytes]]]:
    with tarfile.open(path) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isreg() else None
            if file is not None:
                yield member.name, member.size, file


def _zip(path: Path) -> Iterator[tuple[str, int, IO[bytes]]]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if not member.is_dir():
                with archive.open(member) as file:
                    yield member.filename, member.file_size, file
