"""The lines below a log, at any width."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from cockpit.logs.layout import cells_of
from cockpit.tui.log_pane import LogPane
from cockpit.tui.log_status import BETWEEN, Part, StatusLine, clipped, fitted, part
from cockpit.tui.view_app import ViewApp, open_logs
from cockpit.tui.view_footer import fitted as footer
from tests.tui.test_log_view import log, type_in, until

__all__ = ["log"]

WORDS = st.text(alphabet="ab中é ", min_size=1, max_size=12)
PARTS = st.lists(
    st.builds(lambda weight, forms: part(weight, *forms), st.integers(1, 9), st.lists(WORDS, max_size=3)),
    max_size=6,
)


@given(parts=PARTS, width=st.integers(12, 90))
def test_what_weighs_most_stays_and_nothing_is_cut(parts: list[Part], width: int) -> None:
    words = fitted(parts, width)
    said = [each for each in parts if each.forms]
    assert cells_of(words) <= max(width, max((cells_of(each.forms[-1]) for each in said), default=0))
    assert all(any(piece in each.forms for each in said) for piece in words.split(BETWEEN) if words)
    if said:
        heaviest = max(each.weight for each in said)
        told = words.split(BETWEEN)
        assert any(form in told for each in said if each.weight == heaviest for form in each.forms)
    if cells_of(BETWEEN.join(each.forms[0] for each in said)) <= width:
        assert words == BETWEEN.join(each.forms[0] for each in said)


@given(text=WORDS, width=st.integers(1, 12))
def test_clipped_in_the_middle(text: str, width: int) -> None:
    short = clipped(text, width)
    assert cells_of(short) <= width
    assert short == text if cells_of(text) <= width else "…" in short


@given(width=st.integers(0, 90))
def test_the_footer_cuts_no_key_in_half(width: int) -> None:
    keys, last = [("F", "follow"), ("/", "search"), (":", "go to")], [("q", "quit"), ("?", "keys")]
    line = footer(keys, last, width)
    assert line.cell_length == width
    told = [f"{key} {label}" for key, label in (*keys, *last)]
    assert [word for word in line.plain.split("  ") if word.strip() and word.strip() not in told] == []
    assert ("? keys" in line.plain) is (width >= 8)


@pytest.mark.parametrize("size", [(20, 5), (40, 8), (80, 24), (120, 40)])
async def test_with_filter_and_search_both_lines_fit(log: Path, size: tuple[int, int]) -> None:
    app = ViewApp(open_logs([log]))
    async with app.run_test(size=size) as pilot:
        pane = app.query_one(LogPane)
        await until(pilot, lambda: pane.view.shown.index.complete)
        await type_in(pilot, "ampersand", "level:INFO process:EngineCore")
        await type_in(pilot, "slash", "/number [0-9]*29$/")
        line = pane.query_one(StatusLine)
        await until(pilot, lambda: "30 of 30" in line.words)
        shown = line.render_line(0).text
        assert cell_len(shown) == size[0]
        assert "30 of 30" in shown
        if size[0] >= 80:
            assert "2,929 of 3,000" in shown and "only " in shown and "3,000 lines" in shown
        if size[0] >= 120:
            assert shown.strip() == line.words
        footer_line = app.query_one("ViewFooter").render()
        assert "? keys" in str(footer_line) and "q quit" in str(footer_line)
