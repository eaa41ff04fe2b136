"""The command `job_subscriber`, also known as `jobwire watch`."""

import argparse
from collections.abc import Sequence

from jobwire.core.boundary import run_command
from jobwire.core.commands import CommandParser, body_of
from jobwire.storage.home import HELP, Need, settled
from jobwire.subscriber.options import DESCRIPTION, EXAMPLES, add_options

_RUN = "jobwire.subscriber.command:run"


def main(argv: Sequence[str] | None = None) -> int:
    """Run `job_subscriber` and return its exit code."""
    parser = CommandParser("job_subscriber", description=DESCRIPTION, epilog=EXAMPLES)
    parser.add_argument("--home", metavar="DIR", help=HELP)
    parser.set_defaults(home_need=_home_need)
    add_options(parser)
    args = parser.parse_args(argv)
    return run_command(settled(body_of(_RUN)), args, prog=parser.prog, as_json=args.json)


def add_commands(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `jobwire watch`: the same command under the umbrella."""
    parser = subparsers.add_parser(
        "watch", help="watch jobs to their verdict", description=DESCRIPTION, epilog=EXAMPLES
    )
    add_options(parser)
    parser.set_defaults(run=_RUN, home_need=_home_need)


def _home_need(args: argparse.Namespace) -> Need:
    return Need.HOME if args.job or args.all or not args.ticket else Need.NOTHING
