"""The log view, in Textual's own harness and in a real tmux."""

from __future__ import annotations

import gzip
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual import events
from textual.binding import Binding
from textual.pilot import Pilot
from textual.widgets import Input

from cockpit.logs.filters import Filter
from cockpit.logs.search import Query
from cockpit.tui.log_desk import LogDesk, NamesLine
from cockpit.tui.log_keys import LOG_KEYS, LogHelp, markdown_table
from cockpit.tui.log_pane import LogPane
from cockpit.tui.log_status import StatusLine
from cockpit.tui.log_typed import read_filter, read_query
from cockpit.tui.log_view import LogView
from cockpit.tui.view_app import FileUnreadable, ViewApp, open_logs

LINES = 3000


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "serve.log"
    path.write_text("".join(line(number) for number in range(1, LINES + 1)))
    return path


def line(number: int) -> str:
    level = "ERROR" if number in (700, 701, 2000) else "INFO"
    second = number // 100
    return f"(EngineCore pid=7) {level} 11-30 20:00:{second:02d} [core.py:1] number {number}\n"


@asynccontextmanager
async def shown(*paths: Path, size: tuple[int, int] = (80, 24)) -> AsyncIterator[tuple[Pilot[None], LogView]]:
    app = ViewApp(open_logs(paths))
    async with app.run_test(size=size) as pilot:
        view = app.query(LogView).first()
        await until(pilot, lambda: view.shown.index.complete and bool(screen(view)))
        yield pilot, view


