"""The arguments of `jobwire registry` and of the commands beside it."""

import argparse

from jobwire.core.argument_types import add_job, count, number
from jobwire.core.bounds import DEFAULT_LEASE_SECONDS, DEFAULT_MAX_ATTEMPTS, MAX_SECONDS
from jobwire.core.broker_options import add_broker_options
from jobwire.jobs.lifecycle import Status

duration = number(MAX_SECONDS)
# The record's own (a test holds them to it), of which a help needs not the rest.
PRIORITIES = ("high", "normal", "low")
# Longer than a claim by pick: somebody has to carry the ticket to another host first.
_TICKET_LEASE_SECONDS = 3600.0
_STATUSES = [str(name) for name in Status]


def register_options(parser: argparse.ArgumentParser) -> None:
    """Add what a new job is given."""
    add = parser.add_argument
    add("--title", default="", help="one line for people")
    add("--instructions", default="", metavar="TEXT", help="what to do")
    add("--instructions-file", metavar="FILE", help="what to do, from a file; - is stdin")
    add("--agent-session", metavar="NAME", help="only a worker of this name may pick it")
    add("--priority", choices=PRIORITIES, default="normal")
    _add_timeouts(parser)
    add(
        "--broker",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a broker setting for this job alone (broker, port, tls, ...); may be repeated",
    )
    _add_max_attempts(parser)
    add("--idempotency-key", metavar="KEY", help="registering again under it makes no second job")
    add(
        "--label",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="what figures are wanted by, such as team=docs; may be repeated, 16 at most",
    )
    add("--unique-session", action="store_true", help="return the session's unfinished job if it has one")


def pick_options(parser: argparse.ArgumentParser) -> None:
    """Add which jobs are wanted, and for how long."""
    parser.description = (
        f"{parser.description}\n\n"
        "A worker that starts a pending job by its first event, without a pick, holds a lease too: of an\n"
        "hour, or of the job's idle limit where that is longer. The registry process moves on a job whose\n"
        "lease ran out; while it asks for permission, a day later. Such a job rests before it can be picked\n"
        "again: 5 s, 10 s, 20 s, ..., 10 minutes at most."
    )
    add = parser.add_argument
    add("--agent-session", metavar="NAME", help="take jobs addressed to this name or to nobody")
    add("--any-session", action="store_true", help="take jobs addressed to anybody")
    _add_grant(parser)
    add("--wait", type=duration, default=0.0, metavar="SECONDS", help="wait this long for a job")


def claim_options(parser: argparse.ArgumentParser) -> None:
    """Add the job and its lease."""
    add_job(parser)
    _add_grant(parser)


def renew_options(parser: argparse.ArgumentParser) -> None:
    """Add the lease's holder and its new length."""
    _add_holder(parser)
    parser.add_argument(
        "--lease",
        type=duration,
        metavar="SECONDS",
        help="grant this much from now on (default: as granted before)",
    )


def release_options(parser: argparse.ArgumentParser) -> None:
    """Add the lease's holder and a reason."""
    _add_holder(parser)
    parser.add_argument("--reason", default="", metavar="TEXT", help="why, for the history")


def show_options(parser: argparse.ArgumentParser) -> None:
    """Add the job, and how much of its history."""
    add_job(parser)
    parser.add_argument(
        "--history",
        type=count,
        default=0,
        metavar="N",
        help="with its last N events and changes",
    )


def list_options(parser: argparse.ArgumentParser) -> None:
    """Add which jobs are listed."""
    add = parser.add_argument
    add("--status", action="append", default=[], choices=_STATUSES, help="may be repeated")
    add("--agent-session", metavar="NAME", help="jobs addressed to this name")
    add("--limit", type=count, default=50, metavar="N", help="at most N jobs (default: 50)")


def cancel_options(parser: argparse.ArgumentParser) -> None:
    """Add the job and a reason."""
    add_job(parser)
    parser.add_argument("--reason", default="", metavar="TEXT", help="why, for the worker and the history")


def dismiss_options(parser: argparse.ArgumentParser) -> None:
    """Add the jobs, or all that failed."""
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("jobs", metavar="JOB", nargs="*", default=[], help="8 lower-case hex characters")
    which.add_argument("--failed", action="store_true", help="every job that has failed so far")


def update_options(parser: argparse.ArgumentParser) -> None:
    """Add what changes, and what must still hold."""
    add_job(parser)
    add = parser.add_argument
    add("--title", help="one line for people")
    add("--priority", choices=PRIORITIES)
    add("--agent-session", metavar="NAME", help="address it to this name")
    _add_timeouts(parser)
    _add_max_attempts(parser)
    add(
        "--status",
        choices=[str(Status.PENDING), str(Status.ERROR), str(Status.CANCELLED)],
        help=(
            "pending is a retry: the next attempt at once, one more than the limit if need be; the other "
            "states belong to pick and to events"
        ),
    )
    add("--reason", default="", metavar="TEXT", help="why, for the history")
    add("--expect-status", choices=_STATUSES, help="refuse (exit 20) unless it is this")
    add("--expect-seq", type=count, metavar="N", help="refuse (exit 20) unless last_seq is N")
    add("--expect-attempt", type=count, metavar="N", help="refuse (exit 20) in another attempt")


