"""What `jobwire ask` does: a worker's question to a person, and the answer on stdout."""

import argparse
import sys

from jobwire.core.broker_layer import command_line_layer
from jobwire.core.errors import InvalidInputError
from jobwire.core.told import success_json
from jobwire.jobs.requests import Answer
from jobwire.publisher.inputs import STDIN, read_detail
from jobwire.publisher.publisher import Publisher


def ask(args: argparse.Namespace) -> int:
    """Ask, and print the answer once there is one."""
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
    if args.json:
        said: dict[str, object] = given._asdict()
        value = {"answer": said.pop("text"), **said, "job_id": publisher.job_id}
        sys.stdout.write(f"{success_json('ask', value)}\n")
        sys.stdout.flush()
    return 0
