"""The arguments of `jobwire ask`."""

import argparse
import os

from jobwire.core.argument_types import number
from jobwire.core.bounds import MAX_SECONDS
from jobwire.core.broker_options import add_broker_options
from jobwire.core.commands import CommandRow
from jobwire.publisher.variables import ENV_JOB, ENV_TICKET
from jobwire.storage.home import Need

# RequestKind's own (a test holds them to it), of which a help needs not the rest.
KINDS = ("permission", "question", "turn_end", "idle", "error")


def add_commands(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `jobwire ask`."""
    CommandRow(
        "ask",
        "ask a person, wait, and print the answer",
        "jobwire ask 'Push to main?' --choice yes --choice no --timeout 600 --default no",
        _options,
        bodies="jobwire.publisher.ask_command",
        told=True,
    ).add_to(subparsers)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        f"{parser.description}\n\nThe answer comes from `jobwire answer`, the page or `jobwire top`. Exit\n"
        "code 10 where nobody answered in time, 3 where the job was stopped meanwhile. Killed and\n"
        "started again with the same --request it goes on waiting, and gets the answer that was given."
    )
    parser.set_defaults(home_need=_home_need)
    add = parser.add_argument
    add("text", metavar="TEXT", help="what is asked; - reads it from stdin")
    add("--job", metavar="ID", help=f"the job that asks (default: ${ENV_JOB})")
    add("--ticket", metavar="FILE", help=f"ticket of a worker on another host (default: ${ENV_TICKET})")
    add("--choice", metavar="TEXT", action="append", default=[], help="one of the answers; repeatable")
    add(
        "--kind",
        choices=KINDS,
        default="question",
        help="a permission takes its choices only, and no job may give it (default: %(default)s)",
    )
    add("--timeout", metavar="S", type=number(MAX_SECONDS), help="wait this long (default: without end)")
    add("--default", metavar="TEXT", help="the answer where nobody gave one in time")
    add("--preview", metavar="TEXT", help="what is to be done, shown beside the question; secrets are masked")
    add("--scope", metavar="TEXT", help="what an answer --always stands for")
    add("--request", metavar="ID", help="the request's id; asked again it is waited for again")
    add_broker_options(parser)


def _home_need(args: argparse.Namespace) -> Need:
    ticket = args.ticket or (None if args.job else os.environ.get(ENV_TICKET))
    return Need.NOTHING if ticket else Need.HOME
