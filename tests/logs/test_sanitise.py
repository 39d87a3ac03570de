"""The sanitiser: nothing that a terminal obeys comes out of it."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from wcwidth import wcwidth

from cockpit.logs.sanitise import PLAIN, Sgr, clean, split_styles, steady

HOSTILE = st.text(
    st.one_of(
        st.characters(), st.sampled_from("\x1b\x9b\x07\r\n\t\x00\u202e\u2066\u200d\ufe0f\ud800\udc9b👩💻")
    )
)
FORBIDDEN = {"Cc", "Cs", "Zl", "Zp", "Co", "Cn"}


def obeyed(text: str) -> list[str]:
    """The characters of ``text`` that a terminal might act on, joiners apart."""
    return [
        char
        for char in text
        if unicodedata.category(char) in FORBIDDEN
        or (unicodedata.category(char) == "Cf" and char not in "\u200c\u200d")
    ]


@given(HOSTILE)
def test_nothing_to_obey_is_left(text: str) -> None:
    assert obeyed(clean(text)) == []
    assert obeyed(steady(text)) == []
    assert all(obeyed(piece) == [] for piece, _ in split_styles(text))


@given(HOSTILE)
def test_blocks_keep_their_newlines_and_nothing_else(text: str) -> None:
    block = clean(text, multiline=True)
    assert obeyed(block.replace("\n", "")) == []
    assert block.count("\n") == text.count("\n")


@given(HOSTILE)
def test_cleaning_twice_changes_nothing(text: str) -> None:
    assert clean(clean(text)) == clean(text)
    assert steady(steady(text)) == steady(text)


@given(HOSTILE)
def test_steady_text_is_as_wide_as_its_characters(text: str) -> None:
    shown = steady(text)
    widths = [wcwidth(char) for char in shown]
    assert min(widths, default=0) >= 0
    assert cell_len(shown) == sum(widths)


@given(st.text(st.characters(categories=("L", "N", "P", "S", "Zs"), codec="utf-8")).filter(str.isprintable))
def test_printable_text_is_left_alone(text: str) -> None:
    assert clean(text) is text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]52;c;UFdO\x07", "␛]52;c;UFdO␇"),
        ("a\x9b2Jb", "a⟨9b⟩2Jb"),
        ("\x7f\x00", "␡␀"),
        ("user\u202egpj.exe", "user⟨202e⟩gpj.exe"),
        (b"\xff\xfe".decode("utf-8", "surrogateescape"), "⟨ff⟩⟨fe⟩"),
        ("\ud800", "⟨d800⟩"),
        ("a\u2028b", "a⟨2028⟩b"),
        ("[red]x[/]", "[red]x[/]"),
        ("a\tb", "a       b"),
        ("10%\r20%", "10%␍20%"),
        ("two\nlines", "two␊lines"),
        ("全角\u3000空白\xa0", "全角\u3000空白\xa0"),
    ],
)
def test_pictures(text: str, shown: str) -> None:
    assert clean(text) == shown


def test_block_with_windows_line_ends() -> None:
    assert clean("a\r\nb\x1b[2J\nc", multiline=True) == "a\nb␛[2J\nc"


def test_steady_takes_emoji_apart() -> None:
    assert steady("👩\u200d💻 ⚠\ufe0f 🇩🇪") == "👩⟨200d⟩💻 ⚠ 🄳🄴"


def test_colours_are_kept_and_other_escapes_shown() -> None:
    assert split_styles("\x1b[31mred\x1b[1;42mgreen\x1b[0mplain\x1b[2Jx") == [
        ("red", Sgr(foreground=1)),
        ("green", Sgr(foreground=1, background=2, bold=True)),
        ("plain␛[2Jx", PLAIN),
    ]


@pytest.mark.parametrize(
    ("sequence", "style"),
    [
        ("38;5;208", Sgr(foreground=208)),
        ("48;2;1;2;3", Sgr(background=(1, 2, 3))),
        ("38:2::10:20:30", Sgr(foreground=(10, 20, 30))),
        ("38:5:9", Sgr(foreground=9)),
        ("91", Sgr(foreground=9)),
        ("107", Sgr(background=15)),
        ("4:3", Sgr(underline=True)),
        ("38;5", PLAIN),
        ("38;2;999;0;0", PLAIN),
        ("1;22", PLAIN),
        ("8", PLAIN),
        ("7;9;3;2", Sgr(reverse=True, strike=True, italic=True, dim=True)),
        ("31;39", PLAIN),
    ],
)
def test_colour_sequences(sequence: str, style: Sgr) -> None:
    assert split_styles(f"\x1b[{sequence}mx") == [("x", style)]
