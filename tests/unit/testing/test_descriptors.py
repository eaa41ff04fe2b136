"""What a block leaves open, told from what others do to the process meanwhile."""

import os

import pytest

from jobwire.testing.descriptors import nothing_left_open


def test_what_is_left_open_is_told() -> None:
    """A pipe that nobody closed fails the block, also where as many others were closed in it."""
    mine = os.pipe()
    others = os.pipe()
    opened = list(mine)

    @nothing_left_open()
    def forgetful() -> None:
        for number in others:
            os.close(number)
        opened.extend(os.pipe())

    with pytest.raises(AssertionError, match="pipe:"):
        forgetful()
    for number in opened:
        os.close(number)


def test_what_others_close_is_no_fault() -> None:
    """Garbage of earlier tests may close at any time."""
    others = os.pipe()
    with nothing_left_open():
        for number in others:
            os.close(number)
