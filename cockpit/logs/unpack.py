"""Compressed bytes made plain as they come: gzip, bzip2 and xz, told by their first bytes and not by a name."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Final, Protocol

SNIFFED: Final = 10
"""How many first bytes tell the format."""
PIECE: Final = 1 << 20
"""At most so many plain bytes come at once: a few compressed ones may stand for very many."""
_ZSTD: Final = b"\x28\xb5\x2f\xfd"


class Damaged(Exception):
    """The bytes are not whole, or can't be unpacked; says why."""


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    @property
    def needs_input(self) -> bool: ...

    def decompress(self, data: bytes, max_length: int = ..., /) -> bytes: ...


class _Gzip:
    """zlib's object with the manners of the other two."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(31)
        self._left = b""
        self._full = False
        """Whether the last piece was as long as it may be: more may be behind it though all input was taken."""

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    @property
    def needs_input(self) -> bool:
        return not self._left and not self._full

    def decompress(self, data: bytes, max_length: int = -1, /) -> bytes:
        plain = self._inner.decompress(self._left + data, max(0, max_length))
        self._left = self._inner.unconsumed_tail
        self._full = 0 < max_length == len(plain)
        return plain


_FORMATS: Final[tuple[tuple[str, bytes, Callable[[], _Decompressor]], ...]] = (
    ("gzip", b"\x1f\x8b\x08", _Gzip),
    ("bzip2", b"BZh", bz2.BZ2Decompressor),
    ("xz", b"\xfd7zXZ\x00", lzma.LZMADecompressor),
)
_BZIP2_BLOCK: Final = b"1AY&SY"


def packed_as(first: bytes) -> str:
    """``gzip``, ``bzip2``, ``xz`` or ``zstd``, by the first ``SNIFFED`` bytes; "" for anything else."""
    for name, magic, _ in _FORMATS:
        if first.startswith(magic) and (name != "bzip2" or first[4:10] == _BZIP2_BLOCK):
            return name
    return "zstd" if first.startswith(_ZSTD) else ""


def undecided(first: bytes) -> bool:
    """Whether more bytes than ``first`` are needed to tell."""
    magics = [magic for _, magic, _ in _FORMATS] + [_ZSTD]
    return len(first) < SNIFFED and any(m.startswith(first) or first.startswith(m) for m in magics)


def unpacked(name: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The plain bytes of ``pieces`` packed as ``name``; several packed one behind the other are one.

    Raises ``Damaged`` after the last byte that could be made plain, and where ``name`` can't be unpacked here.
    """
    if name == "zstd":
        raise Damaged("it is packed with zstd: zstd -dc FILE | spark-cockpit view -")
    make = next(make for each, _, make in _FORMATS if each == name)
    inner: _Decompressor | None = None
    for data in pieces:
        while data or (inner is not None and not inner.needs_input and not inner.eof):
            if inner is None:
                # What fills up the last block of a tape or a disk.
                data = data.lstrip(b"\0")
                if not data:
                    break
                inner = make()
            try:
                plain = inner.decompress(data, PIECE)
            except (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError) as error:
                raise Damaged(f"the compressed data is damaged: {error}") from error
            if plain:
                yield plain
            data = b""
            if inner.eof:
                data, inner = inner.unused_data, None
    if inner is not None:
        raise Damaged("the compressed data was cut off before its end")
