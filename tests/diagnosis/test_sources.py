"""Paths become sources: files, folders, runs; what is no log is left out."""

import bz2
import gzip
import io
import json
import lzma
import mmap
import os
import random
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from cockpit.diagnosis.engine import explain
from cockpit.diagnosis.report import report
from cockpit.diagnosis.sources import (
    EXIT,
    FACTS,
    KERNEL,
    RAY_WORKER,
    SERVE,
    STATUS,
    SourceMissingError,
    collect,
    host_of,
)
from cockpit.diagnosis.unwrap import SMALL
from tests.diagnosis.logs import API, Log


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


def test_a_packed_log_cut_short_gives_what_there_is_and_says_so(tmp_path: Path) -> None:
    log = Log().start().load().traceback(API, "OSError: [Errno 98] Address already in use")
    packed = gzip.compress(bytes(log.source().data) + random.Random(1).randbytes(5000))
    path = tmp_path / "a.log.gz"
    path.write_bytes(packed[:-2000])
    told = explain(collect([path]))
    assert told.findings[0].kind == "port-in-use"
    assert any(str(path) in step and "cut off" in step for step in told.next)
    path.write_bytes(packed)
    assert not any("cut off" in step for step in explain(collect([path])).next)


def test_a_packed_log_of_several_members_is_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(b"one\n") + gzip.compress(b"two\n") + b"\0" * 512)
    (source,) = collect([tmp_path / "a.log.gz"])
    assert (source.data, source.note) == (b"one\ntwo\n", "")


def test_a_large_packed_log_is_unpacked_to_a_file(tmp_path: Path) -> None:
    lines = b"".join(b"line %d\n" % number for number in range(SMALL // 8))
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(lines, 1))
    (source,) = collect([tmp_path / "a.log.gz"])
    assert isinstance(source.data, mmap.mmap)
    assert bytes(source.data) == lines
    source.data.close()


def _serve(*, failed: bool = True) -> list[str]:
    log = Log().start().load()
    if failed:
        log.traceback(API, "OSError: [Errno 98] Address already in use")
    return bytes(log.source().data).decode().rstrip("\n").split("\n")


DECISIVE = next(number for number, line in enumerate(_serve(), 1) if "Errno 98" in line)


def _docker(lines: list[str]) -> str:
    return "".join(json.dumps({"log": line + "\n", "stream": "stderr", "time": "x"}) + "\n" for line in lines)


def _journal_json(lines: list[str]) -> str:
    """As the journal has it: a text with control characters becomes a list of bytes."""
    entries = [
        {"__CURSOR": "s=1", "_HOSTNAME": "h", "MESSAGE": list(b"\x1b[0m" + line.encode()) if n % 2 else line}
        for n, line in enumerate(lines)
    ]
    return "".join(json.dumps(entry) + "\n" for entry in entries)


FORMS = {
    "docker": (_docker, DECISIVE),
    "journal-json": (_journal_json, DECISIVE),
    "message": (
        lambda lines: "".join(json.dumps({"level": "info", "message": line}) + "\n" for line in lines),
        DECISIVE,
    ),
    "journal-export": (
        lambda lines: "".join(f"__CURSOR=s=1\nMESSAGE={line}\n_PID=1\n\n" for line in lines),
        4 * DECISIVE - 2,
    ),
    "list": (lambda lines: json.dumps(lines, indent=1), DECISIVE + 1),
    "list-of-entries": (lambda lines: json.dumps([{"line": line} for line in lines]), 1),
    "object": (lambda lines: json.dumps({"pod": "a", "logs": "\n".join(lines)}), 1),
    "escaped": (lambda lines: "\\n".join(lines), 1),
    "quoted": (lambda lines: json.dumps("\n".join(lines)), 1),
    "one-entry": (lambda lines: _docker(["\n".join(lines)]), 1),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["c.log", "-"])
def test_a_log_in_another_form(form: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, line = FORMS[form]
    path = tmp_path / "c.log"
    path.write_text(write(_serve()))
    with path.open("rb") as file:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(file))
        sources = collect([path if name == "c.log" else name])
        told = explain(sources)
    first = told.findings[0]
    assert (told.status, first.kind) == ("failed", "port-in-use")
    shown = first.evidence[0]
    assert (shown.line, shown.text) == (line, "OSError: [Errno 98] Address already in use")
    assert f"> {line:6} " in report(told, sources, {})
    assert "Errno 98" in next(row for row in report(told, sources, {}).split("\n") if row.startswith(">"))
    path.write_text(write(_serve(failed=False)))
    assert explain(collect([path])).status == "loading"


def test_a_journal_entry_with_a_length(tmp_path: Path) -> None:
    text = b"\x1b[1mTraceback\x1b[0m\nsecond"
    entry = b"MESSAGE\n" + len(text).to_bytes(8, "little") + text + b"\n"
    path = tmp_path / "a.export"
    path.write_bytes(b"__CURSOR=a\n_PID=1\n" + entry + b"\n__CURSOR=b\nMESSAGE=last\n\n")
    (source,) = collect([path])
    assert source.data == text + b"\nlast"
    raw = path.read_bytes().split(b"\n")
    assert raw[source.line_of(3) - 1] == b"MESSAGE=last"


def test_lines_that_only_look_like_json_stay(tmp_path: Path) -> None:
    text = b'{"a": 1}\n["x", not json\n{"log": "cut sho\n'
    (tmp_path / "c.log").write_bytes(text)
    (source,) = collect([tmp_path / "c.log"])
    assert source.data == text


def test_dockers_json_file_line_for_line(tmp_path: Path) -> None:
    lines = [json.dumps({"log": f"line {n} \x1b[31m\n", "stream": "stderr", "time": "x"}) for n in range(3)]
    (tmp_path / "c.log").write_text("\n".join(["cut}", *lines, '{"log": "cut sho']))
    (source,) = collect([tmp_path / "c.log"])
    assert bytes(source.data).split(b"\n") == [
        b"cut}",
        *(f"line {n} \x1b[31m".encode() for n in range(3)),
        b'{"log": "cut sho',
    ]


def test_a_folder_of_other_files_is_refused_like_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "photo.png").write_bytes(b"\x89PNG")
    (tmp_path / "notes.md").write_text("x")
    with pytest.raises(SourceMissingError, match="no log"):
        collect([tmp_path])


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


