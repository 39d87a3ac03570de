"""What the screen's tests share: times in one zone, nothing of the user's own settings, a blinkless cursor."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    for name in ("NO_COLOR", "SSH_CONNECTION", "SPARK_COCKPIT_THEME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


PROFILE = """\
name: nowhere
hosts:
  - {{name: spark-1, role: head, address: 127.0.0.1, port: {port}, fabric: {{address: 127.0.2.1}}}}
  - {{name: spark-2, role: worker, address: 127.0.0.2, port: {port}, fabric: {{address: 127.0.2.2}}}}
runtime: {{kind: native, venv: /opt/vllm}}
serve: {{model: /models/none, flags: {{tensor-parallel-size: 2, distributed-executor-backend: ray}}}}
"""


@pytest.fixture
def nowhere(tmp_path: Path) -> Iterator[Path]:
    """A profile whose hosts refuse every connection, as long as the test goes: the port is held, and nobody
    listens on it."""
    with socket.socket() as held:
        held.bind(("0.0.0.0", 0))
        path = tmp_path / "nowhere.yaml"
        path.write_text(PROFILE.format(port=held.getsockname()[1]))
        yield path
