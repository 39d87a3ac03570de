"""Lines of logs taken apart: every prefix, in every nesting, and whatever else a line may hold."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.logs.records import is_bar, parse_line, records, stream_of, strip_ansi

CAPTURES = Path(__file__).parent.parent / "data" / "captures"


def test_a_record_of_vllm() -> None:
    line = parse_line("(EngineCore pid=7) INFO 11-30 20:26:26 [core.py:133] Initializing")
    assert (line.process, line.pid, line.level) == ("EngineCore", 7, "INFO")
    assert (line.time, line.source, line.text) == ("11-30 20:26:26", "core.py:133", "Initializing")


def test_three_prefixes_with_colours() -> None:
    raw = (
        "(EngineCore pid=1) \x1b[36m(RayWorkerProc pid=6, ip=10.0.0.2)\x1b[0m "
        "(Worker_TP1 pid=6) ERROR 11-30 20:26:26 [a/b.py:5] gone\r"
    )
    line = parse_line(raw)
    assert line.chain == ("EngineCore", "RayWorkerProc", "Worker_TP1")
    assert (line.process, line.pid, line.ip, line.level, line.text) == (
        "Worker_TP1",
        6,
        "10.0.0.2",
        "ERROR",
        "gone",
    )


@pytest.mark.parametrize(
    ("raw", "level", "source", "text"),
    [
        ("INFO 10-01 10:00:00 api_server.py:712] old", "INFO", "api_server.py:712", "old"),
        ("2026-11-30 20:26:26,100\tINFO worker.py:1691 -- Using", "INFO", "worker.py:1691", "Using"),
        ("[2026-11-30 20:26:26,100 W 39 40] rpc_client.h:153: Failed", "WARNING", "rpc_client.h:153", "Failed"),
        (
            "[W1130 20:26:26.000000001 socket.cpp:207] [c10d] no name",
            "WARNING",
            "socket.cpp:207",
            "[c10d] no name",
        ),
        ("[rank1]:[E1130 20:26:26.1 PG.cpp:6] late", "ERROR", "PG.cpp:6", "late"),
        ("INFO:     Application startup complete.", "INFO", "", "Application startup complete."),
        ("h1:10:11 [0] misc/a.cc:4 NCCL WARN broken", "WARNING", "misc/a.cc:4", "broken"),
        ("vllm-1  | INFO 11-30 20:26:26 [core.py:1] x", "INFO", "core.py:1", "x"),
        ("2026-11-30T20:26:26.1Z stderr F INFO 11-30 20:26:26 [core.py:1] x", "INFO", "core.py:1", "x"),
    ],
)
def test_heads_of_every_kind(raw: str, level: str, source: str, text: str) -> None:
    line = parse_line(raw)
    assert (line.level, line.source, line.text) == (level, source, text)


def test_nccl_names_its_host_and_rank_prefixes_their_rank() -> None:
    assert parse_line("spark-02:10:11 [0] NCCL INFO up").host == "spark-02"
    assert parse_line("[rank3]: Traceback").rank == 3


@pytest.mark.parametrize(
    "raw", ["(see above) text", "(a, b)", "[not a head] x", "2 errors", "Error: x", "(pid=)"]
)
def test_words_in_brackets_are_no_prefix(raw: str) -> None:
    assert parse_line(raw).text == raw


def test_repeated_lines_of_ray() -> None:
    line = parse_line("(RayWorkerProc pid=5) x\x1b[32m [repeated 3x across cluster]\x1b[0m (Ray deduplicates)")
    assert (line.text, line.repeated) == ("x", 3)


@pytest.mark.parametrize(
    ("text", "bar"),
    [
        ("(EngineCore pid=7) \rLoading shards:  46% Completed | 6/13 [00:16<00:19,  2.77s/it]", True),
        ("Loading shards:  46% Completed | 6/13 [1:00:16<00:19,  2.77s/it]", True),
        ("model.safetensors: 12.1MB [00:03, 3.9MB/s]", True),
        ("0it [00:00, ?it/s]\r", True),
        ("\r 10%\r 50%\r", True),
        ("a Windows line\r", False),
        ("it took 5 [00:03, and then some] it/s", False),
        ("", False),
    ],
)
def test_progress_bars(text: str, bar: bool) -> None:
    assert is_bar(text) is bar


def test_a_record_goes_on_over_repeated_heads_and_bare_lines() -> None:
    lines = [
        "(A pid=1) ERROR 11-30 20:26:26 [a.py:1] first\r",
        "(A pid=1) ERROR 11-30 20:26:26 [a.py:1] second\r",
        "(A pid=1)   third",
        "(A pid=1) ERROR 11-30 20:26:27 [a.py:1] other",
        "(B pid=2) ERROR 11-30 20:26:27 [a.py:1] other",
    ]
    found = list(records(iter(lines), start=10))
    assert [(one.line, one.count) for one in found] == [(10, 3), (13, 1), (14, 1)]
    assert found[0].text == "first\nsecond\n  third"


def test_streams_differ_by_process_pid_and_address() -> None:
    assert stream_of(parse_line("(A pid=1, ip=10.0.0.2) x")) == ("A", 1, "10.0.0.2")


@given(st.text())
def test_any_text_is_taken_apart(text: str) -> None:
    line = parse_line(text)
    assert strip_ansi(text).rstrip("\r\n")[line.prefix :].startswith(line.text)
    assert line.repeated >= 0
    assert len(line.text) <= len(text)


@given(st.lists(st.text(alphabet="(AW pid=1,)[]:INFO 0-\r\x1b"), max_size=20))
def test_records_hold_every_line_once(lines: list[str]) -> None:
    assert sum(one.count for one in records(iter(lines))) == len(lines)


@pytest.mark.parametrize("path", sorted(CAPTURES.rglob("*.log")), ids=lambda path: path.stem)
def test_records_of_a_real_log_hold_every_line_once(path: Path) -> None:
    lines = path.read_bytes().decode("utf-8", "replace").split("\n")
    found = list(records(iter(lines)))
    assert sum(one.count for one in found) == len(lines)
    assert [one.line for one in found] == sorted({one.line for one in found})
