"""The log itself, out of what it is kept in: gzip, bzip2, xz, UTF-16, JSON of a container tool or the journal, one line.

In go the bytes of a file, piece by piece; out come the log's own lines, and which line of the file each stood in.
What is larger than ``SMALL`` goes through a temporary file, so that memory stays flat.
"""

from __future__ import annotations

import codecs
import json
import mmap
import os
import re
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any

from cockpit.logs import unpack
from cockpit.logs.unpack import SNIFFED, packed_as

Data = bytes | mmap.mmap
SMALL = 16 << 20
MOST = 4 << 30
"""Bytes of a log that are unpacked at most."""
WHOLE = 64 << 20
"""Bytes of what can only be read as a whole (a JSON document, one long line)."""

_PIECE = 1 << 20
_HEAD = 1 << 15
_KEYS = ("log", "MESSAGE", "message", "msg", "line", "text")
"""Where Docker, the journal and log shippers keep the text of an entry."""
_MORE = ("exc_info", "exc_text", "exception", "stack_trace", "stacktrace")
"""Where loggers that write JSON keep the traceback of an entry."""
_LOOKED_AT = 8
_OBJECT = re.compile(rb"\s*\{.*\}\s*")
_BEGINS = re.compile(
    rb"\\n(?:[^\\]{0,80}?)(?:\(\w+ pid=|(?:INFO|WARNING|ERROR) \d\d-\d\d |(?:INFO|ERROR):  |Traceback \(|  File )"
)
_ESCAPE = re.compile(rb"""\\+(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(033|[nrte"'/\\]))""")
_QUOTED = re.compile(rb"""\s*b?(["'])(.*)\1,?\s*""")
_PLAIN = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"e": b"\x1b", b"033": b"\x1b"}


@dataclass(frozen=True, slots=True)
class Unwrapped:
    """The log; ``numbers`` are the lines of the file that its lines stand in, empty where they are the same;
    ``note`` says what is missing of it."""

    data: Data
    numbers: Sequence[int] = ()
    note: str = ""


def of_bytes(data: bytes) -> Unwrapped:
    """The log in ``data``."""
    return _unwrapped(iter((data,)))


def of_file(file: IO[bytes]) -> Unwrapped:
    """The log in an open file (or a pipe), from where it stands."""
    return _unwrapped(iter(lambda: file.read(_PIECE), b""))


