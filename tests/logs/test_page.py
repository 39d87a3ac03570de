"""Rows against the simplest reference: the whole line sanitised, cut by cells."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from wcwidth import wcwidth

from cockpit.logs.layout import LineLayout, cells_of
from cockpit.logs.lines import FileLines, SievedLines
from cockpit.logs.log import Log
from cockpit.logs.marks import Mark
from cockpit.logs.page import Anchor, Page, Row
from cockpit.logs.sanitise import SGR, Sgr, steady
from cockpit.logs.search import Query
from cockpit.logs.sieve import Sieve

PIECES = st.sampled_from(
    [
        b"\n",
        b"\r\n",
        b"\r",
        b"\t",
        b"word ",
        "中文".encode(),
        "👩\u200d💻".encode(),
        "e\u0301".encode(),
        b"\x1b[31m",
        b"\x1b[0m",
        b"\x1b]52;c;x\x07",
        b"\xff",
        b"\xc2\x9b",
        b"\x00",
        "\u202e".encode(),
        b"[red]x[/]",
    ]
)
CONTENT = st.lists(st.one_of(PIECES, st.binary(max_size=6)), max_size=60).map(b"".join)
FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069\u200d]")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("page") / "log"


def opened(path: Path, content: bytes) -> Log:
    path.write_bytes(content)
    log = Log.open(path)
    while log.index.extend():
        pass
    return log


def expected(line: bytes, raw: bool) -> str:
    """The text of a line as it should be shown."""
    if not raw:
        while line.endswith(b"\r"):
            line = line[:-1]
        states = line.split(b"\r")
        telling = [state for state in states if not re.fullmatch(rb"(?:\s|\x1b\[[0-9;:?]*[mK])*", state)]
        line = telling[-1] if telling else line
    text, cells = "", 0
    for piece in re.split(r"(\t)", SGR.sub("", line.decode("utf-8", "surrogateescape"))):
        shown = " " * (8 - cells % 8) if piece == "\t" else steady(piece)
        text, cells = text + shown, cells + sum(wcwidth(char) for char in shown)
    return text


def wrapped(text: str, width: int) -> list[str]:
    rows, cells = [""], 0
    for char in text:
        if cells + wcwidth(char) > width and rows[-1]:
            rows.append("")
            cells = 0
        rows[-1] += char
        cells += wcwidth(char)
    return rows


def text_of(row: Row) -> str:
    return "".join(piece.text for piece in row.pieces)


def all_rows(page: Page) -> list[Row]:
    return page.rows(page.top(), 1_000_000)


def split(content: bytes) -> list[bytes]:
    lines = content.split(b"\n")
    return lines if lines[-1] else lines[:-1]


@settings(max_examples=300, deadline=None)
@given(content=CONTENT, width=st.integers(2, 30), raw=st.booleans())
def test_wrapping(path: Path, content: bytes, width: int, raw: bool) -> None:
    log = opened(path, content)
    page = Page(FileLines(log), width)
    page.wrap, page.raw = True, raw
    rows = all_rows(page)
    assert [text_of(row) for row in rows] == [
        text for line in split(content) for text in wrapped(expected(line, raw), width)
    ]
    for row in rows:
        assert cell_len(text_of(row)) <= width
        assert not FORBIDDEN.search(text_of(row))
    assert sum(row.head for row in rows) == len(split(content))
    log.close()


@settings(max_examples=300, deadline=None)
@given(content=CONTENT, width=st.integers(2, 30), left=st.integers(0, 40))
def test_scrolling_sideways(path: Path, content: bytes, width: int, left: int) -> None:
    log = opened(path, content)
    page = Page(FileLines(log), width)
    page.left = left
    for row, line in zip(all_rows(page), split(content), strict=True):
        text, shown, cell = expected(line, False), "", 0
        for char in text:
            size = wcwidth(char)
            if cell >= left and cell + size <= left + width and (size or cell > left):
                shown += char
            cell += size
        assert text_of(row).strip(" ").startswith(shown.strip(" ")[:-1])
        assert cell_len(text_of(row)) <= width
        assert row.after == (cell > left + width)
    log.close()


@settings(max_examples=150, deadline=None)
@given(content=CONTENT, width=st.integers(2, 30), wrap=st.booleans(), height=st.integers(1, 8))
def test_moving_up_is_moving_down_reversed(
    path: Path, content: bytes, width: int, wrap: bool, height: int
) -> None:
    log = opened(path, content)
    log.marks = (Mark(len(content) // 2, "truncated"), Mark(len(content), "gone"))
    page = Page(FileLines(log), width)
    page.wrap = wrap
    anchors = [row.anchor for row in all_rows(page)]
    back: list[Anchor] = []
    anchor = page.bottom(1)
    while anchor is not None:
        back.append(anchor)
        anchor = page.before(anchor)
    assert back[::-1] == anchors
    if anchors:
        assert page.bottom(height) == anchors[max(0, len(anchors) - height)]
        assert page.move(anchors[0], len(anchors) + 5) == anchors[-1]
    log.close()


@pytest.mark.parametrize(("colours", "rows"), [(20_000, 2), (400_000, 8)])
def test_a_part_of_a_long_line_that_shows_nothing_is_no_row(path: Path, colours: int, rows: int) -> None:
    """Of very many of them every 64th is one."""
    log = opened(path, b"before\n" + b"\x1b[1m" * colours + b"bold\nafter\n")
    page = Page(FileLines(log), 80)
    page.wrap = True
    found = all_rows(page)
    assert [text_of(row) for row in found] == ["before", *[""] * (rows - 1), "bold", "after"]
    back = [page.bottom(1)]
    while (last := back[-1]) is not None:
        back.append(page.before(last))
    assert back[-2::-1] == [row.anchor for row in found]


@settings(max_examples=100, deadline=None)
@given(
    parts=st.lists(
        st.sampled_from(
            [
                b"x" * 900,
                "中文字".encode() * 300,
                b"\x1b[31m" * 30 + b"red",
                b"\xff\xfe" * 50,
                "é".encode() * 777,
            ]
        ),
        min_size=1,
        max_size=80,
    ),
    left=st.integers(0, 30_000),
)
def test_a_long_line_is_shown_in_parts(path: Path, parts: list[bytes], left: int) -> None:
    line = b"".join(parts)
    log = opened(path, b"before\n" + line + b"\nafter\n")
    layout = LineLayout(log.file, 7, 7 + len(line))
    text = steady(SGR.sub("", line.decode("utf-8", "surrogateescape")))
    assert "".join(layout.part(number).text for number in range(layout.parts)) == text
    assert layout.cells == cells_of(text)
    page = Page(FileLines(log), 40)
    page.left = left
    shown = text_of(all_rows(page)[1])
    assert cell_len(shown) <= 40
    ends = [0]
    for char in text:
        ends.append(ends[-1] + wcwidth(char))
    visible = [
        char
        for char, start, end in zip(text, ends, ends[1:], strict=False)
        if start >= left and end <= left + 40
    ]
    assert shown.strip() == "".join(visible).strip()
    page.wrap = True
    assert "".join(text_of(row) for row in all_rows(page)[1:-1]) == text
    log.close()


@settings(max_examples=200, deadline=None)
@given(content=CONTENT, wrap=st.booleans(), at=st.floats(0, 1))
def test_showing_a_byte(path: Path, content: bytes, wrap: bool, at: float) -> None:
    if not content:
        return
    log = opened(path, content)
    page = Page(FileLines(log), 10)
    page.wrap = wrap
    offset = min(len(content) - 1, int(at * len(content)))
    anchor = page.show(log, offset)
    assert anchor is not None
    assert anchor.position == content.rfind(b"\n", 0, offset) + 1
    assert anchor in [row.anchor for row in all_rows(page)]
    log.close()


def test_a_search_hit_is_shown_and_marked(path: Path) -> None:
    log = opened(path, b"one\n" + b"." * 50_000 + b"needle" + b"." * 10 + b"\nlast needle\n")
    page = Page(FileLines(log), 40)
    page.highlight(Query("Needle"))
    for wrap in (False, True):
        page.wrap = wrap
        anchor = page.show(log, 4 + 50_000)
        assert anchor is not None
        row = page.row(anchor)
        assert [piece.text for piece in row.pieces if piece.hit] in (["needle"], ["need"], ["ne"])
    page.wrap = False
    page.left = 0
    assert [piece for row in all_rows(page) for piece in row.pieces if piece.hit][-1].text == "needle"


def test_colours_reset_at_each_line_and_carry_within_a_long_one(path: Path) -> None:
    log = opened(path, b"\x1b[31mred\nplain\n\x1b[32m" + b"g" * 30_000 + b"\n")
    page = Page(FileLines(log), 10)
    red, plain, _ = all_rows(page)
    assert red.pieces[0].style == Sgr(foreground=1)
    assert plain.pieces[0].style == Sgr()
    page.left = 25_000
    assert all_rows(page)[2].pieces[0].style == Sgr(foreground=2)


def test_progress_bars_show_their_last_state(path: Path) -> None:
    log = opened(path, b"10%\r50%\r100%\r\nnext\r\n\r\r\n5%\r\x1b[K\n")
    page = Page(FileLines(log), 20)
    rows = all_rows(page)
    assert [text_of(row) for row in rows] == ["100%", "next", "", "5%"]
    assert [row.hidden for row in rows] == [True, False, False, False]
    page.raw = True
    assert [text_of(row) for row in all_rows(page)] == ["10%␍50%␍100%␍", "next␍", "␍␍", "5%␍␛[K"]


def test_gaps_are_rows_of_their_own(path: Path) -> None:
    log = opened(path, b"one\ntwo\n")
    log.marks = (Mark(4, "truncated", 100),)
    rows = all_rows(Page(FileLines(log), 80))
    assert [text_of(row) or row.mark for row in rows] == [
        "one",
        "at least 100 bytes are missing here: the file was truncated on the host",
        "two",
    ]


@pytest.mark.parametrize("content", [b"one\ntwo\n", b"one\ntwo"])
def test_a_gap_at_the_end_comes_after_the_last_line_until_more_comes(path: Path, content: bytes) -> None:
    log = opened(path, content)
    log.marks = (Mark(len(content), "gone", 7, True),)
    gap = "7 bytes are missing here: the source had already dropped them"
    page = Page(FileLines(log), 80)
    assert [text_of(row) or row.mark for row in all_rows(page)] == ["one", "two", gap]
    end = page.bottom(1)
    assert end is not None and page.after(end) is None
    with path.open("ab") as file:
        file.write(b"more\nend\n")
    log.file.refresh()
    assert [text_of(row) or row.mark for row in all_rows(page)][-1] == "end"
    assert page.after(end) is not None


def test_filtered_lines_keep_their_numbers(path: Path) -> None:
    log = opened(path, b"a\nb\na\nc\na\n")
    sieve = Sieve(log.file, Query("a", case=True).finder())
    sieve.extend()
    page = Page(SievedLines(log, sieve), 10)
    assert [page.lines.place(row.anchor.position).number for row in all_rows(page)] == [1, 3, 5]
    anchor = page.show(log, 2)
    assert anchor == Anchor(4)
    assert page.bottom(2) == Anchor(4)


def test_an_empty_file_has_no_rows(path: Path) -> None:
    log = opened(path, b"")
    page = Page(FileLines(log), 10)
    assert page.top() is None and page.bottom(5) is None and page.rows(None, 5) == []
    assert page.show(log, 0) is None
