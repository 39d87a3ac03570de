"""NO_COLOR: the real program in a terminal sends no colour, and what colour told is told otherwise."""

from __future__ import annotations

import re
import sys
from math import isnan
from pathlib import Path

import pytest
from rich.style import Style
from textual.color import Color

from cockpit.tui.no_colour import colourless
from tests.bench.terminal import Terminal

PLAIN = {*range(10), *range(21, 30)}
"""Codes of SGR that are no colour: weights, underlines, reverse, and their ends."""


def codes(sent: bytes) -> set[int]:
    """Every number in every SGR sequence."""
    found = re.findall(rb"\x1b\[([0-9;:]*)m", sent)
    return {int(code or b"0") for one in found for code in re.split(rb"[;:]", one)}


def shown(setting: str, arguments: list[str], *steps: tuple[bytes, bytes]) -> bytes:
    """All that the program sends while keys are pressed, each followed by a wait for a word on the screen."""
    terminal = Terminal(["env", setting, sys.executable, "-m", "cockpit", *arguments])
    sent = b""
    try:
        for keys, word in steps:
            if keys:
                terminal.press(keys)
            assert not isnan(terminal.until(word, 90)), (keys, word, bytes(terminal.seen[-3000:]))
            sent += bytes(terminal.seen)
    finally:
        terminal.close()
    return sent


@pytest.mark.timeout(400)
def test_no_colour_reaches_the_terminal(nowhere: Path) -> None:
    """Panels that are lost, toasts, help, palette, editor: bold, dim, underline and reverse alone. With the setting
    empty, colours are sent."""
    # After Escape only what it uncovers tells that it was taken: a key sent before would make one key of both.
    steps = [
        (b"", b"Connection refused"),
        (b"a", b"tries now"),
        (b"T", b"Theme"),
        (b"?", b"Looking"),
        (b"\x1b", b"No host answers"),
        (b"e", b"tensor-parallel-size"),
        (b"\x1b", b"No host answers"),
        (b"\x10", b"Search"),
    ]
    sent = shown("NO_COLOR=1", [str(nowhere)], *steps)
    assert codes(sent) <= PLAIN
    assert {1, 2, 7} <= codes(sent)
    assert not codes(shown("NO_COLOR=", [str(nowhere)], steps[0])) <= PLAIN


@pytest.mark.timeout(200)
def test_a_logs_own_colours_are_left_out_too(tmp_path: Path) -> None:
    """In the log view, where they are shown otherwise."""
    log = tmp_path / "serve.log"
    log.write_text("\x1b[31mred\x1b[0m plainly \x1b[48;5;22mgreen\x1b[0m\nERROR something\n" * 5)
    assert codes(shown("NO_COLOR=1", ["view", str(log)], (b"", b"plainly"), (b"/red\r", b"red"))) <= PLAIN
    assert 38 in codes(shown("NO_COLOR=", ["view", str(log)], (b"", b"plainly")))


DARK, LIGHT = Color.parse("#101418"), Color.parse("#fafafa")


@pytest.mark.parametrize("screen", [DARK, LIGHT])
def test_what_a_background_told_is_reverse(screen: Color) -> None:
    """A selection stands out, a panel does not; what was faint is dim; bold and links of the mouse stay."""
    ground = screen.rich_color
    strong = Style(bgcolor="#3a78b0", color="white", bold=True)
    assert colourless(strong, screen) == Style(bold=True, reverse=True, dim=False)
    panel = screen.blend(screen.get_contrast_text(), 0.08)
    clear = screen.get_contrast_text().rich_color
    assert not colourless(Style(bgcolor=panel.rich_color, color=clear), screen).reverse
    faint = screen.blend(screen.get_contrast_text(), 0.35).rich_color
    assert colourless(Style(color=faint, bgcolor=ground), screen).dim
    assert not colourless(Style(color=clear, bgcolor=ground), screen).dim
