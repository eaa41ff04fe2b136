"""The parser of every command."""

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, NoReturn, TypeAlias

from jobwire.core.boundary import report
from jobwire.core.bounds import fits_a_path
from jobwire.core.errors import InvalidInputError, JobwireError
from jobwire.core.exit_codes import ExitCode, help_table
from jobwire.core.override import override

# argparse looks for a translation of its own words, which nobody ships, and loads `locale` for that: a tenth
# of a worker's start.
vars(argparse)["_"] = lambda text: text


def _columns() -> int:
    """Return the terminal's width as shutil.get_terminal_size does, which is an import more at start-up."""
    wanted = os.environ.get("COLUMNS", "")
    if wanted.isdecimal() and int(wanted):
        return int(wanted)
    try:
        return os.get_terminal_size(1).columns or 80
    except OSError:
        return 80


# argparse offers no public name for what add_subparsers returns.
Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001 - see above
# What a command does, by its arguments, with its exit code; as "module:function" it is imported to be run:
# who asks for help, or for another command, need not wait for it.
Body = str | Callable[[argparse.Namespace], int]


def body_of(run: Body) -> Callable[[argparse.Namespace], int]:
    """Return the function that `run` names, or is."""
    if not isinstance(run, str):
        return run
    module, _, name = run.partition(":")
    body: Callable[[argparse.Namespace], int] = getattr(importlib.import_module(module), name)
    return body


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Fills prose to the width of the terminal; indented lines (examples, tables) stay as they are."""

    def __init__(self, prog: str) -> None:
        # argparse makes one for each option that it is told of.
        super().__init__(prog, width=_columns() - 2)

    @override
    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines: list[str] = []
        prose: list[str] = []
        for line in [*text.splitlines(), ""]:
            if line and not line.startswith(" "):
                prose.append(line)
                continue
            lines += (indent + one for one in _wrapped(" ".join(prose), width - len(indent)))
            prose.clear()
            lines.append(indent + line if line else "")
        return "\n".join(lines[:-1])

    @override
    def _split_lines(self, text: str, width: int) -> list[str]:
        return _wrapped(text, width)


def _wrapped(text: str, width: int) -> list[str]:
    """Return the lines of a paragraph, broken at spaces only: a long path or option stays whole.

    What textwrap does besides is not needed, and its patterns take a tenth of a help's time to compile.
    """
    lines: list[str] = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


class CommandParser(argparse.ArgumentParser):
    """argparse with our exit code for usage errors and the exit code table in `--help`.

    `fill` adds what the parser takes once the words are known, so that a short command does not pay for the
    options of others. `tell` says a usage error to a program instead of `report`; the parser then refuses
    by itself what it does not know. `as_json`: --json was among the words before its own.
    """

    _as_json = False

    def __init__(
        self,
        prog: str | None = None,
        *,
        epilog: str | None = None,
        fill: "Callable[[CommandParser, Sequence[str]], None] | None" = None,
        tell: "Callable[[JobwireError], None] | None" = None,
        as_json: bool = False,
        **options: Any,
    ) -> None:
        self._as_json = as_json
        self._fill = fill
        self._tell = tell
        options.setdefault("formatter_class", HelpFormatter)
        super().__init__(
            prog,
            epilog=epilog,
            # An abbreviation that works today becomes ambiguous with the next option.
            allow_abbrev=False,
            **options,
        )

    @override
    def format_help(self) -> str:
        """Return the help, with the exit codes at its end."""
        said = self.epilog
        self.epilog = f"{said}\n\n{help_table()}" if said else help_table()
        try:
            return super().format_help()
        finally:
            self.epilog = said

    @override
    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; refuse words that no operating system hands over, as callers from Python may."""
        words = sys.argv[1:] if args is None else args
        self._as_json = self._as_json or wants_json(words)
        for word in words:
            if not fits_a_path(word):
                self.error(f"no argument can be {word[:100]!r}")
        self.complete(words)
        found, left = super().parse_known_args(args, namespace)
        if left and self._tell is not None:
            self.error(f"unrecognized arguments: {' '.join(left)}")
        return found, left

    def complete(self, words: "Sequence[str]" = ()) -> None:
        """Add what depends on the words, once: without any, all that there is."""
        if self._fill is not None:
            fill, self._fill = self._fill, None
            fill(self, words)

    @override
    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        # argparse takes the value of `--title=--` for the mark that ends the options: an empty list.
        if action.option_strings and action.nargs is None and arg_strings == ["--"]:
            arg_strings = ["--", "--"]
        return super()._get_values(action, arg_strings)

    @override
    def error(self, message: str) -> NoReturn:
        """Print usage and the message to stderr and exit with INVALID (argparse would use 2: timeout).

        Where nothing but the command itself is missing, all of the help: somebody looks for its name. With
        --json one object, as for every other failure.
        """
        if self._as_json:
            hint = f"`{self.prog} --help` shows the arguments"
            (self._tell or partial(report, prog=self.prog, as_json=True))(
                InvalidInputError(message, hint=hint)
            )
            self.exit(ExitCode.INVALID)
        if message.endswith("are required: COMMAND"):
            self.print_help(sys.stderr)
        else:
            self.print_usage(sys.stderr)
        self.exit(ExitCode.INVALID, f"{self.prog}: error: {message}\n")


