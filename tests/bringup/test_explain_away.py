"""A run is explained from the hosts that answer: the one that is away may be what it died of."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROFILE = """\
name: here
hosts:
  - {{name: spark-1, address: {head}, role: head, fabric: {{address: 127.0.0.1}}}}
  - {{name: spark-2, address: {worker}, port: 9, role: worker, fabric: {{address: 127.0.0.2}}}}
runtime: {{kind: native, venv: {venv}}}
serve: {{model: /models/none}}
"""
LOG = """\
(EngineCore pid=7) ERROR 11-30 17:28:39 [core.py:1345] ValueError: Free memory on device cuda:0 (1.0/119.7 GiB) on \
startup is less than desired GPU memory utilization (0.9, 107.73 GiB). Decrease GPU memory utilization or reduce GPU \
memory used by other processes.
"""


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """What a run that ended left on this machine."""
    folder = tmp_path / "state" / "spark-cockpit" / "here" / "runs" / "20261201-120000-0001"
    folder.mkdir(parents=True)
    (folder.parent / "current").symlink_to(folder.name)
    (folder / "serve.log").write_text(LOG)
    (folder / "exit-status").write_text("1\n")
    (folder / "record.json").write_text("{}")
    return folder


def explained(folder: Path, *, head: str, worker: str) -> tuple[int, dict[str, object]]:
    """The exit status and the answer of ``explain --json``."""
    profile = folder / "here.yaml"
    profile.write_text(PROFILE.format(head=head, worker=worker, venv=sys.prefix))
    env = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
    command = [sys.executable, "-m", "cockpit", "explain", str(profile), "--json"]
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
    return done.returncode, json.loads(done.stdout)


@pytest.mark.usefixtures("run_folder")
def test_without_a_worker_the_other_logs_are_read_and_the_missing_ones_named(tmp_path: Path) -> None:
    status, found = explained(tmp_path, head="local", worker="127.0.0.1")
    assert (status, found["status"]) == (0, "failed")
    (first, *_) = found["next"]  # type: ignore[misc]
    assert first.startswith("The logs of spark-2 were not read: spark-2: 127.0.0.1 cannot be reached: ")


@pytest.mark.usefixtures("run_folder")
def test_without_the_head_there_is_no_run_to_explain(tmp_path: Path) -> None:
    status, found = explained(tmp_path, head="127.0.0.2", worker="127.0.0.1")
    assert status == 3
    assert "error" in found
