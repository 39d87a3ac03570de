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


def test_a_verb_that_is_misspelt_is_told_the_nearest(tmp_path: Path) -> None:
    answer = Cockpit(tmp_path)("explian", "some.log")
    assert answer.status == 2
    assert "Did you mean 'explain'?" in answer.err
    assert Cockpit(tmp_path)("explain", "").status == 2


def test_json_has_no_control_character_raw(tmp_path: Path) -> None:
    log = tmp_path / "serve.log"
    log.write_text("(EngineCore pid=7) ERROR 12-01 10:00:00 [core.py:1] ValueError: \x9b31mred \x1b[31m \x7f\n")
    out = Cockpit(tmp_path)("explain", str(log), "--json").out
    assert not [char for char in out if char != "\n" and (char < " " or "\x7f" <= char <= "\x9f")]