async def until(pilot: Pilot[None], holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline, "did not come true within 20 s"
        await pilot.pause(0.02)


def screen(view: LogView) -> list[str]:
    return [
        view.render_line(y).text.rstrip() for y in range(view.size.height) if view.render_line(y).text.strip()
    ]


def status(view: LogView) -> str:
    assert isinstance(view.parent, LogPane)
    return view.parent.query_one(StatusLine).words


async def type_in(pilot: Pilot[None], key: str, text: str) -> None:
    await pilot.press(key)
    await pilot.press(*["space" if char == " " else char for char in text], "enter")


async def test_opens_at_the_end_with_the_files_own_numbers(log: Path) -> None:
    async with shown(log) as (pilot, view):
        last = ["3000", line(3000).strip()]
        await until(pilot, lambda: screen(view)[-1].split(maxsplit=1) == last)
        assert len(screen(view)) == view.size.height
        assert "following" in status(view)


async def test_follows_pauses_and_counts(log: Path) -> None:
    async with shown(log) as (pilot, view):
        with log.open("a") as file:
            file.write("one more\n")
        await until(pilot, lambda: screen(view)[-1].endswith("one more"))
        await pilot.press("up")
        with log.open("a") as file:
            file.write("and\nanother\n")
        await until(pilot, lambda: "paused, 2 new lines" in status(view))
        assert screen(view)[-1].endswith("one more")
        await pilot.press("G")
        await until(pilot, lambda: screen(view)[-1].endswith("another"))


async def test_moves(log: Path) -> None:
    async with shown(log) as (pilot, view):
        await pilot.press("g")
        assert screen(view)[0].startswith("▸    1")
        await pilot.press("pagedown", "down")
        assert view.current is not None and view.current.number == view.size.height + 1
        await pilot.press("end")
        assert screen(view)[-1].split()[0] == "3000"
        await type_in(pilot, "colon", "1234")
        assert view.current.number == 1234
        await type_in(pilot, "colon", "20:00:15")
        assert view.current.number == 1500
        await type_in(pilot, "colon", "9999")
        assert "There is no line 9999" in status(view)
        await type_in(pilot, "colon", "noon")
        assert "neither a line number nor a time" in status(view)


async def test_errors(log: Path) -> None:
    async with shown(log) as (pilot, view):
        await pilot.press("g", "e")
        await until(pilot, lambda: view.current and view.current.number == 700)
        await pilot.press("e")
        await until(pilot, lambda: view.current and view.current.number == 2000)
        await pilot.press("e")
        await until(pilot, lambda: "No error further down" in status(view))
        await pilot.press("E")
        await until(pilot, lambda: view.current and view.current.number == 700)


async def test_search_counts_and_marks_hits(log: Path) -> None:
    async with shown(log) as (pilot, view):
        await pilot.press("g")
        await type_in(pilot, "slash", "number 29")
        await until(pilot, lambda: "111" in status(view) and view.current and view.current.number == 29)
        assert "“number 29”: 1 of 111" in status(view)
        row = view.render_line(view.cursor)
        assert [segment.text for segment in row if segment.style and segment.text == "number 29"] == [
            "number 29"
        ]
        await pilot.press("n")
        await until(pilot, lambda: view.current and view.current.number == 290)
        await pilot.press("N", "N")
        await until(pilot, lambda: "No hit further up" in status(view))
        await type_in(pilot, "slash", "/number 1..0$/")
        await until(pilot, lambda: "100" in status(view))
        await type_in(pilot, "slash", "/(/")
        await until(pilot, lambda: "is no regular expression" in status(view))
        await pilot.press("escape")
        assert view.wanted is None


async def test_a_search_at_the_end_finds_what_came_before(log: Path) -> None:
    async with shown(log) as (pilot, view):
        await type_in(pilot, "slash", "number 29")
        await until(pilot, lambda: "“number 29”: 111 of 111" in status(view))
        assert view.current is not None and view.current.number == 2999
        await type_in(pilot, "slash", "number 1234")
        await until(pilot, lambda: view.current and view.current.number == 1234)
        await type_in(pilot, "slash", "nowhere")
        await until(pilot, lambda: "No hit. " in status(view))


async def test_filter_keeps_the_numbers_and_the_place(log: Path) -> None:
    async with shown(log) as (pilot, view):
        await type_in(pilot, "colon", "700")
        await type_in(pilot, "ampersand", "level:ERROR")
        await until(pilot, lambda: len(screen(view)) == 3)
        assert [row.lstrip("▸").split()[0] for row in screen(view)] == ["700", "701", "2000"]
        assert "only ERROR and above: 3 lines" in status(view)
        with log.open("a") as file:
            file.write(line(3001) + line(3002).replace("INFO", "ERROR"))
        await until(pilot, lambda: len(screen(view)) == 4)
        await pilot.press("escape")
        await until(pilot, lambda: len(screen(view)) == view.size.height)
        assert view.current is not None and view.current.number == 700


async def test_lines_of_a_host_by_its_name(tmp_path: Path) -> None:
    """In a serve log Ray tells the other host's lines by their address, and its own by none."""
    path = tmp_path / "log"
    path.write_text("(RayWorkerProc pid=7) here\n(RayWorkerProc pid=8, ip=10.0.0.2) there\n")
    async with shown(path) as (pilot, view):
        assert isinstance(view.parent, LogPane)
        view.parent.hosts = {"spark-1": "head", "spark-2": "10.0.0.2"}
        await type_in(pilot, "ampersand", "host:spark-2")
        await until(pilot, lambda: [row.split()[-1] for row in screen(view)] == ["there"])
        await type_in(pilot, "ampersand", "host:spark-1")
        await until(pilot, lambda: [row.split()[-1] for row in screen(view)] == ["here"])


async def test_wrap_raw_and_sideways(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"short\n" + b"0123456789" * 20 + b"END\n" + b"1%\r99%\n")
    async with shown(path) as (pilot, view):
        assert [row.endswith("›") for row in screen(view)] == [False, True, False]
        await pilot.press("l", "l", "l", "l")
        assert any("END" in row for row in screen(view))
        await pilot.press("w")
        assert any("END" in row for row in screen(view)) and len(screen(view)) > 3
        assert screen(view)[-1].endswith("↺99%")
        await pilot.press("r")
        assert screen(view)[-1].endswith("1%␍99%")


async def test_folding_counts_equal_lines(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("a\n" + "".join(f"INFO 11-30 20:00:{at:02d} [a.py:1] again\n" for at in range(40)) + "z\n")
    async with shown(path) as (pilot, view):
        await pilot.press("z")
        await until(pilot, lambda: len(screen(view)) == 3)
        assert screen(view)[1].endswith("again  ×40")
        await pilot.press("z")
        await until(pilot, lambda: len(screen(view)) > 3)


async def test_marks_copy_and_save_the_exact_bytes(log: Path, tmp_path: Path) -> None:
    with log.open("ab") as file:
        file.write(b"\xff\x00\x1b[31mred\r\nlast")
    async with shown(log) as (pilot, view):
        await type_in(pilot, "colon", "3001")
        await pilot.press("c")
        assert "became U+FFFD" in status(view)
        assert pilot.app.clipboard == "�\x00\x1b[31mred\r\n"
        await pilot.press("m", "down")
        await type_in(pilot, "s", str(tmp_path / "saved"))
        assert (tmp_path / "saved").read_bytes() == b"\xff\x00\x1b[31mred\r\nlast"
        await pilot.press("apostrophe")
        assert view.current is not None and view.current.number == 3001
        await pilot.press("m")
        await type_in(pilot, "s", str(tmp_path / "whole"))
        assert (tmp_path / "whole").read_bytes() == log.read_bytes()
        await type_in(pilot, "s", str(tmp_path / "whole"))
        assert "File exists" in status(view)


async def test_the_whole_record(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(
        "INFO 11-30 20:00:00 [a.py:1] first\n  goes on [red]\x1b]2;x\x07\nINFO 11-30 20:00:01 [a.py:1] next\n"
    )
    async with shown(path) as (pilot, view):
        await pilot.press("g", "down", "enter")
        await until(pilot, lambda: "goes on" in detail(view))
        assert detail(view) == "INFO 11-30 20:00:00 [a.py:1] first\n  goes on [red]␛]2;x␇"
        await pilot.press("down")
        await until(pilot, lambda: detail(view).endswith("next"))


async def test_a_traceback_is_a_record_and_the_selected_line_stays_in_sight(tmp_path: Path) -> None:
    path = tmp_path / "log"
    frames = "".join(f'(APIServer pid=7)   File "a.py", line {at}, in f\n' for at in range(60))
    head = "(APIServer pid=7) INFO 11-30 20:00:00 [a.py:1] before\n(APIServer pid=7) Traceback (most recent call last):\n"
    path.write_text(head + frames + "(APIServer pid=7) ValueError: it\n")
    async with shown(path) as (pilot, view):
        await pilot.press("E")
        await until(pilot, lambda: view.current and view.current.number == 63)
        await pilot.press("enter")
        await until(pilot, lambda: "ValueError" in detail(view) and view.size.height < 20)
        assert detail(view).startswith("(APIServer pid=7) Traceback")
        assert view.current is not None and view.current.number == 63
        box = view.app.query("VerticalScroll").first()
        await until(pilot, lambda: box.scroll_offset.y > 40)


def detail(view: LogView) -> str:
    return str(view.app.query("VerticalScroll > Static").first().render())


async def test_a_file_that_begins_anew_is_said(log: Path) -> None:
    async with shown(log) as (pilot, view):
        log.write_text("fresh\n")
        await until(pilot, lambda: screen(view) == ["     1 fresh"])
        await until(pilot, lambda: "began anew" in status(view))


async def test_an_empty_file_that_fills(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.touch()
    app = ViewApp(open_logs([path]))
    async with app.run_test(size=(80, 24)) as pilot:
        view = app.query_one(LogView)
        await pilot.press("g", "down", "pageup", "e", "m", "c", "w", "enter", "escape", "G")
        path.write_text("at last\n")
        await until(pilot, lambda: screen(view) == ["     1 at last"])


async def test_several_files(log: Path, tmp_path: Path) -> None:
    other = tmp_path / "[red]other[b].log"
    other.write_text("something else\n")
    async with shown(log, other) as (pilot, first):
        names = pilot.app.query_one(NamesLine)
        assert names.render_line(0).text.startswith(" 1 serve.log  2 [red]other[b].log  ")
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: len(pilot.app.query(LogPane)) == 2)
        second = pilot.app.query(LogPane)[1].view
        await until(pilot, lambda: screen(second) == ["     1 something else"])
        assert second.has_focus and not first.parent.display
        await pilot.click(NamesLine, offset=(4, 0))
        await until(pilot, lambda: first.has_focus)


def hosts_logs(folder: Path) -> list[Path]:
    """Two hosts' logs, a line every two seconds in turn; the second has an error and a progress bar."""
    paths = [folder / name / "serve.log" for name in ("spark-1", "spark-2")]
    for odd, path in enumerate(paths):
        path.parent.mkdir()
        lines = [
            f"INFO 11-30 20:{second // 60:02d}:{second % 60:02d} [a.py:1] at {second}\n"
            for second in range(odd, 600, 2)
        ]
        path.write_text("".join(lines))
    with paths[1].open("a") as file:
        file.write("ERROR 11-30 20:10:01 [a.py:1] bad\nweights:  10%\rweights:  20%")
    return paths


def texts(view: LogView) -> list[str]:
    return [row.rpartition("] ")[2] for row in screen(view)]


async def test_two_hosts_by_time(tmp_path: Path) -> None:
    async with shown(*hosts_logs(tmp_path), size=(120, 24)) as (pilot, _):
        await pilot.press("M")
        await until(pilot, lambda: len(pilot.app.query(LogPane)) == 2)
        view = pilot.app.query(LogPane)[1].view
        await until(pilot, lambda: view.logs.complete and len(screen(view)) == view.size.height)
        assert screen(view)[-1].endswith("  302 spark-2↺weights:  20%")
        assert texts(view)[-4:-1] == ["at 598", "at 599", "bad"]
        # A time, and the line numbers of the lines' own files.
        await type_in(pilot, "colon", "20:05")
        assert view.current is not None and view.current.number == 151
        assert screen(view)[view.cursor].startswith("▸  151 spark-1 ")
        assert texts(view)[view.cursor + 1] == "at 301"
        # Hits of both logs in their order, counted together.
        await pilot.press("g")
        await type_in(pilot, "slash", "/at 1[01]$/")
        await until(pilot, lambda: "“at 1[01]$”: 1 of 2" in status(view))
        await pilot.press("n")
        await until(pilot, lambda: "“at 1[01]$”: 2 of 2" in status(view) and view.shown.name == "spark-2")
        await pilot.press("N")
        await until(pilot, lambda: "“at 1[01]$”: 1 of 2" in status(view) and view.shown.name == "spark-1")
        await pilot.press("e")
        await until(pilot, lambda: texts(view)[view.cursor] == "bad")
        # Marks, and a filter by host.
        await pilot.press("m", "g", "m", "apostrophe")
        assert texts(view)[view.cursor] == "bad"
        await type_in(pilot, "ampersand", "host:spark-1 9")
        await until(pilot, lambda: "lines" in status(view) and texts(view) and texts(view)[-1] == "at 598")
        assert all("spark-1" in row for row in screen(view))
        await pilot.press("escape", "escape")
        await until(pilot, lambda: any("spark-2" in row for row in screen(view)))


async def test_a_line_that_comes_late_leaves_the_reader_where_he_is(tmp_path: Path) -> None:
    paths = hosts_logs(tmp_path)
    async with shown(*paths, size=(120, 24)) as (pilot, _):
        await pilot.press("M")
        await until(pilot, lambda: len(pilot.app.query(LogPane)) == 2)
        view = pilot.app.query(LogPane)[1].view
        await until(pilot, lambda: view.logs.complete and screen(view))
        await type_in(pilot, "colon", "20:09:50")
        before = texts(view)
        with paths[0].open("a") as file:
            file.write("INFO 11-30 20:10:00 [a.py:1] late\n")
        await pilot.press("down")
        await until(pilot, lambda: "late" in texts(view))
        assert texts(view)[: before.index("at 599")] == before[: before.index("at 599")]
        assert texts(view)[view.cursor] == "at 591"


async def test_side_by_side_at_the_same_time(tmp_path: Path) -> None:
    async with shown(*hosts_logs(tmp_path), size=(140, 24)) as (pilot, first):
        await pilot.press("vertical_line")
        await until(pilot, lambda: len(pilot.app.query(LogPane)) == 2)
        second = pilot.app.query(LogPane)[1].view
        await until(pilot, lambda: second.shown.index.complete and screen(second))
        assert first.region.y == second.region.y and first.size.width == second.size.width
        for view in (first, second):
            await until(pilot, lambda view=view: view.render_line(0).cell_length == view.size.width)
        await type_in(pilot, "colon", "20:03:20")
        await until(pilot, lambda: second.current and second.current.number == 101)
        assert texts(first)[first.cursor] == "at 200" and texts(second)[second.cursor] == "at 201"
        await pilot.press("G")
        await until(pilot, lambda: second.following)
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: first.region.y < second.region.y)
        await pilot.press("vertical_line")
        await until(pilot, lambda: first.size.height == 21)


def test_the_readme_has_the_keys() -> None:
    assert markdown_table() in (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


async def test_every_key_is_in_the_help(log: Path) -> None:
    async with shown(log) as (pilot, view):
        await pilot.press("question_mark")
        assert isinstance(pilot.app.screen, LogHelp)
        told = " ".join(keys for _, group in LOG_KEYS for keys, _ in group).split()
        names = {"slash": "/", "ampersand": "&", "colon": ":", "enter": "⏎", "escape": "esc", "apostrophe": "'"}
        names |= {
            "up": "↑",
            "down": "↓",
            "left": "←",
            "right": "→",
            "pageup": "⇞",
            "pagedown": "⇟",
            "space": "␣",
        }
        names |= {"left_square_bracket": "[", "right_square_bracket": "]", "vertical_line": "|"}
        for widget in (LogView, LogPane, LogDesk):
            for binding in Binding.make_bindings(widget.BINDINGS):
                if binding.key not in ("home", "end"):
                    assert names.get(binding.key, binding.key) in told, binding.key
        await pilot.press("escape")
        assert view.has_focus


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50), (20, 5)])
async def test_sizes(log: Path, size: tuple[int, int]) -> None:
    async with shown(log, size=size) as (pilot, view):
        assert all(view.render_line(y).cell_length == size[0] for y in range(view.size.height))
        await pilot.resize_terminal(60, 20)
        await until(pilot, lambda: view.size.width == 60 and view.render_line(0).cell_length == 60)


