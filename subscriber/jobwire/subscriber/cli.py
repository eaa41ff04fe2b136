"""The command `job_subscriber`, also known as `jobwire watch`."""

import argparse
import math
from collections.abc import Sequence

from jobwire.core.boundary import run_command
from jobwire.core.broker_options import add_broker_options
from jobwire.core.commands import CommandParser, body_of
from jobwire.storage.home import HELP, Need, settled

DESCRIPTION = """\
Watch jobs in the foreground: print each genuine event once and exit as the job ended.

Subscribes to the jobs' signed events, verifies them, and reads their records. Survives a broker that is
down or restarted for as long as the timeouts allow; stdout has events and verdicts, stderr the rest."""

EXAMPLES = """\
examples:
  job_subscriber 0a1b2c3d
  job_subscriber 0a1b2c3d 4e5f6a7b --fail-fast --idle-timeout 300
  job_subscriber --all --format json | jq -r 'select(.verdict) | [.job_id, .verdict] | @tsv'
  job_subscriber --all --follow --bell --exec 'notify-send jobwire'
  job_subscriber 0a1b2c3d --until permission
  job_subscriber --ticket job.ticket --username hermes --password-file hermes.password

timeouts count on the monotonic clock from the start of the watch; default: those of the job's record.
They end the watch, not the job. The job's own limits are enforced by the registry process, which ends
the job: that, too, is exit code 2.
Several jobs: exit code 0 if all completed, else the smallest other one; --any: the first job's.
--until: exit code 0 when the first job reaches that point; if all end before it, as without --until."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add every option but --home."""
    _add_jobs(parser)
    _add_timeouts(parser)
    _add_telling(parser)
    _add_output(parser)
    add_broker_options(parser)


def _add_jobs(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("which jobs").add_argument
    add("job", metavar="JOB", nargs="*", action="extend", default=[], help="jobs of this registry")
    add("--job", metavar="ID", action="append", default=[], help="the same; repeatable")
    add("--ticket", metavar="FILE", action="append", default=[],
        help="the ticket of a job of another host's registry; repeatable")  # fmt: skip
    add("--all", action="store_true", help="every unfinished job of this registry, and every new one")
    add("--any", action="store_true", help="end with the first verdict instead of the last")
    add("--fail-fast", action="store_true", help="end with the first verdict that is not a success")
    add("--follow", action="store_true", help="with --all: stay for new jobs when all have ended")


def _add_timeouts(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("timeouts, in seconds or `none`").add_argument
    add("--idle-timeout", metavar="S", type=_limit, help="end after S seconds without an accepted event")
    add("--wall-timeout", metavar="S", type=_limit, help="end after S seconds in any case")
    add("--pending-timeout", metavar="S", type=_limit, help="end if the job has not started after S seconds;"
        " until it has, idle does not count")  # fmt: skip
    add("--strict-idle", action="store_true", help="count idle also while the job waits for you")


def _add_telling(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("notifications").add_argument
    add("--until", choices=("permission", "started", "verdict"), default="verdict", metavar="MOMENT",
        help="permission: end with 0 as soon as a job waits for you; started; default: verdict")  # fmt: skip
    add("--exec", dest="hook", metavar="CMD", type=str,
        help="run CMD, without a shell, when a job asks for permission, at its verdict and at --until;"
        " it finds JOBWIRE_EVENT, _JOB, _DETAIL and _STATUS and has 10 s")  # fmt: skip
    add("--bell", action="store_true", help="ring the terminal's bell at the same moments")


def _add_output(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("output").add_argument
    add("--format", choices=("json", "line"),
        help="JSON lines or readable lines (default: readable on a terminal)")  # fmt: skip
    add("--json", action="store_true", help="same as --format json; errors as one JSON object on stderr")


def _limit(text: str) -> float:
    """Return seconds; infinity for `none`."""
    if text == "none":
        return math.inf
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (value > 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a positive number of seconds nor none")
    return value


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
