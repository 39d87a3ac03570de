"""Ray's worker logs as evidence: each file by its own name, each line by its number in the file."""

from __future__ import annotations

import subprocess
from pathlib import Path

from cockpit.bringup import evidence
from cockpit.diagnosis.engine import explain
from cockpit.diagnosis.sources import RAY_WORKER, RAYLET, Source

DECISIVE = "Fatal Python error: Bus error"


def read(folder: Path, *, each: int = evidence.WORKER_EACH, most: int = evidence.WORKER_MOST) -> list[Source]:
    """What the text that hosts get finds in ``folder``."""
    text = evidence._WORKERS.replace("@TEMP@", str(folder)).replace("@EACH@", str(each))
    done = subprocess.run(
        ["sh"], input=text.replace("@MOST@", str(most)).encode(), capture_output=True, timeout=60, check=True
    )
    assert done.stderr == b""
    return evidence.parse_workers(done.stdout, "spark-2")


def logs(folder: Path) -> Path:
    made = folder / "session_latest" / "logs"
    made.mkdir(parents=True)
    return made


def test_whole_files(tmp_path: Path) -> None:
    place = logs(tmp_path)
    (place / "worker-ab-01.err").write_bytes(b"one\ntwo \xff\x00\nthree without an end")
    (place / "raylet.out").write_bytes(b"raylet\n")
    (place / "worker-ab-02.out").write_bytes(b"")
    found = {source.name: source for source in read(tmp_path)}
    assert set(found) == {"worker-ab-01.err on spark-2", "raylet.out on spark-2"}
    worker = found["worker-ab-01.err on spark-2"]
    assert (worker.data, worker.numbers) == (b"one\ntwo \xff\x00\nthree without an end", ())
    assert (worker.role, worker.host) == (RAY_WORKER, "spark-2")
    assert found["raylet.out on spark-2"].role == RAYLET


def test_lines_are_the_files_where_only_its_end_is_read(tmp_path: Path) -> None:
    place = logs(tmp_path)
    lines = [f"INFO line {number}" for number in range(1, 1001)]
    lines[989] = DECISIVE
    (place / "worker-ab-01.err").write_text("\n".join(lines) + "\n")
    (source,) = read(tmp_path, each=1500)
    assert len(source.data) == 1500
    (line,) = [at for at, text in enumerate(source.data.decode().split("\n")) if text == DECISIVE]
    assert source.numbers[line] == 990
    first = explain([source]).findings[0]
    assert (first.evidence[0].file, first.evidence[0].line) == ("worker-ab-01.err on spark-2", 990)


def test_what_is_cut_at_the_end_and_no_ray_at_all(tmp_path: Path) -> None:
    assert read(tmp_path) == []
    place = logs(tmp_path)
    for number in range(3):
        (place / f"worker-{number}.err").write_text("x" * 99 + "\n")
    found = read(tmp_path, most=250)
    assert 2 <= len(found) <= 3
    assert b"".join(source.data for source in found).count(b"x") <= 250
