"""What ``logs`` prints: everything, safe or exact, also when the host goes on writing."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cockpit.hosts.factory import open_host
from cockpit.logs.follow import Follower
from cockpit.logs.log import Log
from cockpit.logs.marks import Mark
from cockpit.logs.printing import Printed, Printer, Write, print_log, print_merged, since_time
from cockpit.logs.spool import Spool
from cockpit.logs.typed import read_time
from cockpit.model.command import Command, script
from tests.e2e.cockpit import Cockpit
from tests.hosts.sshd import eventually, spec

CONTENT = b"\x1b[31mred\x1b[0m \x1b]2;x\x07\n1%\r99%\r\n\xff\n"


def build(text: str, why: str) -> Command:
    return script("spark-1", text, why)


def print_all(
    printed: Printed, write: Write, start: int = 0, *, raw: bool = False, whole: bool = False
) -> None:
    printer = Printer(printed, write, start, raw=raw)
    while printer.print(whole=whole):
        pass


def test_safe_and_exact(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(CONTENT)
    out: list[bytes] = []
    printed = Printed(Log.open(tmp_path / "log"))
    print_all(printed, out.append)
    assert b"".join(out).decode() == "red ␛]2;x␇\n99%\n⟨ff⟩\n"
    out.clear()
    print_all(printed, out.append, raw=True)
    assert b"".join(out) == CONTENT
    out.clear()
    printed.label = "spark-1"
    print_all(printed, out.append)
    assert b"".join(out).decode() == "spark-1: red ␛]2;x␇\nspark-1: 99%\nspark-1: ⟨ff⟩\n"


def test_many_plain_lines_are_printed_at_once_and_whole(tmp_path: Path) -> None:
    lines = [f"INFO 11-30 12:00:00 [a.py:1] number {number}" for number in range(30_000)]
    lines[20_000] = "x" * 700_000
    lines[20_001] = "\x1b[2J"
    (tmp_path / "log").write_text("\n".join(lines))
    for label, whole in (("", False), ("spark-1", False), ("", True)):
        out: list[bytes] = []
        print_all(Printed(Log.open(tmp_path / "log"), label=label), out.append, whole=whole)
        shown = [line.replace("\x1b", "␛") for line in (lines[:-1] if whole else lines)]
        before = f"{label}: " if label else ""
        assert b"".join(out).decode() == "".join(f"{before}{line}\n" for line in shown)
        assert len(out) < 30


def test_marks_stand_where_bytes_are_missing(tmp_path: Path) -> None:
    with Spool(tmp_path / "spool.log") as spool:
        spool.begin(1, 2, 0)
        spool.append(b"one\ntwo\n")
        spool.begin(1, 3, 0, Mark(spool.size, "truncated"))
        spool.append(b"three\n")
        out: list[bytes] = []
        printed = Printed(Log.open(spool.path))
        print_all(printed, out.append)
        truncated = (
            "── the file was truncated on the host; how many bytes are missing here cannot be known ──\n"
        )
        assert b"".join(out).decode() == f"one\ntwo\n{truncated}three\n"
        out.clear()
        print_merged([printed], out.append)
        assert b"".join(out).decode() == f"one\ntwo\n{truncated}three\n"


def test_since(tmp_path: Path) -> None:
    def since(text: str, *names: str) -> float | None:
        typed = read_time(text)
        assert typed is not None
        return since_time([Log.open(tmp_path / name) for name in names], typed)

    year = datetime.now().year
    noon = datetime(year, 11, 30, 12, tzinfo=UTC).timestamp()
    (tmp_path / "log").write_text("INFO 11-29 13:00:00 [a.py:1] one\nINFO 11-30 12:00:09 [a.py:1] two\n")
    (tmp_path / "other").write_text("INFO 11-30 12:05:09 [a.py:1] three\n")
    (tmp_path / "none").write_text("no time\n")
    assert since("12:00:01", "log") == noon + 1
    assert since("14:00", "log") == noon - 22 * 3600, "on the last day it is still to come"
    assert since("12:30", "log") == noon + 1800, "no such time is in the log"
    assert since("5m", "log", "none", "other") == noon + 9
    assert since("12:00", "none") is None


@pytest.mark.parametrize("since", ["yesterdayy", "25:00", "2026-11-30T12:00:00Z"])
def test_a_time_that_is_not_understood_is_refused_before_any_host_is_asked(tmp_path: Path, since: str) -> None:
    """The profile's hosts can't be reached, which would be another exit status."""
    answer = Cockpit(tmp_path)("logs", "llama-3.3-70b", "--since", since)
    assert (answer.status, answer.out) == (2, "")
    assert f"'{since}' is no time" in answer.err and "1h30m" in answer.err


def test_two_hosts_by_time(tmp_path: Path) -> None:
    (tmp_path / "1").write_text("INFO 11-30 12:00:00 [a.py:1] one\nINFO 11-30 12:00:09 [a.py:1] three\n")
    (tmp_path / "2").write_text("INFO 11-30 12:00:05 [a.py:1] two\x1b[2J\n[a.py:1] unfin")
    printed = [Printed(Log.open(tmp_path / name), label=name) for name in "12"]
    out: list[bytes] = []
    assert print_merged(printed, out.append) == [(tmp_path / name).stat().st_size for name in "12"]
    lines = b"".join(out).splitlines(keepends=True)
    shown = [line.decode().rpartition("] ")[2] for line in lines]
    assert shown == ["one\n", "two␛[2J\n", "three\n", "unfin\n"]
    assert [line[:3] for line in lines] == [b"1: ", b"2: ", b"1: ", b"2: "]
    out.clear()
    assert print_merged(printed, out.append, whole=True)[1] == (tmp_path / "2").stat().st_size - len(
        "[a.py:1] unfin"
    )
    assert b"".join(out).count(b"\n") == 3


async def test_a_hosts_log_is_caught_up_with_and_followed(tmp_path: Path) -> None:
    log = tmp_path / "serve.log"
    log.write_bytes(b"one\n" * 100_000)
    host = open_host(spec("local"))
    with Spool(tmp_path / "spool.log") as spool:
        printed = Printed(Log.open(spool.path))
        printed.follower = Follower("serve", host, build, str(log), spool, printed.told.put_nowait)
        out: list[bytes] = []
        assert await print_log(printed, out.append) == ""
        assert b"".join(out) == log.read_bytes()
        out.clear()
        task = asyncio.ensure_future(print_log(printed, out.append, start=spool.size, follow=True))
        with log.open("ab") as file:
            file.write(b"two\nunfin")
        await eventually(lambda: b"".join(out) == b"two\n")
        with log.open("ab") as file:
            file.write(b"ished\n")
        await eventually(lambda: b"".join(out) == b"two\nunfinished\n")
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    await host.close()


async def test_what_can_not_be_read_is_said(tmp_path: Path) -> None:
    host = open_host(spec("local"))
    with Spool(tmp_path / "spool.log") as spool:
        printed = Printed(Log.open(spool.path))
        printed.follower = Follower("serve", host, build, str(tmp_path / "no"), spool, printed.told.put_nowait)
        assert await print_log(printed, lambda data: None) == "there is no such log on the host"
    await host.close()
