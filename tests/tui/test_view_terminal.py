"""``spark-cockpit view`` in a shell's terminal: suspended, resumed, and ended by signals."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tui.shell import Shell

LEFT = b"\x1b[?1049l"
"""The terminal's own screen comes back."""


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    log = tmp_path / "serve.log"
    log.write_text("".join(f"number {number}\n" for number in range(1, 101)))
    shell = Shell(24, 80)
    try:
        shell.until(lambda text: b"shell> " in text, "the shell")
        shell.type(f"env -u COLUMNS -u LINES {sys.executable} -m cockpit view {log}; echo gave $?\n".encode())
        shell.until(lambda text: b"number 100" in text and b"100 of 100" in text, "the log's end")
        yield shell
    finally:
        shell.close()


def left(shell: Shell, *words: bytes) -> None:
    """The terminal's own screen is back, and the shell asks for its next line."""
    shell.until(
        lambda text: all(word in text.rpartition(LEFT)[2] for word in (*words, b"shell> ")) and LEFT in text,
        "left in order",
    )


def as_it_was(shell: Shell) -> None:
    """The shell's terminal takes whole lines and echoes them."""
    shell.type(b"stty -a | tr '\\n' ' '; echo\n")
    shell.until(lambda text: b" icanon" in text and b" echo " in text, "the terminal as it was")


@pytest.mark.parametrize(
    ("key", "drawn"),
    [(b"", b"number 90"), (b"?", b"Keys of the log view"), (b"/", b"capitals make case count")],
    ids=["the log", "the help", "the prompt"],
)
def test_suspended_and_resumed(shell: Shell, key: bytes, drawn: bytes) -> None:
    """Whatever has the screen is drawn again, whole."""
    if key:
        shell.type(key)
        shell.until(lambda text: drawn in text, "the help or the prompt")
    shell.type(b"\x1a")
    left(shell, b"Stopped")
    as_it_was(shell)
    shell.type(b"fg\n")
    shell.until(lambda text: drawn in text, "all drawn again")
    os.kill(shell.children()[0], signal.SIGTERM)
    left(shell)
    as_it_was(shell)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("view -", b"nothing is piped to it"),
        ("view - <&-", b"nothing is piped to it"),
        ("view - - </dev/null", b"which can be read once"),
        ("view /dev/null", b"neither an ordinary file nor a pipe.\r\nName files that exist"),
        ("<&-", b"there is none here"),
    ],
)
def test_what_can_not_be_shown_is_refused_in_words(shell: Shell, call: str, told: bytes) -> None:
    os.kill(shell.children()[0], signal.SIGTERM)
    left(shell, b"gave 0")
    shell.type(f"{sys.executable} -m cockpit {call}; echo gave $?\n".encode())
    shell.until(lambda text: told in text and bool(re.search(rb"gave [12]\r", text)), "refused")


@pytest.mark.parametrize("ended", [signal.SIGTERM, signal.SIGHUP])
def test_ended_by_a_signal_the_terminal_is_given_back(shell: Shell, ended: signal.Signals) -> None:
    shell.seen.clear()
    os.kill(shell.children()[0], ended)
    left(shell, b"gave 0")
    as_it_was(shell)
