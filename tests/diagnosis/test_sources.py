"""Paths become sources: files, folders, runs; what is no log is left out."""

import json
import mmap
from pathlib import Path

import pytest

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
