"""A command line as its parsers describe it: every command with its options, found and not listed."""

# ruff: noqa: SLF001 - argparse has no public name for what a parser holds
import argparse
from collections.abc import Iterator

from jobwire.core.commands import CommandParser


def commands_of(
    parser: argparse.ArgumentParser, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    """Yield the words and the parser of every command that has none below it."""
    if isinstance(parser, CommandParser):
        parser.complete()
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not below:
        yield words, parser
    for action in below:
        for name, child in action.choices.items():
            yield from commands_of(child, (*words, name))


def needed_words(parser: argparse.ArgumentParser) -> list[str]:
    """Return the fewest arguments that the parser takes, such as `0000abcd` for a job."""
    chosen = [group._group_actions[0] for group in parser._mutually_exclusive_groups if group.required]
    words: list[str] = []
    for action in parser._actions:
        if action.option_strings and action.required:
            words += [action.option_strings[-1], _value(action)]
        elif not action.option_strings and (action in chosen or action.nargs not in {"?", "*"}):
            words.append(_value(action))
    return words


def _value(action: argparse.Action) -> str:
    return str(next(iter(action.choices))) if action.choices else "0000abcd"
