"""Output that is shown on a terminal does nothing to it, however it is cut into pieces."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.runner.sanitizer import OutputSanitizer

RED, PLAIN = "\x1b[1;31m", "\x1b[0m"


def shown(*pieces: bytes) -> str:
    """Return what a terminal gets."""
    output = OutputSanitizer()
    return "".join([*map(output.feed, pieces), output.finish()])


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("plain\n\ttab, ä and 漢\n", "plain\n\ttab, ä and 漢\n"),
        (f"{RED}red{PLAIN}\n", f"{RED}red{PLAIN}\n{PLAIN}"),
        ("10%\r20%\r\n", "10%\n20%\n"),
        ("\x1b]0;title\x07", "^[]0;title^G"),
        ("\x1b[2J\x1b[31", "^[[2J^[[31"),
        ("\x9b31m\u202e", "\\x9b31m\\u202e"),
        ("a\x00\x7f", "a^@^?"),
    ],
)
def test_only_colours_act(raw: str, text: str) -> None:
    """Colours pass and are ended, everything else that a terminal would act on is written out."""
    assert shown(raw.encode()) == text


def test_what_is_no_text_is_replaced() -> None:
    """Bytes that are not UTF-8 become replacement characters."""
    assert shown(b"\xff\xc3") == "\ufffd\ufffd"


@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=5))
def test_pieces_make_no_difference(raw: bytes, cuts: list[int]) -> None:
    """Output is shown alike in one piece and in many, and never holds a control besides colours."""
    ends = [0, *sorted(cuts), len(raw)]
    pieces = [raw[begin:end] for begin, end in pairwise(ends)]
    text = shown(*pieces)
    assert text == shown(raw)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", re.sub("\x1b\\[[0-9;:]*m", "", text))


@given(st.text(alphabet="\x1b[01;m\r\nx", max_size=40), st.integers(0, 40))
def test_sequences_may_be_cut_anywhere(text: str, cut: int) -> None:
    """A sequence or a line break that is cut in two is read as one."""
    raw = text.encode()
    assert shown(raw[:cut], raw[cut:]) == shown(raw)
