"""Arguments that nobody would write, for every option that a parser has; needs hypothesis."""

# ruff: noqa: SLF001 - argparse has no public name for what a parser holds
import argparse
from collections.abc import Collection, Sequence
from functools import reduce

from hypothesis import strategies as st

# What has broken programs: nothing, blanks, NUL, surrogates (bytes that are no UTF-8 arrive as such), marks
# that turn the writing direction, names that no file can have, words like options.
WORDS = (
    "", " ", "-", "--", "\0", "a\0b", "\ud800", "\udcff", "\u202e", "\x1b[2J", "a\nb", "é", "x" * 300, "~",
    ".", "a=b", "=", "broker=x", "port=1", "port=²", "%s", "{}", "*", "+/#", "a,b", "[::1]", "256.1.1.1",
    "postgresql://[", "postgresql://u:p@h/d", "deadbeef", "0000abcd", "hermes", "server",
)  # fmt: skip
NUMBERS = (
    "0", "-0", "1", "-1", "0.0", "1e-320", "0.5", "nan", "-nan", "inf", "-inf", "Infinity", "1e308", "1e309",
    "-1e308", "1_0", "²", "٣", "0x10", "2147483648", "4294967296", "9223372036854775808",
    "-9223372036854775809", "9" * 400, "9" * 4400, "10s", "-1d", "1e300w", "9" * 30 + "G",
)  # fmt: skip
# Never a way out of the working directory: what writes where it is told to would write there.
TEXTS = st.text(st.characters(codec=None), max_size=12).map(lambda text: text.replace("..", "").lstrip("/"))


def arguments(
    parser: argparse.ArgumentParser, *, paths: Sequence[str], without: Collection[str] = ()
) -> st.SearchStrategy[list[str]]:
    """Return lists of arguments for `parser`, most of them wrong; `paths` name what a test prepared."""
    options = [
        action
        for action in parser._actions
        if action.option_strings and not set(action.option_strings) & {"-h", "--help", *without}
    ]
    places = [action for action in parser._actions if not action.option_strings]
    some = st.lists(st.sampled_from(options), max_size=4) if options else st.just([])
    chosen = some.flatmap(lambda actions: _all_of([_option(action, paths) for action in actions]))
    given = _all_of([_values(action, paths) for action in places])
    # A value that begins with a hyphen is an option to argparse, unless it follows two of them.
    return st.builds(
        lambda first, last, apart: [*first, *(["--"] if apart else []), *last], chosen, given, st.booleans()
    )


def _all_of(parts: Sequence[st.SearchStrategy[list[str]]]) -> st.SearchStrategy[list[str]]:
    return reduce(lambda left, right: st.builds(list.__add__, left, right), parts, st.just([]))


def _option(action: argparse.Action, paths: Sequence[str]) -> st.SearchStrategy[list[str]]:
    name = action.option_strings[-1]
    if action.nargs == 0:
        return st.just([name])
    joined = _value(action, paths).map(lambda value: [f"{name}={value}"])
    return st.one_of(joined, _values(action, paths).map(lambda values: [name, *values]))


def _values(action: argparse.Action, paths: Sequence[str]) -> st.SearchStrategy[list[str]]:
    one = _value(action, paths)
    if action.nargs in {"*", "?"}:
        return st.lists(one, max_size=2)
    return st.lists(one, min_size=1, max_size=2 if action.nargs == "+" else 1)


def _value(action: argparse.Action, paths: Sequence[str]) -> st.SearchStrategy[str]:
    wild = st.one_of(st.sampled_from(WORDS), st.sampled_from(NUMBERS), st.sampled_from(tuple(paths)), TEXTS)
    numbers = st.one_of(st.integers().map(str), st.floats().map(str))
    fitting = st.sampled_from([str(choice) for choice in action.choices]) if action.choices else numbers
    return st.one_of(wild, fitting)