def wants_json(words: Sequence[str]) -> bool:
    """Tell whether --json is among the words of ours; what follows `--` is somebody else's."""
    own = words[: words.index("--")] if "--" in words else words
    return "--json" in own


def telling(command: str) -> dict[str, Any]:
    """Return what a parser takes so that its usage errors are told as those of core.told are, with --json."""
    return {"tell": partial(_say_failure, command)}


def _say_failure(command: str, error: JobwireError) -> None:
    from jobwire.core.told import say_failure  # noqa: PLC0415 - where something is wrong

    say_failure(command, error)


class NameOnly(CommandParser):
    """Stands for a command in a list of commands, where none of them was asked for.

    A parser costs a quarter of a millisecond, its options as much each, and a help of 40 commands names them.
    """

    def __init__(self, **_: object) -> None:
        # Nothing of a parser: argparse asks no more of it than what follows.
        pass

    @override
    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Take nothing: the words are told as unknown."""
        return namespace or argparse.Namespace(), args


class CommandRow(NamedTuple):
    """One command: a row of a table. Or a name for the commands `below` it.

    `options` adds what it takes beside `--json`. Its body is `run` as in `body_of`, or the function of its
    name in the module `bodies`. `told`: with --json it prints one object on stdout on every path (core.told),
    usage errors included.
    """

    name: str
    summary: str
    example: str = ""
    options: Callable[[argparse.ArgumentParser], None] | None = None
    run: Body | None = None
    bodies: str = ""
    told: bool = False
    below: "tuple[CommandRow, ...]" = ()

    def add_to(self, commands: Subparsers) -> None:
        """Add it to a list of commands."""
        if self.below:
            add_group(commands, self.name, self.summary, self.below)
            return
        parser = commands.add_parser(
            self.name,
            help=self.summary,
            description=f"{self.summary[0].upper()}{self.summary[1:]}.",
            epilog=f"example:\n  {self.example}",
            # Known to our parsers only: argparse's own can hold commands without it.
            **(telling(self.name) if self.told else {}),
        )
        parser.add_argument("--json", action="store_true", help="print JSON")
        run = self.run or f"{self.bodies}:{self.name.replace('-', '_')}"
        parser.set_defaults(run=run, told=self.told)
        if self.options is not None:
            self.options(parser)


def add_group(
    subparsers: Subparsers,
    name: str,
    summary: str,
    commands: Sequence[CommandRow],
    *,
    description: str | None = None,
    epilog: str | None = None,
) -> None:
    """Add a command that has commands of its own, of which only the one that the words name is built."""

    def fill(parser: CommandParser, words: Sequence[str]) -> None:
        asked = next((word for word in words if not word.startswith("-")), "")
        chosen = [row for row in commands if row.name == asked]
        built: type[argparse.ArgumentParser] = CommandParser if chosen or not words else NameOnly
        below = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=built)
        for row in chosen or commands:
            if built is NameOnly:
                below.add_parser(row.name, help=row.summary)
            else:
                row.add_to(below)

    subparsers.add_parser(name, help=summary, description=description, epilog=epilog, fill=fill)
