"""How the command line ends when it is asked to."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cockpit import Cockpit

PROFILE = """\
hosts:
  - {{name: spark-1, role: head, address: 127.0.0.1, port: {port}, user: nobody}}
runtime: {{kind: native, venv: /nowhere}}
serve: {{model: /nowhere}}
"""


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize("ended", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda s: s.name)
def test_whoever_ends_it_the_last_event_is_told(
    ended: signal.Signals, silent_port: int, tmp_path: Path
) -> None:
    profile = tmp_path / "silent.yaml"
    profile.write_text(PROFILE.format(port=silent_port))
    running = Cockpit(tmp_path).start("up", str(profile), "--json")
    running.until_step("connect")
    running.process.send_signal(ended)
    assert [event["event"] for event in running.lines()] == ["end"]
    assert (running.last, running.process.wait(timeout=30)) == ("detached", 130)