def test_a_serve_log_is_one_whatever_its_name(tmp_path: Path) -> None:
    for name in ("journal.log", "killed_raylet.log", "a-worker-1.txt"):
        (tmp_path / name).write_text("\n".join(_serve()))
    (tmp_path / "kernel.log").write_text("Nov 30 20:00:10 spark-1 kernel: x\n")
    roles = {Path(one.name).name: one.role for one in collect([tmp_path])}
    assert roles == {
        "journal.log": SERVE,
        "killed_raylet.log": SERVE,
        "a-worker-1.txt": SERVE,
        "kernel.log": KERNEL,
    }


def _tar(path: Path, mode: Literal["w", "w:gz", "w:xz"], logs: dict[str, bytes]) -> Path:
    with tarfile.open(path, mode) as archive:
        for name, data in logs.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return path


def _zip(path: Path, logs: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in logs.items():
            archive.writestr(name, data)
    return path


def _two_hosts() -> dict[str, bytes]:
    head = (
        Log()
        .start()
        .traceback(API, "RuntimeError: NCCL error: remote process exited or there was a network error")
    )
    worker = Log().traceback(
        "(Worker_TP1 pid=3) ", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.94 GiB."
    )
    return {
        "run/head.log": head.engine_failed().source().data[:],
        "run/worker.log": worker.source().data[:],
        "run/.hidden.log": b"x",
        "run/answer.yaml": b"x",
    }


@pytest.mark.parametrize("form", ["tar", "tar.gz", "tar.xz", "zip"])
def test_an_archive_is_as_the_folder_it_was_made_of(form: str, tmp_path: Path) -> None:
    path, logs = tmp_path / f"logs.{form}", _two_hosts()
    if form == "zip":
        _zip(path, logs)
    else:
        _tar(path, "w:gz" if form == "tar.gz" else "w:xz" if form == "tar.xz" else "w", logs)
    found = collect([path])
    assert [(one.role, one.host, Path(one.name).name) for one in found] == [
        (SERVE, "head", "head.log"),
        (SERVE, "worker", "worker.log"),
    ]
    first = explain(found).findings[0]
    assert (first.kind, first.host) == ("oom-gpu", "worker")
    assert first.evidence[0].file == f"{path}/run/worker.log"


def test_an_archive_that_was_cut_off_says_so(tmp_path: Path) -> None:
    logs = {"head.log": Log().start().source().data[:], "worker.log": random.Random(1).randbytes(90000)}
    path = _tar(tmp_path / "logs.tar.gz", "w:gz", logs)
    path.write_bytes(path.read_bytes()[:60000])
    found = collect([path])
    assert Path(found[0].name).name == "head.log"
    assert any("The archive could not be read to its end" in step for step in explain(found).next)


def test_an_archive_without_a_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceMissingError, match="no log in it"):
        collect([_zip(tmp_path / "a.zip", {"picture.png": b"x"})])


@pytest.mark.parametrize("pack", [bz2.compress, lzma.compress])
def test_a_log_packed_otherwise_is_unpacked(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    log = Log().start().ready().source()
    (tmp_path / "serve.log.packed").write_bytes(pack(log.data[:]))
    assert collect([tmp_path / "serve.log.packed"])[0].data == log.data


def test_what_is_packed_with_zstd_is_to_be_unpacked_first(tmp_path: Path) -> None:
    (tmp_path / "serve.log").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(30))
    assert "zstd -dc FILE | spark-cockpit explain -" in " ".join(
        explain(collect([tmp_path / "serve.log"])).next
    )


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("spark-2.log", "spark-2"),
        ("dgx-spark-a.kernel.log", "dgx-spark-a"),
        ("node1_serve.log", "node1"),
        ("worker.log", "worker"),
        ("sparkling.log", ""),
        ("host-facts.txt", ""),
        ("node-exporter.log", ""),
        ("serve.log", ""),
    ],
)
def test_the_host_that_a_files_name_tells(name: str, host: str) -> None:
    assert host_of(name) == host