def serve_options(parser: argparse.ArgumentParser) -> None:
    """Add what the registry process can be told."""
    parser.description = (
        f"{parser.description}\n\n"
        "It enforces leases and each job's idle, wall and pending limits; a watcher's own limits are its own."
    )
    parser.epilog = (
        f"{parser.epilog}\n\n[registry] in jobwire.toml has keep_retained_days and keep_records_days,\n"
        "for the journal keep_journal_days (default: 7; 0: for ever) and keep_journal_mib (default: 8192;\n"
        "0: no limit), and for what a consumer has not read keep_unread_days (30) and keep_unread_mib (32768)"
    )
    _add_rules(parser)
    add_broker_options(parser)


def ticket_options(parser: argparse.ArgumentParser) -> None:
    """Add the job, and what its ticket holds."""
    add_job(parser)
    add = parser.add_argument
    add("--out", default="-", metavar="FILE", help="mode 0600 (default: stdout)")
    add("--owner", metavar="NAME", help="who holds the lease of a job that was pending")
    add(
        "--lease",
        type=duration,
        default=_TICKET_LEASE_SECONDS,
        metavar="SECONDS",
        help=f"a pending job is claimed for this long (default: {_TICKET_LEASE_SECONDS:g})",
    )
    add(
        "--broker",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a broker setting as the worker's host sees it; may be repeated",
    )
    add("--certificate", action="store_true", help="with a certificate of its own instead of a password")
    add("--certificate-hours", type=duration, default=24.0, metavar="H", help="its lifetime (default: 24)")


def answer_options(parser: argparse.ArgumentParser) -> None:
    """Add the request and its answer."""
    add = parser.add_argument
    add("name", metavar="JOB|REQUEST", help="the request's id, or its job's where it asks one thing")
    add("text", metavar="TEXT", nargs="?", help="the answer; - reads it from stdin")
    add("--choice", metavar="CHOICE", help="one of the choices, and nothing else")
    add("--request", metavar="ID", help="the request, where JOB is named and asks several things")
    add("--always", action="store_true", help="for everything in the scope that the request names")
    add("--agent", "--from", metavar="NAME", help="who answers (default: $JOBWIRE_AGENT, or the user)")


def feed_options(parser: argparse.ArgumentParser) -> None:
    """Add whether to go on."""
    parser.add_argument("--watch", action="store_true", help="again whenever something changes, until Ctrl-C")


def purge_options(parser: argparse.ArgumentParser) -> None:
    """Add what goes, and the broker."""
    _add_rules(parser)
    add_broker_options(parser)


def _add_rules(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--keep-retained",
        type=duration,
        metavar="DAYS",
        help="clear the retained messages of jobs that finished this long ago (default: 7; 0: never)",
    )
    parser.add_argument(
        "--keep-records",
        type=duration,
        metavar="DAYS",
        help="remove jobs that finished this long ago, with their history (default: 90; 0: never)",
    )


def _add_holder(parser: argparse.ArgumentParser) -> None:
    add_job(parser)
    parser.add_argument("--owner", metavar="NAME", help="the lease's holder, as at pick")
    parser.add_argument(
        "--for-attempt",
        type=count,
        metavar="N",
        help="the attempt instead of the owner (JOBWIRE_ATTEMPT)",
    )


def _add_grant(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--owner", metavar="NAME", help="the lease's holder (default: host:pid)")
    parser.add_argument(
        "--lease",
        type=duration,
        default=DEFAULT_LEASE_SECONDS,
        metavar="SECONDS",
        help=(
            "believed for this long without a sign of life; each event or renewal extends it by as much "
            f"(default: {DEFAULT_LEASE_SECONDS:g})"
        ),
    )


def _add_timeouts(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "limits of the job",
        "The registry process (`jobwire serve`) enforces them; `reap` does once. A watcher takes\n"
        "them as its own where it is given none.",
    )
    add = group.add_argument
    add(
        "--idle-timeout",
        type=duration,
        metavar="SECONDS",
        help="error after this long without an event, but not while it asks for permission",
    )
    add("--wall-timeout", type=duration, metavar="SECONDS", help="error this long after its start")
    add(
        "--pending-timeout",
        type=duration,
        metavar="SECONDS",
        help="cancelled after this long without a worker",
    )


def _add_max_attempts(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--max-attempts",
        type=count,
        metavar="N",
        help=f"error when attempt N loses its lease (default at register: {DEFAULT_MAX_ATTEMPTS})",
    )
