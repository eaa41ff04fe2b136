"""A command with verbs (`inbox send`, `lock acquire`) from a table: what each does, takes and runs.

Only the verb that was asked for is built and imports its code: agents call these all the time.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from jobwire.coordination.command import coordination_command
from jobwire.coordination.verb_options import Options, add_options
from jobwire.core.boundary import end_program, run_command
from jobwire.core.commands import CommandParser, NameOnly, wants_json
from jobwire.core.told import say_failure
from jobwire.storage.home import HELP, Need

# argparse.SUPPRESS: an option that stands before the verb is not taken back by one that is not behind it.
_UNSET = argparse.SUPPRESS
_WITH_VALUE = frozenset({"--db", "--agent", "--from", "--home", "--ticket"})


class Verb(NamedTuple):
    """One verb: what it does, an example, its options, and what runs.

    `runs` is `module:function`, of this component or by its whole name, or `verb:NAME`, a verb of agents.
    """

    summary: str
    example: str
    options: Options
    runs: str


# Name, summary, words of the example, options.
Row = tuple[str, str, str, Options]


def verbs_of(command: str, rows: Iterable[Row], *, runs: str, but: Mapping[str, str] = {}) -> dict[str, Verb]:
    """Return the verbs of the rows; `runs` with the name in it is what runs.

    `but` are other places, each with the names of the verbs that run there.
    """
    places = {name: place for place, names in but.items() for name in names.split()}
    return {
        name: Verb(
            summary, f"{command} {name} {words}".rstrip(), options, places.get(name, runs).format(name)
        )
        for name, summary, words, options in rows
        for place in (places.get(name, runs),)
    }


class VerbTable(NamedTuple):
    """A command: its name, a sentence for its help, its verbs.

    `common` adds the options of all its verbs: by default `add_common`.
    """

    prog: str
    description: str
    verbs: Mapping[str, Verb]
    common: "Callable[..., None] | None" = None

    def add_to(self, commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
        """Add it to `jobwire`."""
        parser = commands.add_parser(
            self.prog,
            description=self.description,
            fill=self._fill,
            tell=partial(say_failure, self.prog),
        )
        parser.set_defaults(home_need=Need.NOTHING)

    def main(self, argv: Sequence[str] | None = None) -> int:
        """Run it as a command of its own; return the exit code."""
        words = list(sys.argv[1:] if argv is None else argv)
        tell = partial(say_failure, self.prog)
        parser = CommandParser(self.prog, description=self.description, fill=self._fill, tell=tell)

        def body(_: argparse.Namespace) -> int:
            args = parser.parse_args(words)
            return int(args.run(args))

        as_json = wants_json(words)
        run = partial(run_command, prog=self.prog, as_json=as_json, tell=tell if as_json else None)
        return end_program(lambda: run(body, argparse.Namespace()), argv)

    def _fill(self, parser: CommandParser, words: Sequence[str]) -> None:
        """Add the verb that the words name, or the names of all; without any words all of them."""
        common = self.common or add_common
        common(parser, None)
        chosen = self._verb_in(words)
        built = CommandParser if chosen or not words else NameOnly
        verbs = parser.add_subparsers(
            title="verbs", metavar="VERB", dest="verb", required=True, parser_class=built
        )
        for name in (chosen,) if chosen else self.verbs:
            verb = self.verbs[name]
            if built is NameOnly:
                verbs.add_parser(name, help=verb.summary)
                continue
            one = verbs.add_parser(
                name,
                help=verb.summary,
                description=f"{verb.summary[0].upper()}{verb.summary[1:]}.",
                epilog=f"example:\n  {verb.example}",
                tell=partial(say_failure, name),
                as_json=wants_json(words),
            )
            common(one)
            if callable(verb.options):
                verb.options(one)
            else:
                add_options(one, verb.options)
            one.set_defaults(run=coordination_command(run_verb), runs=verb.runs)

    def _verb_in(self, words: Sequence[str]) -> str:
        taken = iter(words)
        for word in taken:
            if word in _WITH_VALUE:
                next(taken, None)
            elif not word.startswith("-"):
                return word if word in self.verbs else ""
        return ""


def add_place(parser: argparse.ArgumentParser, default: object = _UNSET) -> None:
    """Add the options of a command that nobody in particular gives."""
    add = parser.add_argument
    add("--json", action="store_true", default=default or False, help="print one JSON object")
    add("--home", metavar="DIR", default=default, help=HELP)


def add_common(parser: argparse.ArgumentParser, default: object = _UNSET) -> None:
    """Add the options of every command of the coordination."""
    add_place(parser, default)
    add = parser.add_argument
    add("--db", metavar="PATH", default=default, help="the store (default: $JOBWIRE_DB, else in the home)")
    add("--agent", "--from", metavar="NAME", default=default, help="who I am (default: $JOBWIRE_AGENT)")
    add(
        "--ticket",
        metavar="FILE",
        default=default,
        help="speak over MQTT by this ticket (or $JOBWIRE_TICKET)",
    )


def run_verb(args: argparse.Namespace) -> int:
    """Run what the verb's table names; by a ticket what it asks the store's process for."""
    module, _, function = args.runs.partition(":")
    if module.startswith("jobwire."):
        return int(getattr(importlib.import_module(module), function)(args))
    if args.ticket or os.environ.get("JOBWIRE_TICKET"):
        module, function = "remote_actions", "by_ticket"
    elif module == "verb":
        module, function = "verb_actions", "at_home"
    return int(getattr(importlib.import_module(f"jobwire.coordination.{module}"), function)(args))
