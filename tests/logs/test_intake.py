"""Compressed files and pipes, taken into a file that can be read by position; against the programs that pack."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cockpit.logs.intake import Intake, packed_file
from cockpit.logs.log import Log
from cockpit.logs.unpack import PIECE, Damaged, packed_as, unpacked

PACK: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress}
LINES = b"".join(b"line %d of the log\n" % number for number in range(200_000))


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(sorted(PACK)),
    parts=st.lists(st.binary(max_size=200), min_size=1, max_size=3),
    size=st.integers(1, 64),
    padding=st.integers(0, 5),
)
def test_whatever_was_packed_comes_out(name: str, parts: list[bytes], size: int, padding: int) -> None:
    """Also in several members one behind the other, and in pieces of any size."""
    packed = b"".join(PACK[name](part) for part in parts) + bytes(padding)
    assert b"".join(unpacked(name, iter(pieces(packed, size)))) == b"".join(parts)


@pytest.mark.parametrize("name", sorted(PACK))
@pytest.mark.parametrize("size", [0, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE])
def test_much_comes_of_little_in_pieces(name: str, size: int) -> None:
    packed = PACK[name](bytes(size))
    assert packed_as(packed) == name or not size
    found = [len(piece) for piece in unpacked(name, iter([packed]))]
    assert sum(found) == size and max(found, default=0) <= PIECE


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(sorted(PACK)), share=st.floats(0.01, 0.99), flip=st.booleans())
def test_cut_off_or_damaged_there_is_what_there_was(name: str, share: float, flip: bool) -> None:
    content = bytes(range(256)) * 40
    packed = bytearray(PACK[name](content))
    at = max(12, int(len(packed) * share))
    if flip:
        packed[at] ^= 0xFF
    else:
        del packed[at:]
    out, told = bytearray(), False
    try:
        for piece in unpacked(name, iter(pieces(bytes(packed), 100))):
            out += piece
    except Damaged:
        told = True
    assert told or bytes(out) == content, "bytes came out wrong and nothing was said"
    assert flip or (told and content.startswith(out))


def test_what_is_not_packed_is_not_taken_for_it(tmp_path: Path) -> None:
    for number, content in enumerate((b"", b"BZh", b"BZhrt 1AY&SY", b"\x1f\x8b", b"plain text\n")):
        path = tmp_path / f"{number}.gz"
        path.write_bytes(content)
        assert packed_file(path) == ""


def whole(log: Log) -> bytes:
    """All of a log whose source has ended."""
    assert log.intake is not None
    deadline = time.monotonic() + 60
    while not log.intake.ended:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    log.refresh()
    return b"".join(log.file.pieces(0, log.file.size))


def test_a_compressed_file_and_its_copy(tmp_path: Path) -> None:
    path = tmp_path / "serve.log.1.gz"
    path.write_bytes(gzip.compress(LINES, 1))
    os.utime(path, (86400.0, 86400.0))
    intake = Intake.of_file(path)
    log = Log.taking_in(intake, path.name)
    assert whole(log) == LINES
    assert log.marks == () and log.changed_at == 86400.0
    assert intake.words()[0] == f"unpacked, {len(LINES):,} bytes"
    again = log.reopen()
    assert again.file.read(0, 6) == b"line 0"
    for each in (log, again):
        each.close()
    intake.close()
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_cut_off_has_a_mark_at_its_end(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(LINES)[:-2000])
    intake = Intake.of_file(path)
    log = Log.taking_in(intake, path.name)
    content = whole(log)
    assert LINES.startswith(content) and len(content) > len(LINES) // 2
    (mark,) = log.marks
    assert mark.at == len(content) and "cut off before its end" in mark.words()
    assert "cut off" in intake.words()[0] and f"{len(content):,} bytes" in intake.words()[0]
    intake.close()


def test_a_pipe(tmp_path: Path) -> None:
    """Shown as it comes; packed bytes are unpacked here too."""
    for content, sent in ((LINES[:1000], LINES[:1000]), (LINES, gzip.compress(LINES)), (b"", b"")):
        reader, writer = os.pipe()
        intake = Intake(reader)
        log = Log.taking_in(intake, "standard input")
        with os.fdopen(writer, "wb", buffering=0) as file:
            for piece in pieces(sent, 7 if len(sent) < 2000 else 5000):
                file.write(piece)
        assert whole(log) == content
        log.close()
        intake.close()
        os.close(reader)


def test_zstd_is_told_how() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"\x28\xb5\x2f\xfd and more of it")
    os.close(writer)
    intake = Intake(reader)
    assert whole(Log.taking_in(intake, "x")) == b""
    assert "zstd -dc FILE | spark-cockpit view -" in intake.words()[0]
    intake.close()
    os.close(reader)


FULL = """
import resource, signal, sys, time
from pathlib import Path
from cockpit.logs.intake import Intake
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
intake = Intake.of_file(Path(sys.argv[1]))
while not intake.ended:
    time.sleep(0.01)
print(intake.words()[0])
"""


def test_a_copy_that_has_no_room_is_said(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(LINES, 1))
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.startswith("the copy here ends: ") and f"{1 << 20:,} bytes of it" in done.stdout