async def test_a_compressed_file_and_one_that_was_cut_off(log: Path, tmp_path: Path) -> None:
    packed, cut = tmp_path / "serve.log.1.gz", tmp_path / "serve.log.2.gz"
    packed.write_bytes(gzip.compress(log.read_bytes()))
    cut.write_bytes(packed.read_bytes()[:-100])
    async with shown(packed) as (pilot, view):
        await until(pilot, lambda: f"unpacked, {log.stat().st_size:,} bytes" in status(view))
        assert screen(view)[-1].split()[0] == "3000"
        await type_in(pilot, "s", str(tmp_path / "saved"))
        assert (tmp_path / "saved").read_bytes() == log.read_bytes()
    async with shown(cut) as (pilot, view):
        await until(pilot, lambda: "cut off before its end" in status(view) and "1 gap" in status(view))
        assert "── the compressed data was cut off before its end" in screen(view)[-1]
        assert screen(view)[-1].endswith("…") and view.render_line(view.size.height - 1).cell_length == 80
        await pilot.press("up", "up")
        assert view.current is not None and view.current.number == view.shown.index.lines - 1
        await pilot.press("w", "G")
        assert "── the compressed data" in " ".join(screen(view)[-2:])


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileUnreadable, match="Is a directory"):
        open_logs([tmp_path])
    with pytest.raises(FileUnreadable, match="No such file"):
        open_logs([tmp_path / "none"])


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("word", Query("word")),
        ("Word", Query("Word", case=True)),
        ("/a+b/", Query("a+b", regex=True)),
        ("/", Query("/")),
        ("a/b", Query("a/b")),
    ],
)
def test_queries_as_typed(text: str, query: Query) -> None:
    assert read_query(text) == query


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("level:warn", Filter(level="WARNING")),
        ("level:error rank:1", Filter(level="ERROR", ranks=frozenset({1}))),
        ("!kv cache", Filter(Query("kv cache"), invert=True)),
        ("process:EngineCore host:10.0.0.2", Filter(processes=frozenset({"EngineCore"}), address="10.0.0.2")),
        ("http://x level:none", Filter(Query("http://x level:none"))),
    ],
)
def test_filters_as_typed(text: str, wanted: Filter) -> None:
    assert read_filter(text) == wanted


