"""Texts from strangers do nothing to a terminal, and take no more than their place on it."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.core.terminal_text import fit, one_line, safe, table, width


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("a\x1b[31mb", r"a\x1b[31mb"),
        ("a\nb\tc\rd", r"a\nb\tc\rd"),
        ("a\x9b31mb", r"a\x9b31mb"),
        ("abc\u202etxt.exe", r"abc\u202etxt.exe"),
        ("a\u2028b", r"a\u2028b"),
        ("naïve 日本 🙂", "naïve 日本 🙂"),
    ],
)
def test_text_from_strangers(text: str, expected: str) -> None:
    """Control characters and reordering marks are written out, everything else is left alone."""
    assert safe(text) == expected


@given(st.text(max_size=60), st.integers(0, 40))
def test_fit(text: str, columns: int) -> None:
    """Cut text never exceeds its columns; text with room is left alone."""
    cut = fit(text, columns)
    assert width(cut) <= columns
    if width(text) <= columns:
        assert cut == text


def test_wide_characters_take_two_columns() -> None:
    """East Asian wide characters count double, combining marks nothing."""
    assert width("日本") == 4
    assert width("e\u0301") == 1
    assert fit("日本語", 5) == "日本…"


@given(st.text(max_size=300), st.integers(1, 60))
def test_one_line_of_so_many_columns(text: str, columns: int) -> None:
    """Whatever a worker says fits on one line and holds no control, line separator or reordering mark."""
    shown = one_line(text, columns)
    assert width(shown) <= columns
    assert not {unicodedata.category(mark) for mark in shown} & {"Cc", "Cs", "Zl", "Zp"}
    assert not {unicodedata.bidirectional(mark) for mark in shown} & {
        "LRE",
        "RLE",
        "LRO",
        "RLO",
        "PDF",
        "RLI",
    }


def test_white_space_becomes_one_blank() -> None:
    """A title of several lines is read as a sentence."""
    assert one_line("first\n\n  second\t third ", 40) == "first second third"


@pytest.mark.parametrize("columns", [80, 120])
def test_table_fits_the_terminal(columns: int) -> None:
    """Columns are aligned and no line is wider than the terminal, wide characters included."""
    rows = [("1a2b3c4d", "waits for you", "日本語 " * 30), ("ffffffff", "ok", "\x1b[31mred\nline")]
    lines = table([("JOB", "STATUS", "TITLE"), *rows], columns)
    assert len(lines) == 3
    assert all(width(line) <= columns for line in lines)
    assert "\x1b" not in "".join(lines)