def of_path(path: Path) -> Unwrapped:
    """The log in the file ``path``; a large one that is plain is mapped as it is."""
    with path.open("rb") as file:
        head = file.read(_HEAD)
        if path.stat().st_size > SMALL and _form(head) is None and not packed_as(head[:SNIFFED]):
            return Unwrapped(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        return _unwrapped(chain((head,), iter(lambda: file.read(_PIECE), b"")))


def _unwrapped(pieces: Iterator[bytes]) -> Unwrapped:
    notes: list[str] = []
    head, pieces = _ahead(pieces)
    packed = packed_as(head[:SNIFFED])
    if packed:
        head, pieces = _ahead(_unpacked(packed, pieces, notes))
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        head, pieces = _ahead(_recoded(pieces))
    form = _form(head)
    with tempfile.SpooledTemporaryFile(SMALL, dir=_folder()) as file:
        sink = _Sink(file)
        if form is None:
            file.writelines(pieces)
        else:
            for line, number in form(_limited(pieces, notes) if form in (_document, _journal) else pieces):
                sink.line(line, number)
        return Unwrapped(_all(file), sink.numbers, " ".join(notes))


def _all(file: IO[bytes]) -> Data:
    """What was written to a file; a large one is mapped, and lives on as long as the map does."""
    if file.tell() > SMALL:
        file.flush()
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    file.seek(0)
    return file.read()


def _ahead(pieces: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The beginning of a stream, and the stream with it."""
    taken: list[bytes] = []
    while sum(map(len, taken)) < _HEAD:
        piece = next(pieces, b"")
        if not piece:
            break
        taken.append(piece)
    return b"".join(taken)[:_HEAD], chain(taken, pieces)


def _unpacked(packed: str, pieces: Iterator[bytes], notes: list[str]) -> Iterator[bytes]:
    """The plain bytes of what is packed, as many as can be had: a copy that was cut short is still a log."""
    told = 0
    if packed == "zstd":
        notes.append("is packed with zstd; give it unpacked: zstd -dc FILE | spark-cockpit explain -")
        return
    try:
        for piece in unpack.unpacked(packed, pieces):
            told += len(piece)
            yield piece
            if told > MOST:
                notes.append(f"is longer than {MOST >> 30} GiB unpacked: the rest was not read.")
                return
    except unpack.Damaged as error:
        notes.append(f"is not whole: {error}; what came after is not there.")


def _limited(pieces: Iterator[bytes], notes: list[str]) -> Iterator[bytes]:
    """The first ``WHOLE`` bytes."""
    left = WHOLE
    for piece in pieces:
        if len(piece) > left:
            notes.append(f"is longer than {WHOLE >> 20} MiB in this form: the rest was not read.")
            yield piece[:left]
            return
        left -= len(piece)
        yield piece


def _recoded(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """UTF-16, as Windows writes what is redirected, as UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-16")("replace")
    for piece in pieces:
        yield decoder.decode(piece).encode("utf-8", "replace")
    yield decoder.decode(b"", True).encode("utf-8", "replace")


class _Sink:
    """Takes the lines that were unwrapped, and keeps in mind where they stood."""

    def __init__(self, file: IO[bytes]) -> None:
        self.numbers: Sequence[int] = ()
        self._numbers: array[int] | None = None
        self._count = 0
        self._file = file

    def line(self, line: bytes, number: int) -> None:
        """A line of the log that stands in line ``number`` of the file."""
        self._file.write(b"\n" + line if self._count else line)
        self._count += 1
        if self._numbers is None and number != self._count:
            self._numbers = array("L", range(1, self._count))
            self.numbers = self._numbers
        if self._numbers is not None:
            self._numbers.append(number)


def _folder() -> str | None:
    """A folder for large temporary files; /tmp is memory on many machines."""
    return "/var/tmp" if os.access("/var/tmp", os.W_OK) else None


Form = Callable[[Iterator[bytes]], Iterator[tuple[bytes, int]]]


def _form(head: bytes) -> Form | None:
    """What takes a log of this beginning apart, None for a plain one."""
    first = head.lstrip(b" \t\r\n\xef\xbb\xbf")
    if first.startswith(b"__CURSOR="):
        return _journal
    lines = first.split(b"\n")[:_LOOKED_AT]
    if 2 * sum(_entry(line) is not None for line in lines) >= len(lines):
        return _entries
    if first.startswith((b"{", b"[")) and re.match(rb'[\[{]\s*["\[{]', first):
        return _document
    escaped = head.count(b"\\n")
    if escaped >= 5 and escaped > 4 * head.count(b"\n") and _BEGINS.search(head):
        return _escaped
    return None


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        yield from whole
    yield rest


def _entries(pieces: Iterator[bytes]) -> Iterator[tuple[bytes, int]]:
    """A JSON object a line: Docker's json-file driver, ``journalctl -o json``, log shippers."""
    for number, line in enumerate(_lines(pieces), 1):
        text = _entry(line)
        for part in [line] if text is None else text.split(b"\n"):
            yield part, number


def _entry(line: bytes) -> bytes | None:
    """The text of an entry without its line end; None where the line is no entry with one."""
    if not _OBJECT.fullmatch(line):
        return None
    try:
        return _text(json.loads(line))
    except (ValueError, RecursionError):
        return None


def _text(entry: Any) -> bytes | None:
    if isinstance(entry, str):
        return entry.removesuffix("\n").encode("utf-8", "replace")
    if not isinstance(entry, dict):
        return None
    for key in _KEYS:
        value = entry.get(key)
        if isinstance(value, str):
            more = [entry[name] for name in _MORE if isinstance(entry.get(name), str)]
            return "\n".join([value.removesuffix("\n"), *more]).encode("utf-8", "replace")
        if isinstance(value, list) and all(isinstance(one, int) and 0 <= one < 256 for one in value):
            return bytes(value).removesuffix(b"\n")  # the journal's form for what has control characters
    return None


def _document(pieces: Iterator[bytes]) -> Iterator[tuple[bytes, int]]:
    """One JSON document: a list of entries, or any object that holds the log as strings. The lines are numbered
    by where an entry of a list begins; else all stand in line 1. What is no such document stays as it is."""
    raw = b"".join(pieces)
    text = raw.decode("utf-8", "replace")
    found = list(_of_list(text)) if text.lstrip().startswith("[") else list(_of_object(text))
    if found:
        yield from found
    else:
        yield from ((line, number) for number, line in enumerate(raw.split(b"\n"), 1))


def _of_list(text: str) -> Iterator[tuple[bytes, int]]:
    decoder, at, line = json.JSONDecoder(), text.index("[") + 1, 1
    line += text.count("\n", 0, at)
    gap = re.compile(r"[\s,]*")
    while match := gap.match(text, at):
        line += text.count("\n", at, match.end())
        try:
            entry, end = decoder.raw_decode(text, match.end())
        except (ValueError, RecursionError):
            return
        own = _text(entry)
        yield from ((part, line) for part in (own or b"").split(b"\n") if own is not None)
        line += text.count("\n", match.end(), end)
        at = end


def _of_object(text: str) -> Iterator[tuple[bytes, int]]:
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        return
    for value in _strings(whole):
        if "\n" in value:
            yield from ((part.encode("utf-8", "replace"), 1) for part in value.split("\n"))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _strings(one)


def _journal(pieces: Iterator[bytes]) -> Iterator[tuple[bytes, int]]:
    """``journalctl -o export``: fields a line; one with control characters is told by its length."""
    raw, at, number = b"".join(pieces), 0, 1
    while at < len(raw):
        end = raw.find(b"\n", at)
        end = len(raw) if end < 0 else end
        name, told, value = raw[at:end].partition(b"=")
        start, at = at, end + 1
        if name and not told:
            length = int.from_bytes(raw[at : at + 8], "little")
            value, at = raw[at + 8 : at + 8 + length], min(len(raw), at + 8 + length + 1)
        if name == b"MESSAGE":
            yield from ((part, number) for part in value.split(b"\n"))
        number += raw.count(b"\n", start, at)


def _escaped(pieces: Iterator[bytes]) -> Iterator[tuple[bytes, int]]:
    """Lines in which the log's own line ends are written as ``\\n``, as in a quoted string."""
    for number, whole in enumerate(_lines(pieces), 1):
        quoted = _QUOTED.fullmatch(whole)
        line = quoted[2] if quoted else whole
        yield from ((part, number) for part in _ESCAPE.sub(_character, line).split(b"\n"))


def _character(match: re.Match[bytes]) -> bytes:
    if match[1]:
        return chr(int(match[1], 16)).encode("utf-8", "replace")
    if match[2]:
        return bytes((int(match[2], 16),))
    return _PLAIN.get(match[3], match[3])