HOSTILE = (
    b"\x1b]52;c;UFdORUQ=\x07\x1b]2;TITLEPWN\x07\x1b]0;TITLEPWN\x1b\\ OSC\n"
    b"\x1bPtmux;\x1b\x1b]52;c;UFdORUQ=\x07\x1b\\ DCS\n"
    b"\x1b[2J\x1b[H\x1b[6n\x1b[c\x1b[5n\x1b[>q\x1b[?1049l cursor and queries\n"
    b"\x9d2;TITLEPWN\x9c \xc2\x9d2;TITLEPWN\xc2\x9c C1\n"
    b"\x1b[?2004h\x1b[?1000h\x1bc\x1bkTITLEPWN\x1b\\ modes, reset, title\n"
    b"[red]markup[/] [/] [@click=app.quit]x[/]\n"
    + "\U0001f469\u200d\U0001f4bb\u26a0\ufe0f\U0001f1e9\U0001f1ea".encode() * 60
    + b" wide\n\x00\x07\x08\x0e\x0f\x7f controls\n"
)


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Callable[..., str]]:
    program = shutil.which("tmux")
    if program is None:
        pytest.skip("no tmux here")
    socket = str(tmp_path / "tmux")

    def run(*words: str) -> str:
        done = subprocess.run(
            [program, "-S", socket, "-f", "/dev/null", *words], capture_output=True, text=True, timeout=20
        )
        return done.stdout

    yield run
    run("kill-server")


