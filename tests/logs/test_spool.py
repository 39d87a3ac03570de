"""The spool file is the truth; its sidecar agrees with it after any crash."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from hashlib import sha256
from pathlib import Path

import pytest

from cockpit.logs.marks import Mark, read_marks
from cockpit.logs.spool import ResumePoint, Spool, SpoolInUse
from cockpit.logs.spools import prune, runs_kept, safe_name, spool_path


def test_resumes_at_its_end_with_the_bytes_before(tmp_path: Path) -> None:
    path = tmp_path / "serve.log"
    with Spool(path) as spool:
        assert spool.resume_point() == ResumePoint()
        spool.begin(1, 2, 0)
        assert spool.resume_point() == ResumePoint(0, 0, sha256(b"").hexdigest(), 1, 2)
        assert spool.append(b"x" * 10_000)
    with Spool(path) as spool:
        assert spool.resume_point() == ResumePoint(10_000, 4096, sha256(b"x" * 4096).hexdigest(), 1, 2)
        spool.begin(1, 2, 10_000)
        assert spool.marks == ()
        spool.begin(1, 3, 0, Mark(spool.size, "rotated", 0, True))
        spool.append(b"new")
        assert spool.resume_point() == ResumePoint(3, 3, sha256(b"new").hexdigest(), 1, 3)
    assert read_marks(path) == (Mark(10_000, "rotated", 0, True),)
    assert path.read_bytes() == b"x" * 10_000 + b"new"


def test_bytes_without_a_sidecar_write_are_kept(tmp_path: Path) -> None:
    """A crash right after bytes were added: nothing but the file tells of them, and that is enough."""
    path = tmp_path / "log"
    with Spool(path) as spool:
        spool.begin(1, 2, 100)
        spool.append(b"one")
    with path.open("ab") as file:
        file.write(b"two")
    with Spool(path) as spool:
        assert spool.resume_point().offset == 106


def test_a_stretch_beyond_the_end_is_forgotten(tmp_path: Path) -> None:
    """A power failure took the file's end, and not the sidecar's."""
    path = tmp_path / "log"
    with Spool(path) as spool:
        spool.begin(1, 2, 0)
        spool.append(b"first file")
        spool.begin(1, 3, 0, Mark(spool.size, "replaced"))
    os.truncate(path, 5)
    with Spool(path) as spool:
        assert spool.resume_point() == ResumePoint(5, 5, sha256(b"first").hexdigest(), 1, 2)
        assert spool.marks == ()


def test_a_damaged_sidecar_is_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.with_suffix(".json").write_text('{"schema": 1, "stretches": [{"at"')
    with Spool(path) as spool:
        assert spool.resume_point() == ResumePoint()


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    with Spool(tmp_path / "log"), pytest.raises(SpoolInUse):
        Spool(tmp_path / "log")
    Spool(tmp_path / "log").close()


def test_cursor_takes_back_what_comes_again(tmp_path: Path) -> None:
    path = tmp_path / "kernel.log"
    with Spool(path) as spool:
        spool.append(b"one\n")
        spool.set_cursor("s=1")
        spool.append(b"two\n")
    with Spool(path) as spool:
        assert spool.cursor is not None
        assert (spool.cursor.at, spool.cursor.value) == (4, "s=1")
        spool.back_to_cursor()
        spool.append(b"two\n")
    assert path.read_bytes() == b"one\ntwo\n"


def test_names_from_machines_stay_in_the_folder(tmp_path: Path) -> None:
    names = ["../../etc", "a/b", ".", "..", "", "a\x00b", "serve.log", "x" * 300, "\udc80"]
    found = [safe_name(name) for name in names]
    assert len(set(found)) == len(names)
    assert all("/" not in name and name not in (".", "..", "") and len(name) < 120 for name in found)
    assert spool_path(tmp_path, "p", "../r", "h", "serve").resolve().is_relative_to(tmp_path)


def test_old_runs_go_and_the_current_one_stays(tmp_path: Path) -> None:
    for number in range(5):
        path = spool_path(tmp_path, "lab", f"run-{number}", "spark-1", "serve")
        path.parent.mkdir(parents=True)
        path.write_bytes(b"x")
        os.utime(path.parent.parent, (number, number))
    with Spool(spool_path(tmp_path, "lab", "run-1", "spark-1", "serve")):
        os.utime(tmp_path / "lab" / "run-1", (1, 1))
        assert sorted(prune(tmp_path, "lab", keep=2, current=["run-0"])) == ["run-2"]
    assert sorted(run.name for run in (tmp_path / "lab").iterdir()) == ["run-0", "run-1", "run-3", "run-4"]
    assert prune(tmp_path, "nothing", keep=1) == []


@pytest.mark.parametrize(("told", "kept"), [("", 10), ("3", 3), ("0", 1), ("many", 10), ("-1", 10)])
def test_how_many_runs_are_kept(told: str, kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_COCKPIT_RUNS_KEPT", told)
    assert runs_kept() == kept


FULL_DISK = """
    import sys
    from pathlib import Path
    from cockpit.logs import spool as room
    room.KEPT = 300_000
    spool = room.Spool(Path(sys.argv[1]) / "log")
    spool.begin(1, 2, 0)
    filler = Path(sys.argv[1]) / "filler"
    filler.write_bytes(b"f" * 700_000)
    data = bytes(range(256)) * 256
    taken = sum(spool.append(data) for _ in range(6))
    assert 0 < taken < 6 and spool.full, (taken, spool.full)
    assert spool.size + len(spool.waiting) == 6 * len(data) and not spool.dropped
    assert not spool.retry()
    filler.unlink()
    assert spool.retry() and not spool.full
    assert spool.append(b"end")
    assert spool.path.read_bytes() == data * 6 + b"end"
    filler.write_bytes(b"f" * 550_000)
    for _ in range(12):
        spool.append(data)
    assert spool.dropped and len(spool.waiting) <= 300_000
    assert not spool.retry()
    size = spool.size
    filler.unlink()
    spool.forget_waiting()
    assert spool.resume_point().offset == size
    print("held")
"""


@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("unshare"), reason="needs root and unshare(1)")
def test_a_full_disk_here(tmp_path: Path) -> None:
    """In a mount namespace of its own, on a file system of one megabyte."""
    program = textwrap.dedent(FULL_DISK)
    script = 'mount -t tmpfs -o size=1m none "$1" && exec "$2" -c "$3" "$1"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", str(tmp_path), sys.executable, program],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("held\n", "")


def test_the_sidecar_is_plain_json(tmp_path: Path) -> None:
    with Spool(tmp_path / "log") as spool:
        spool.begin(1, 2, 0)
        spool.mark("gone", 12)
    told = json.loads((tmp_path / "log.json").read_text())
    assert told["marks"] == [{"at": 0, "kind": "gone", "size": 12, "exact": False}]


@pytest.mark.parametrize(
    ("mark", "words"),
    [
        (Mark(0, "rotated", 0, True), "the file was rotated on the host; nothing is missing"),
        (
            Mark(0, "truncated"),
            "the file was truncated on the host; how many bytes are missing here cannot be known",
        ),
        (Mark(0, "replaced", 1234), "at least 1,234 bytes are missing here: the file was replaced on the host"),
        (Mark(0, "gone", 5, True), "5 bytes are missing here: the source had already dropped them"),
    ],
)
def test_marks_in_words(mark: Mark, words: str) -> None:
    assert mark.words() == words


def test_a_kind_of_mark_that_is_not_known_is_a_hosts_word() -> None:
    assert Mark(0, "\x1b[2J", 5, True).words() == "5 bytes are missing here: ␛[2J"
