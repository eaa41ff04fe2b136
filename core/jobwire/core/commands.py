"""What every command shares: its parser, its way to report a failure, its exit code."""

import argparse
import json
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from jobwire.core.errors import ConfigError, JobwireError
from jobwire.core.exit_codes import ExitCode, help_table
from jobwire.core.override import override

# 128 + SIGINT, as shells report it.
INTERRUPTED = 130


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Fills prose to the width of the terminal; indented lines (examples, tables) stay as they are."""

    @override
    def _fill_text(self, text: str, width: int, indent: str) -> str:
        import textwrap  # noqa: PLC0415 - for help only

        lines: list[str] = []
        prose: list[str] = []
        for line in [*text.splitlines(), ""]:
            if line and not line.startswith(" "):
                prose.append(line)
                continue
            lines += textwrap.wrap(" ".join(prose), width, initial_indent=indent, subsequent_indent=indent)
            prose.clear()
            lines.append(indent + line if line else "")
        return "\n".join(lines[:-1])


class CommandParser(argparse.ArgumentParser):
    """argparse with our exit code for usage errors and the exit code table in `--help`."""

    def __init__(self, prog: str | None = None, *, epilog: str | None = None, **options: Any) -> None:
        options.setdefault("formatter_class", HelpFormatter)
        super().__init__(
            prog,
            epilog=f"{epilog}\n\n{help_table()}" if epilog else help_table(),
            # An abbreviation that works today becomes ambiguous with the next option.
            allow_abbrev=False,
            **options,
        )

    @override
    def error(self, message: str) -> NoReturn:
        """Print usage and the message to stderr and exit with INVALID (argparse would use 2: timeout).

        Where nothing but the command itself is missing, all of the help: somebody looks for its name.
        """
        if message.endswith("are required: COMMAND"):
            self.print_help(sys.stderr)
        else:
            self.print_usage(sys.stderr)
        self.exit(ExitCode.INVALID, f"{self.prog}: error: {message}\n")


def add_command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    summary: str,
    example: str,
    *,
    run: Callable[[argparse.Namespace], int] | None = None,
) -> argparse.ArgumentParser:
    """Add one command with its help, an example and `--json`; `run(args)` returns its exit code."""
    parser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=f"example:\n  {example}",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    if run is not None:
        parser.set_defaults(run=run)
    return parser


def missing_library(error: ModuleNotFoundError, extra: str) -> Exception:
    """Return what to say of an import that failed: which extra brings it; a fault of our own as it is."""
    if error.name is None or error.name.startswith("jobwire") or not extra:
        return error
    return ConfigError(
        f"this needs {error.name}, which is not installed",
        hint=f"pip install 'jobwire[{extra}]'; with pipx: pipx install --force 'jobwire[{extra}]'",
    )


def run_command(
    body: Callable[[argparse.Namespace], int], args: argparse.Namespace, *, prog: str, as_json: bool
) -> int:
    """Run a command's body and return its exit code; expected failures become one clear message."""
    try:
        return int(body(args))
    except JobwireError as error:
        report(error, prog=prog, as_json=as_json)
        return int(error.exit_code)
    except BrokenPipeError:
        # The reader of our output went away (`| head`): not an error. Python would complain again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(ExitCode.OK)
    except KeyboardInterrupt:
        return INTERRUPTED


def report(error: JobwireError, *, prog: str, as_json: bool) -> None:
    """Write cause and remedy to stderr, as two lines or as one JSON object."""
    if as_json:
        body = {"error": error.message, "hint": error.hint, "exit_code": int(error.exit_code)}
        print(json.dumps(body), file=sys.stderr)
        return
    print(f"{prog}: error: {error.message}", file=sys.stderr)
    if error.hint:
        print(f"{prog}: hint: {error.hint}", file=sys.stderr)
