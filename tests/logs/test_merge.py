"""Times in lines, and several logs as one."""

from __future__ import annotations

from calendar import timegm
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cockpit.logs.filters import Filter
from cockpit.logs.lines import Place
from cockpit.logs.log import Log
from cockpit.logs.merge import Merge, MergedLines, merged_lines
from cockpit.logs.search import Query
from cockpit.logs.sieve import Sieve
from cockpit.logs.times import find_time, last_time, time_of, year_of
from cockpit.logs.typed import read_time

NOON = float(timegm((2026, 11, 30, 12, 0, 0)))


@pytest.mark.parametrize(
    ("line", "time"),
    [
        ("(EngineCore pid=7) INFO 11-30 12:00:00 [a.py:1] x", NOON),
        ("\x1b[36m(RayWorkerProc pid=7)\x1b[0m INFO 11-30 12:00:00 [a.py:1] x", NOON),
        ("2026-11-30 12:00:00,250\tINFO worker.py:1 -- x", NOON + 0.25),
        ("[2026-11-30 12:00:00,500 I 7 7] (raylet) main.cc:1: x", NOON + 0.5),
        ("[W1130 12:00:00.500000000 socket.cpp:767] x", NOON + 0.5),
        ("2026-11-30T12:00:00.000001Z kernel: x", NOON + 0.000001),
        ("no time at all", None),
        ("(APIServer pid=7) 1.2.3-45-67 89:00:00", None),
        ("INFO 13-30 12:00:00 [a.py:1]", None),
        ("2026-11-30 24:00:00,1", None),
    ],
)
def test_times_of_lines(line: str, time: float | None) -> None:
    assert time_of(line, 2026) == time


MIDNIGHT = NOON - 43200


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("12:00", NOON),
        (" 9:05 ", MIDNIGHT + 9 * 3600 + 300),
        ("12:00:01", NOON + 1),
        ("11-30 12:00", NOON),
        ("11-30", MIDNIGHT),
        ("2026-11-30", MIDNIGHT),
        ("2026-11-30 12:00:00.5", NOON + 0.5),
        ("2025-11-30T12:00:00", NOON - 365 * 86400),
        ("today", MIDNIGHT + 86400),
        ("yesterday", MIDNIGHT),
        ("Yesterday 12:00", NOON),
        ("45s", NOON + 86400 - 45),
        ("10m", NOON + 86400 - 600),
        ("10 min ago", NOON + 86400 - 600),
        ("1h30m", NOON + 86400 - 5400),
        ("1d2h", NOON - 7200),
        ("noon", None),
        ("25:00", None),
        ("12", None),
        ("", None),
        ("ago", None),
        ("m", None),
        ("yesterdayy", None),
        ("yesterday12:00", None),
        ("11-3012:00", None),
        ("-5m", None),
        ("02-30", None),
        ("2026-13-01", None),
        ("2026-11-30T12:00:00Z", None),
        ("2026-11-30T12:00:00+01:00", None),
        ("١٢:٠٠", None),
    ],
)
def test_times_as_typed(text: str, time: float | None) -> None:
    """Read near half past noon, in a log that ends a day later."""
    typed = read_time(text)
    assert (typed.at(NOON + 1800, NOON + 86400) if typed is not None else None) == time


@given(st.text(alphabet="0123456789-:T .,dhmsyestrag\n", max_size=24))
def test_whatever_is_typed_is_read_or_refused(text: str) -> None:
    typed = read_time(text)
    assert typed is None or isinstance(typed.at(NOON, NOON), float)


def test_the_last_time_is_found_far_before_the_end(tmp_path: Path) -> None:
    log = opened(tmp_path / "log", "INFO 11-30 12:00:00 [a.py:1] x\n" + "no time\n" * 20_000)
    assert last_time(log, 2026) == NOON
    assert last_time(opened(tmp_path / "none", "no time\n"), 2026) is None
    assert last_time(opened(tmp_path / "empty", ""), 2026) is None


def opened(path: Path, content: str) -> Log:
    path.write_text(content)
    log = Log.open(path)
    while log.index.extend():
        pass
    return log


def line(second: int, text: str) -> str:
    return f"INFO 11-30 12:{second // 60:02d}:{second % 60:02d} [a.py:1] {text}\n"


def test_the_place_of_a_time(tmp_path: Path) -> None:
    content = "banner\n" + "".join(line(second, "x" * 500) + "continued\n" for second in range(3000))
    log = opened(tmp_path / "log", content)
    year = 2026
    for second in (0, 1, 777, 2999):
        found = find_time(log, NOON + second, year)
        assert content[found:].startswith(line(second, "x" * 500))
    assert content[find_time(log, NOON + 9999, year) :] == "continued\n"


def text(place: Place) -> str:
    return place.log.file.read(place.start, place.end).decode().rpartition("] ")[2]