def test_a_hostile_log_changes_nothing_outside_its_pane(tmux: Callable[..., str], tmp_path: Path) -> None:
    """Two panes side by side, the view in the right one: title, paste buffer and the left pane stay."""
    path = tmp_path / "hostile.log"
    path.write_bytes(HOSTILE)
    code = (
        "import sys; from pathlib import Path; from cockpit.tui.view_app import view_files; "
        "view_files([Path(sys.argv[1])])"
    )
    view = f"exec {sys.executable} -c '{code}' {path}"
    root = str(Path(__file__).parents[2])
    tmux("new-session", "-d", "-x", "161", "-y", "30", "-c", root, "yes untouched | head -28; exec cat")
    tmux("set", "-g", "set-clipboard", "on")
    tmux("set", "-g", "allow-passthrough", "off")
    tmux("split-window", "-h", "-c", root, view)
    tmux("select-pane", "-t", "1", "-T", "mine")
    wait_for(lambda: "controls" in tmux("capture-pane", "-p", "-t", "1"))
    left = tmux("capture-pane", "-p", "-e", "-t", "0")
    for keys in ("g", "w", "r", "Enter", "G", "Escape", "w"):
        tmux("send-keys", "-t", "1", keys)
    tmux("send-keys", "-t", "1", "g")
    wait_for(lambda: "▸    1" in tmux("capture-pane", "-p", "-t", "1"))
    assert "␛]52;c;UFdORUQ=␇␛]2;TITLEPWN␇" in tmux("capture-pane", "-p", "-t", "1")
    assert "TITLEPWN" not in tmux("display", "-p", "-t", "1", "#{pane_title} #{window_name} #{session_name}")
    assert tmux("list-buffers") == ""
    assert tmux("capture-pane", "-p", "-e", "-t", "0") == left
    assert left.count("untouched") == 28
    assert tmux("display", "-p", "-t", "1", "#{alternate_on}").strip() == "1"


