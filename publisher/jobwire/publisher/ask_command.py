"""`jobwire ask`: a worker's question to a person, and the answer on stdout."""

import argparse
import os
import sys

from jobwire.core.argument_types import number
from jobwire.core.boundary import run_told
from jobwire.core.bounds import MAX_SECONDS
from jobwire.core.broker_layer import command_line_layer
from jobwire.core.broker_options import add_broker_options
from jobwire.core.commands import add_command
from jobwire.core.errors import InvalidInputError
from jobwire.jobs.requests import Answer, RequestKind
from jobwire.publisher.inputs import STDIN, read_detail
from jobwire.publisher.publisher import Publisher
from jobwire.publisher.variables import ENV_JOB, ENV_TICKET
from jobwire.storage.home import Need


def add_commands(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `jobwire ask`."""
    parser = add_command(
        subparsers,
        "ask",
        "ask a person, wait, and print the answer",
        "jobwire ask 'Push to main?' --choice yes --choice no --timeout 600 --default no",
        run=run_told("ask", _ask),
    )
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
        choices=[str(kind) for kind in RequestKind],
        default=str(RequestKind.QUESTION),
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


def _ask(args: argparse.Namespace) -> dict[str, object] | None:
    if args.default is not None and args.timeout is None:
        raise InvalidInputError("a default answer needs a time", hint="add --timeout SECONDS")

    def take(answer: Answer) -> None:
        # Before the worker's word that it has the answer: a kill in between has it asked for once more.
        if not args.json:
            sys.stdout.write(f"{answer.text}\n")
            sys.stdout.flush()

    publisher = Publisher(
        args.job,
        home=args.home,
        ticket=args.ticket,
        broker={name: value for name, value in command_line_layer(args).items() if value is not None},
    )
    # It is not closed: that would wait for a broker, and what is kept is sent without us.
    given = publisher.ask(
        read_detail(args.text) if args.text == STDIN else args.text,
        kind=args.kind,
        choices=args.choice,
        default=args.default,
        scope=args.scope,
        preview=args.preview,
        timeout_seconds=args.timeout,
        request=args.request,
        on_answer=take,
    )
    said: dict[str, object] = given._asdict()
    return {"answer": said.pop("text"), **said, "job_id": publisher.job_id} if args.json else None