def test_two_logs_by_time(tmp_path: Path) -> None:
    one = opened(tmp_path / "1", "head\n" + line(1, "a1") + "more a1\n" + line(3, "a3") + line(2, "a back"))
    two = opened(tmp_path / "2", line(1, "b1") + line(2, "b2") + line(4, "b4") + "unfinished")
    assert [text(place) for place in merged_lines([one, two])] == [
        "head",
        "a1",
        "more a1",
        "b1",
        "b2",
        "a3",
        "a back",
        "b4",
    ]
    since = float(timegm((year_of(one), 11, 30, 12, 0, 3)))
    assert [text(place) for place in merged_lines([one, two], since)] == ["a3", "a back", "b4"]


def test_a_late_line_finds_its_place(tmp_path: Path) -> None:
    one = opened(tmp_path / "1", line(1, "a1") + line(5, "a5"))
    two = opened(tmp_path / "2", line(2, "b2"))
    merge = Merge([one, two])
    assert merge.extend() and not merge.extend()
    with (tmp_path / "2").open("a") as file:
        file.write(line(3, "b3") + line(6, "b6"))
    two.refresh()
    assert merge.extend()
    lines = MergedLines(merge)
    assert [text(lines.place(number)) for number in range(len(merge))] == ["a1", "b2", "b3", "a5", "b6"]


def test_unfinished_last_lines_stand_at_the_end(tmp_path: Path) -> None:
    one = opened(tmp_path / "1", line(1, "a1") + "weights 10%\r20%")
    two = opened(tmp_path / "2", line(2, "b2") + "unfin")
    merge = Merge([one, two])
    while merge.extend():
        pass
    lines = MergedLines(merge)
    last = lines.last()
    assert last == 3 and lines.next(last) is None
    assert [text(lines.place(number)) for number in range(4)] == ["a1", "b2", "weights 10%\r20%", "unfin"]
    assert lines.near(two, two.file.size - 1) == 3
    with (tmp_path / "2").open("a") as file:
        file.write("ished\n" + line(3, "b3"))
    two.refresh()
    while merge.extend():
        pass
    assert [text(lines.place(number)) for number in range(5)] == [
        "a1",
        "b2",
        "unfinished",
        "b3",
        "weights 10%\r20%",
    ]


def test_only_the_lines_that_filters_keep(tmp_path: Path) -> None:
    one = opened(tmp_path / "1", line(1, "a1") + line(3, "drop") + "still 3\n" + line(5, "a5"))
    two = opened(tmp_path / "2", line(2, "b2") + line(4, "drop") + line(6, "b6"))
    wanted = Filter(Query("drop"), invert=True)
    sieves = [Sieve(log.file, wanted.finder()) for log in (one, two)]
    merge = Merge([one, two], sieves)
    assert not merge.extend(), "nothing is known to be kept yet"
    while any(sieve.extend() for sieve in sieves):
        continue
    while merge.extend():
        pass
    lines = MergedLines(merge)
    assert [text(lines.place(number)) for number in range(len(merge))] == ["a1", "b2", "still 3", "a5", "b6"]


@settings(max_examples=100, deadline=None)
@given(logs=st.lists(st.lists(st.one_of(st.integers(0, 50), st.none()), max_size=25), min_size=1, max_size=3))
def test_every_line_once_in_its_files_order(
    tmp_path_factory: pytest.TempPathFactory, logs: list[list[int | None]]
) -> None:
    folder = tmp_path_factory.mktemp("merge")
    opened_logs = [
        opened(
            folder / str(number),
            "".join(
                f"plain {at}\n" if second is None else line(second, f"at {at}")
                for at, second in enumerate(seconds)
            ),
        )
        for number, seconds in enumerate(logs)
    ]
    merge = Merge(opened_logs)
    while merge.extend(7):
        pass
    lines = MergedLines(merge)
    places = [lines.place(number) for number in range(len(merge))]
    expected: list[tuple[int, int, int]] = []
    for number, seconds in enumerate(logs):
        latest = -1
        for at, second in enumerate(seconds, 1):
            latest = max(latest, -1 if second is None else second)
            expected.append((latest, number, at))
    assert [(opened_logs.index(place.log), place.number) for place in places] == [
        (number, at) for _, number, at in sorted(expected)
    ]
    for log, seconds in zip(opened_logs, logs, strict=True):
        own = [place for place in places if place.log is log]
        assert [log.index.number_at(place.start) for place in own] == list(range(1, len(seconds) + 1))
        for place in own:
            assert lines.near(log, place.start) == places.index(place)
        for position in range(len(places)):
            coming = [place.start for place in places[position:] if place.log is log]
            assert lines.after(log, position) == (coming[0] if coming else log.file.size)
    for log in opened_logs:
        log.close()
