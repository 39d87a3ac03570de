"""The line index against the simplest reference: ``bytes.split``."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cockpit.logs.blocks import BLOCK, LogFile
from cockpit.logs.index import LineIndex

ALPHABET = st.sampled_from(
    [b"\n", b"\r\n", b"\x00", b"\xff", b"\xe2\x82", "é中".encode(), b"\xc2\x9b", b"plain text"]
)
SMALL = st.lists(ALPHABET, max_size=60).map(b"".join)
LARGE = st.lists(
    st.tuples(st.integers(0, BLOCK + 2), st.sampled_from([b"\n", b"x", b"\n\n", b""])), min_size=1, max_size=8
).map(lambda parts: b"".join(b"." * size + tail for size, tail in parts))
CONTENT = st.one_of(SMALL, LARGE)


def reference(content: bytes) -> list[tuple[int, int]]:
    """Start and end of each line; a file that ends in a newline has no line after it."""
    lines: list[tuple[int, int]] = []
    at = 0
    for line in content.split(b"\n"):
        lines.append((at, at + len(line)))
        at += len(line) + 1
    if lines and lines[-1][0] == lines[-1][1]:
        lines.pop()
    return lines


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("index") / "log"


def opened(path: Path, content: bytes) -> LineIndex:
    path.write_bytes(content)
    return LineIndex(LogFile(path))


def walk(index: LineIndex) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    start: int | None = 0 if index.file.size else None
    while start is not None:
        found.append((start, index.end_of_line(start)))
        start = index.next_line(start)
    return found


def walk_back(index: LineIndex) -> list[int]:
    found: list[int] = []
    start = index.last_line()
    while start is not None:
        found.append(start)
        start = index.previous_line(start)
    return found[::-1]


@settings(max_examples=150, deadline=None)
@given(content=CONTENT, limit=st.sampled_from([1, 1000, BLOCK, BLOCK + 1, 1 << 24]), part=st.floats(0, 1))
def test_lines_are_those_of_split(path: Path, content: bytes, limit: int, part: float) -> None:
    index = opened(path, content)
    lines = reference(content)
    with index.file:
        steps = max(0, int(part * (len(content) // limit + 1)))
        for _ in range(min(steps, 50)):
            index.extend(limit)
        assert walk(index) == lines
        assert walk_back(index) == [start for start, _ in lines]
        while index.extend():
            pass
        assert index.complete
        assert index.lines == len(lines)
        assert index.newlines == content.count(b"\n")
        assert walk(index) == lines
        assert walk_back(index) == [start for start, _ in lines]
        for number, (start, end) in enumerate(lines, 1):
            assert index.offset_of(number) == start
            assert index.number_at(start) == index.number_at(end) == number
        assert index.offset_of(len(lines) + 1) is None


@settings(max_examples=60, deadline=None)
@given(content=CONTENT, line=st.integers(1, 70), count=st.integers(0, 20))
def test_lines_by_number(path: Path, content: bytes, line: int, count: int) -> None:
    index = opened(path, content)
    with index.file:
        while index.extend():
            pass
        expected = reference(content)[line - 1 : line - 1 + count]
        fetched = index.fetch(line, count)
        assert [(entry.start, entry.end) for entry in fetched] == expected
        assert [entry.data for entry in fetched] == [
            content[start : min(end, start + BLOCK)] for start, end in expected
        ]


@pytest.mark.parametrize("widths", [[1], [200], [1, 200, 10, 500, 2], [200, 1, 47, 48, 49]])
def test_short_lines_and_long_ones_in_whole_blocks(path: Path, widths: list[int]) -> None:
    """Blocks of either kind follow blocks of either kind."""
    content = b"".join((b"x" * (width - 1) + b"\n") * (3 * BLOCK // width) for width in widths)
    index = opened(path, content)
    while index.extend(BLOCK * 2 + 7):
        assert index.newlines == content.count(b"\n", 0, index.indexed)
    assert index.newlines == content.count(b"\n")
    for at in range(0, len(content), 10_007):
        assert index.number_at(at) == content.count(b"\n", 0, at) + 1


@settings(max_examples=60, deadline=None)
@given(parts=st.lists(CONTENT, min_size=1, max_size=4))
def test_a_growing_file(path: Path, parts: list[bytes]) -> None:
    index = opened(path, b"")
    content = b""
    with index.file, path.open("ab") as writer:
        for part in parts:
            content += part
            writer.write(part)
            writer.flush()
            assert index.file.refresh()
            while index.extend():
                pass
            assert walk(index) == reference(content)
            assert index.lines == len(reference(content))


def test_a_file_that_became_shorter_is_noticed(path: Path) -> None:
    index = opened(path, b"one\ntwo\n")
    with index.file:
        index.extend()
        path.write_bytes(b"new\n")
        assert not index.file.refresh()
        index.reset()
        index.extend()
        assert index.fetch(1, 5)[0].data == b"new"
        assert index.lines == 1


def test_a_line_of_100_mb_is_never_loaded_whole(path: Path) -> None:
    size = 100_000_000
    with path.open("wb") as writer:
        writer.write(b"first\n")
        for _ in range(size // 1_000_000):
            writer.write(b"x" * 1_000_000)
        writer.write(b"\nlast")
    index = LineIndex(LogFile(path))
    with index.file:
        assert index.last_line() == 6 + size + 1
        assert index.previous_line(6 + size + 1) == 6
        while index.extend():
            pass
        assert [(entry.start, entry.end, len(entry.data)) for entry in index.fetch(1, 3)] == [
            (0, 5, 5),
            (6, 6 + size, BLOCK),
            (6 + size + 1, 6 + size + 5, 4),
        ]
        assert index.previous_line(6 + size + 1) == 6
        assert index.start_of_line(size // 2) == 6
        assert len(index.file._kept) <= 64
    path.write_bytes(b"")
