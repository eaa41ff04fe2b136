"""The words that are read without argparse mean what argparse would have them mean."""

import os
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.publisher.options import command_parser
from jobwire.publisher.usual_words import read_usual

PARSER = cache(command_parser)
OPTIONS = ["--home", "--job", "--ticket", "--event", "--detail", "--data", "--data-json", "--strict",
           "--direct", "--json", "--flush", "--attempts", "--tls", "--broker"]  # fmt: skip
VALUES = ["progress", "started", "nothing", "-", "--", "-1", "-x", "", "a b", "- b", "k=v", "k=--x", "3",
          os.fsdecode(b"\xff"), "\0", "--job=1", "--eve"]  # fmt: skip
PAIRS = st.tuples(st.sampled_from(OPTIONS), st.sampled_from(VALUES))
WORDS = st.one_of(
    st.lists(st.sampled_from(OPTIONS + VALUES), max_size=8),
    st.lists(PAIRS, max_size=5).map(lambda pairs: [word for pair in pairs for word in pair]),
)


@given(words=WORDS)
def test_they_are_read_as_argparse_reads_them(words: list[str]) -> None:
    """Whatever is read quickly is what the parser returns; the rest is left to it."""
    read = read_usual(words)
    if read is not None:
        assert vars(read) == vars(PARSER().parse_args(words))


@pytest.mark.parametrize(
    "words",
    [
        ["--home", "h", "--job", "0a1b2c3d", "--event", "progress", "--detail", "x", "--data", "a=1"],
        ["--event", "completed", "--data-json", "-", "--strict"],
        [],
    ],
)
def test_what_workers_say_is_read(words: list[str]) -> None:
    """The options of the manual's examples need no argparse."""
    assert read_usual(words) is not None
