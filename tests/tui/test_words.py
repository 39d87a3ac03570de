"""Figures in words, bars, and what is remembered of earlier loads."""

from __future__ import annotations

import pytest

from cockpit.model.progress import Phase
from cockpit.tui import earlier, remember, words
from cockpit.tui.bars import filled, shares, stacked
from cockpit.tui.widgets.chart import Curve, draw


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (42.4, "42 s"),
        (192, "3 min 12 s"),
        (7500, "2 h 05 min"),
        (273600, "3 d 4 h"),
    ],
)
def test_spans(seconds: float, told: str) -> None:
    """Lengths of time."""
    assert words.span(seconds) == told


@pytest.mark.parametrize(
    ("amount", "told"), [(0, "0 B"), (1023, "1023 B"), (1024**2, "1 MiB"), (71.2 * 1024**3, "71.2 GiB")]
)
def test_sizes(amount: float, told: str) -> None:
    """Binary sizes."""
    assert words.size(amount) == told


def test_rates_are_decimal() -> None:
    """Network rates are in powers of ten, as link speeds are."""
    assert words.rate(1.9e9) == "1.9 GB/s"
    assert words.rate(999) == "999 B/s"


def test_shares_fill_the_width_and_lose_nothing() -> None:
    """The parts' cells add up; a part that is there at all is seen."""
    assert shares([50, 30, 20], 100, 10) == [5, 3, 2]
    cells = shares([98, 1, 1], 100, 20)
    assert sum(cells) == 20
    assert min(cells) == 1
    assert shares([0, 0], 0, 10) == [0, 0]


def test_the_line_of_a_stacked_bar() -> None:
    """The line stands at its amount, over whatever is there."""
    bar = stacked([(50, "#", "")], 100, 10, lines=[(80, "┊", "")]).plain
    assert bar == "#####···┊·"


def test_a_filled_bar_by_eighths() -> None:
    """Progress moves by an eighth of a cell."""
    assert filled(0.5, 12).plain == "▕█████     ▏"
    assert filled(0.0125, 12).plain.startswith("▕▏")


def test_a_chart_has_its_size_and_scale() -> None:
    """As many rows as asked for, the scale's end at the top, the line with its name."""
    points = tuple((float(second), second % 50 + 20.0) for second in range(120))
    rows = draw(Curve(points, 120, 96, "0.8", "GiB"), 119.0, 60, 6).plain.split("\n")
    assert len(rows) == 6
    assert rows[0].startswith(" 120 ┤")
    assert rows[1].endswith("0.8")
    assert "┄" in rows[1]
    assert all(len(row) == 60 for row in rows)


def test_a_gap_in_the_samples_is_a_gap_in_the_chart() -> None:
    """No line is drawn over a time without samples."""
    points = tuple((float(at), 10.0) for at in (*range(0, 60), *range(200, 240)))
    body = draw(Curve(points, 20), 240.0, 66, 3).plain.split("\n")[1][6:]
    drawn = [char not in " \u2800" for char in body]
    assert drawn[13] and not drawn[33] and drawn[-5]


def test_earlier_loads_are_kept() -> None:
    """Only a load that was watched from launch to ready counts; five of them are kept."""
    phases = ((Phase.STARTING, 102.0), (Phase.WEIGHTS, 120.0), (Phase.READY, 160.0))
    durations = earlier.observed(100.0, phases)
    assert durations == {Phase.STARTING: 18.0, Phase.WEIGHTS: 40.0}
    assert earlier.observed(10.0, phases) is None
    assert earlier.observed(100.0, phases[:2]) is None
    for _ in range(7):
        earlier.add("p/../q", durations)
    assert earlier.read("p/../q") == (durations,) * earlier.KEPT
    assert earlier.read("other") == ()


def test_the_last_profile_is_remembered() -> None:
    """By name, or by its whole path."""
    assert remember.recall() == ""
    remember.remember("qwen")
    assert remember.recall() == "qwen"
    remember.remember("./x.yaml")
    assert remember.recall().startswith("/")