def wait_for(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline, "did not come true within 30 s"
        time.sleep(0.05)


async def test_keys_on_their_way_come_before_those_that_reached_the_prompt(log: Path) -> None:
    async with shown(log) as (pilot, view):
        pane = view.parent
        assert isinstance(pane, LogPane)
        pane.action_ask("search")
        pane.on_key(events.Key("n", "n"))
        prompt = pane.query_one(Input)
        prompt.insert_text_at_cursor("ber")
        for key in "um":
            pane.on_key(events.Key(key, key))
        prompt.insert_text_at_cursor(" 700")
        assert (prompt.value, prompt.cursor_position) == ("number 700", 10)
        pane.on_key(events.Key("enter", "\r"))
        await until(pilot, lambda: view.current and view.current.number == 700)


def test_nothing_is_written_beside_the_log(log: Path) -> None:
    before = sorted(log.parent.iterdir())
    for opened in open_logs([log]):
        opened.close()
    assert sorted(log.parent.iterdir()) == before


def test_standard_input_while_it_comes_and_after(tmux: Callable[..., str], tmp_path: Path) -> None:
    """The keys come from the terminal, and what feeds the pipe is suspended with the view."""
    root = str(Path(__file__).parents[2])
    feed, held = tmp_path / "feed", tmp_path / "held"
    feed.write_text(
        "import sys, time\nfrom pathlib import Path\n"
        "print('first', flush=True)\n"
        f"while not Path({str(held)!r}).exists(): time.sleep(0.05)\n"
        "print('last', flush=True)\n"
    )
    tmux("new-session", "-d", "-x", "100", "-y", "20", "-c", root, "bash --norc --noprofile -i")
    tmux("send-keys", f"{sys.executable} {feed} | {sys.executable} -m cockpit view -", "Enter")
    wait_for(lambda: "1 first" in tmux("capture-pane", "-p"))
    assert "standard input · reading, 6 bytes so far" in tmux("capture-pane", "-p")
    tmux("send-keys", "C-z")
    wait_for(lambda: "Stopped" in tmux("capture-pane", "-p"))
    tmux("send-keys", "fg", "Enter")
    wait_for(lambda: "1 first" in tmux("capture-pane", "-p"))
    held.touch()
    wait_for(lambda: "read to its end, 11 bytes" in tmux("capture-pane", "-p"))
    tmux("send-keys", "g")
    wait_for(lambda: "line 1 of 2" in tmux("capture-pane", "-p"))
    tmux("send-keys", "q")
    wait_for(lambda: "1 first" not in tmux("capture-pane", "-p"))


@pytest.mark.parametrize("piped", ["< {}", "< <(cat {})", "<(cat {})"])
def test_a_file_redirected_and_a_process_substituted(tmux: Callable[..., str], log: Path, piped: str) -> None:
    root = str(Path(__file__).parents[2])
    dash = "- " if piped.startswith("< ") else ""
    tmux("new-session", "-d", "-x", "120", "-y", "20", "-c", root, "bash --norc --noprofile -i")
    tmux("send-keys", f"{sys.executable} -m cockpit view {dash}{piped.format(log)}", "Enter")
    wait_for(lambda: "line 3,000 of 3,000" in tmux("capture-pane", "-p"))


def test_keys_that_come_all_at_once_reach_the_prompt(tmux: Callable[..., str], log: Path) -> None:
    """As a fast typist's, or a pasted search, in a real terminal."""
    root = str(Path(__file__).parents[2])
    view = f"exec {sys.executable} -m cockpit view {log}"
    tmux("new-session", "-d", "-x", "80", "-y", "24", "-c", root, view)
    wait_for(lambda: "line 3,000 of 3,000" in tmux("capture-pane", "-p"))
    tmux("send-keys", "g")
    wait_for(lambda: "line 1 of 3,000" in tmux("capture-pane", "-p"))
    tmux("send-keys", "/number 1234", "Enter")
    wait_for(lambda: "“number 1234”: 1 of 1" in tmux("capture-pane", "-p"))
    assert "▸ 1234" in tmux("capture-pane", "-p")
    whole = line(2345).strip()
    tmux("send-keys", f"/{whole}", "Enter")
    wait_for(lambda: "▸ 2345" in tmux("capture-pane", "-p"))
    tmux("send-keys", "/")
    wait_for(lambda: "/ text, or /regex/" in tmux("capture-pane", "-p"))
    tmux("send-keys", "-l", "[red]x")
    wait_for(lambda: "/ [red]x" in tmux("capture-pane", "-p"))
