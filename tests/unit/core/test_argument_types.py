"""Numbers on a command line: bounded, in plain digits, and refused with their bounds."""

import argparse

import pytest

from jobwire.core.argument_types import number, whole


@pytest.mark.parametrize("text", ["", "-1", "11", "1_0", " 5", "²", "٣", "0x1", "1.0", "9" * 5000])
def test_what_is_no_whole_number(text: str) -> None:
    """Only plain digits within the limits are taken, and the limits are named."""
    with pytest.raises(argparse.ArgumentTypeError, match="from 0 to 10"):
        whole(0, 10)(text)


@pytest.mark.parametrize("text", ["", "-1", "nan", "inf", "-inf", "1e309", "10.1", "x", "9" * 5000])
def test_what_is_no_number(text: str) -> None:
    """Neither NaN nor infinity passes a bound."""
    with pytest.raises(argparse.ArgumentTypeError, match="from 0 to 10"):
        number(10)(text)


def test_what_is_one() -> None:
    """The limits belong to it; zero where it is meant to."""
    assert [whole(0, 10)(text) for text in ("0", "10", "07")] == [0, 10, 7]
    assert [number(10)(text) for text in ("0", "10", "1e-3")] == [0.0, 10.0, 0.001]
    with pytest.raises(argparse.ArgumentTypeError, match="above 0"):
        number(10, zero=False)("0")
