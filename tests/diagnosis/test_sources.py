"""Paths become sources: files, folders, runs; what is no log is left out."""

import gzip
import json
import mmap
import os
from pathlib import Path

import pytest

from cockpit.diagnosis.engine import explain
from cockpit.diagnosis.sources import (
    EXIT,
    FACTS,
    KERNEL,
    RAY_WORKER,
    SERVE,
    SMALL,
    STATUS,
    SourceMissingError,
    collect,
)


def test_a_folder_of_logs_has_its_roles_and_hosts(tmp_path: Path) -> None:
    for name in ("head.log", "worker.log", "ray-worker.err", "kernel.log", "ray-status.txt", "host-facts.txt"):
        (tmp_path / name).write_text("x\n")
    (tmp_path / "expected.yaml").write_text("kind: args\n")
    found = {Path(one.name).name: (one.role, one.host) for one in collect([tmp_path])}
    assert found == {
        "head.log": (SERVE, "head"),
        "worker.log": (SERVE, "worker"),
        "ray-worker.err": (RAY_WORKER, "worker"),
        "kernel.log": (KERNEL, ""),
        "ray-status.txt": (STATUS, ""),
        "host-facts.txt": (FACTS, ""),
    }


def test_a_runs_folder_names_its_host(tmp_path: Path) -> None:
    (tmp_path / "serve.log").write_text("x\n")
    (tmp_path / "exit-status").write_text("137\n")
    (tmp_path / "record.json").write_text(json.dumps({"host": "spark-a"}))
    found = {Path(one.name).name: (one.role, one.host) for one in collect([tmp_path])}
    assert found == {"serve.log": (SERVE, "spark-a"), "exit-status": (EXIT, "spark-a")}


def test_a_path_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceMissingError, match="nothing"):
        collect([tmp_path / "nothing.log"])


def test_a_folder_without_logs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceMissingError):
        collect([tmp_path])


def test_a_large_file_is_mapped(tmp_path: Path) -> None:
    path = tmp_path / "serve.log"
    with path.open("wb") as file:
        file.truncate(SMALL + 1)
    (source,) = collect([path])
    assert isinstance(source.data, mmap.mmap)
    source.data.close()


def test_a_packed_log_and_one_in_utf16(tmp_path: Path) -> None:
    log = "(APIServer pid=1) INFO 11-30 20:26:20 [api_utils.py:286] non-default args: {}\nOSError: x\n"
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(log.encode()))
    (tmp_path / "b.log").write_bytes(log.encode("utf-16"))
    assert [(one.role, one.data) for one in collect([tmp_path])] == [(SERVE, log.encode())] * 2


def test_a_packed_log_cut_short_gives_what_there_is(tmp_path: Path) -> None:
    packed = gzip.compress("".join(f"line {number}\n" for number in range(5000)).encode())
    (tmp_path / "a.log.gz").write_bytes(packed[: len(packed) // 2])
    (source,) = collect([tmp_path / "a.log.gz"])
    assert bytes(source.data).startswith(b"line 0\nline 1\n")


def test_dockers_json_file_line_for_line(tmp_path: Path) -> None:
    lines = [json.dumps({"log": f"line {n} \x1b[31m\n", "stream": "stderr", "time": "x"}) for n in range(3)]
    (tmp_path / "c.log").write_text("\n".join([*lines, '{"log": "cut sho']))
    (source,) = collect([tmp_path / "c.log"])
    assert bytes(source.data).split(b"\n") == [
        *(f"line {n} \x1b[31m".encode() for n in range(3)),
        b'{"log": "cut sho',
    ]


def test_a_file_that_was_named_is_a_log(tmp_path: Path) -> None:
    (tmp_path / "serve.2026").write_text("x\n")
    assert [one.role for one in collect([tmp_path / "serve.2026"])] == [SERVE]


def test_a_pipe_is_refused_with_the_way_to_go(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SourceMissingError) as refused:
        collect([tmp_path / "pipe"])
    assert "explain -" in str(refused.value)


@pytest.mark.parametrize(
    ("data", "words"), [(b"", "is empty"), (bytes(range(256)) * 20, "is no text"), (b"hello\n", "has no line")]
)
def test_what_is_no_log_is_said(data: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(data)
    told = explain(collect([tmp_path / "a.log"]))
    assert told.status == "unknown"
    assert words in told.next[0]
