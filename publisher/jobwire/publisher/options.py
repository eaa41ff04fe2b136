"""The options of `publish_event`."""

import argparse

from jobwire.core.argument_types import number, whole
from jobwire.core.broker_options import add_broker_options
from jobwire.core.commands import CommandParser
from jobwire.delivery.outbox import DEFAULT_ATTEMPTS, EXPIRY_SECONDS
from jobwire.publisher.usual_words import EVENTS, home_need
from jobwire.publisher.variables import ENV_ATTEMPT, ENV_EXPIRY, ENV_JOB, ENV_TICKET, MAX_EXPIRY
from jobwire.storage.home import HELP

DESCRIPTION = """\
Say what happens to a job: sign one event, keep it in the job's outbox, publish it with QoS 1.

Prints one JSON line: job_id, seq, event, delivered (the broker acknowledged it) and, where it was
waited for, confirmed (the registry process has it on its disk).
A flush prints one line a job, with sent and waiting (events that stay for the next flush; 0 means done);
a flush of all jobs prints only those that had anything to send."""

EXAMPLES = """\
examples:
  publish_event --job 0a1b2c3d --event started
  publish_event --job 0a1b2c3d --event progress --detail "12 of 30 files" --data percent=40
  publish_event --ticket job.ticket --event completed --data-json result.json
  publish_event --ticket job.ticket --flush --confirm 10"""

_MAX_ATTEMPTS = 100


def command_parser() -> CommandParser:
    """Return the parser of `publish_event`."""
    parser = CommandParser("publish_event", description=DESCRIPTION, epilog=EXAMPLES)
    parser.add_argument("--home", metavar="DIR", help=HELP)
    add_options(parser)
    return parser


def add_commands(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `jobwire publish`: the same command under the umbrella."""
    parser = subparsers.add_parser(
        "publish", help="say what happens to a job", description=DESCRIPTION, epilog=EXAMPLES
    )
    add_options(parser)
    parser.set_defaults(run="jobwire.publisher.command:run", home_need=home_need, call="")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add every option but --home."""
    _add_saying(parser)
    _add_delivery(parser)
    add_broker_options(parser)


def _add_saying(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("what is said, about which job").add_argument
    add("--job", metavar="ID", help=f"the job's id (default: ${ENV_JOB})")
    add("--ticket", metavar="FILE", help=f"ticket of a worker on another host (default: ${ENV_TICKET})")
    add(
        "--for-attempt",
        metavar="N",
        type=whole(1, 2**53 - 1),
        help=f"exit 3 unless the job is in this attempt (default: ${ENV_ATTEMPT})",
    )
    add("--event", choices=EVENTS, help="what happened")
    add("--detail", metavar="TEXT", default="", help="one sentence for people; - reads it from stdin")
    add(
        "--data",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a figure: a JSON number, string, boolean or null, otherwise text; repeatable",
    )
    add("--data-json", metavar="FILE", help="figures as one JSON object; - reads it from stdin")
    add(
        "--strict",
        action="store_true",
        help="refuse (30) a path or a secret in the detail, and a secret in the data; else a path is cut to"
        " its last part, a secret replaced, with a warning",
    )


def _add_delivery(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("delivery").add_argument
    add("--attempts", metavar="N", type=whole(1, _MAX_ATTEMPTS), default=DEFAULT_ATTEMPTS,
        help="tries to reach the broker (default: %(default)s)")  # fmt: skip
    add(
        "--flush",
        action="store_true",
        help="send again what the outbox holds unconfirmed; without --event nothing else,"
        " without --job for every job of this home",
    )
    add(
        "--direct",
        action="store_true",
        help="connect to the broker also where a registry process of this home would send",
    )
    add("--confirm", metavar="S", type=number(86400),
        help="wait up to S seconds for the registry process, also after a flush (default: 10 for a"
        " terminal event where one runs, else 0)")  # fmt: skip
    add("--expiry", metavar="S", type=whole(0, MAX_EXPIRY),
        help="an MQTT 5 broker forgets a retained terminal event after S seconds, 0 is never"
        f" (default: ${ENV_EXPIRY} or {EXPIRY_SECONDS})")  # fmt: skip
    add("--json", action="store_true", help="errors as one JSON object on stderr; stdout always is JSON")
