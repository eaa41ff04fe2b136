"""The command `publish_event`, also known as `jobwire publish`."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
from typing import TYPE_CHECKING

from jobwire.core.broker_layer import command_line_layer
from jobwire.core.clock import Clock, SystemClock
from jobwire.core.errors import InvalidInputError, JobwireError
from jobwire.core.exit_codes import ExitCode
from jobwire.core.redaction import Redactor
from jobwire.delivery.publishing import Published, kept, publish
from jobwire.delivery.signing import Draft
from jobwire.publisher.build import open_event_log, open_handover, open_route
from jobwire.publisher.cleaning import clean, refuse_unclean
from jobwire.publisher.inputs import STDIN, read_data, read_detail
from jobwire.publisher.usual_words import ticket_of
from jobwire.publisher.variables import ENV_JOB, ENV_TICKET
from jobwire.registry.event_log import Once
from jobwire.registry.store import RecordStore

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping

    from jobwire.delivery.event_log import EventLog
    from jobwire.delivery.outbox_sender import OutboxSender, Route

PROG = "publish_event"


class NotHereError(Exception):
    """Who speaks has to connect to the broker by itself."""


def run(args: argparse.Namespace) -> int:
    """Publish one event or flush outboxes; raises JobwireError after what is known was printed."""
    environ = dict(os.environ)
    clock = SystemClock()
    if args.event is None:
        if not args.flush:
            raise InvalidInputError("nothing to say", hint="give --event, or --flush to send what is waiting")
        return _flush(args, environ, clock)
    published = say(args, environ, clock, warn=_warn, once=Once(args.call) if args.call else None)
    _print(published.to_json())
    if published.failure is not None:
        raise published.failure
    return int(ExitCode.OK)


def say(
    args: argparse.Namespace,
    environ: Mapping[str, str],
    clock: Clock,
    *,
    warn: Callable[[str], None],
    once: Once | None = None,
    connects: bool = True,
) -> Published:
    """Keep and publish the event that the options name.

    Without `connects` raises NotHereError where a connection to the broker is needed; else as `publish`.
    """
    draft = draft_in(args, environ, warn)
    events = _open_events(args, _job_id(args, environ), environ, clock, once)
    with contextlib.ExitStack() as opened:
        handover = None
        if not (args.direct or args.flush):
            handover = open_handover(
                events,
                command_line=command_line_layer(args),
                environ=environ,
                clock=clock,
                expiry_seconds=args.expiry,
            )

        @functools.cache
        def sender() -> OutboxSender:
            if not connects:
                raise NotHereError
            return opened.enter_context(contextlib.closing(_sender(args, events, environ, clock)))

        published = publish(
            events,
            sender,
            draft,
            handover=handover,
            attempts=args.attempts,
            repeat=args.flush,
            confirm_seconds=args.confirm,
        )
    if published.confirmed is False and published.failure is None:
        warn(_unconfirmed(published, attended=events.is_attended()))
    return published


def draft_in(args: argparse.Namespace, environ: Mapping[str, str], warn: Callable[[str], None]) -> Draft:
    """Return what the options say, cleaned, with a warning for what was replaced.

    Raises InvalidInputError for what no event can carry, with `--strict` for what was replaced, too.
    """
    if args.detail == STDIN and args.data_json == STDIN:
        raise InvalidInputError("--detail and --data-json cannot both read stdin")
    draft = Draft(args.event, read_detail(args.detail), read_data(args.data, args.data_json))
    cleaned = clean(draft, Redactor(environ))
    if args.strict:
        refuse_unclean(cleaned)
    for sentence in cleaned.warnings():
        warn(sentence)
    return cleaned.draft


def _job_id(args: argparse.Namespace, environ: Mapping[str, str]) -> str | None:
    job_id: str | None = args.job or environ.get(ENV_JOB) or None
    return job_id


def _open_events(
    args: argparse.Namespace,
    job_id: str | None,
    environ: Mapping[str, str],
    clock: Clock,
    once: Once | None = None,
) -> EventLog:
    ticket = ticket_of(args, environ)
    return open_event_log(
        job_id=args.job if ticket else job_id,
        ticket=ticket,
        home=args.home,
        attempt=args.for_attempt,
        clock=clock,
        environ=environ,
        once=once,
    )


def _sender(
    args: argparse.Namespace, events: EventLog, environ: Mapping[str, str], clock: Clock
) -> OutboxSender:
    def route() -> Route:
        return open_route(
            events,
            command_line=command_line_layer(args),
            environ=environ,
            clock=clock,
            expiry_seconds=args.expiry,
        )

    from jobwire.delivery.outbox_sender import OutboxSender

    return OutboxSender(events, route, clock=clock)


def _flush(args: argparse.Namespace, environ: Mapping[str, str], clock: Clock) -> int:
    """Send what is unconfirmed, one line a job; the first failure is raised after all were tried.

    Of all jobs of a home only those are named that had anything to send.
    """
    failure: JobwireError | None = None
    quiet = True
    named = _named_log(args, environ, clock)
    for events in [named] if named else _waiting_logs(args, clock):
        line, problem = _flush_one(args, events, environ, clock)
        if line is not None and (named or line["sent"] or line["waiting"]):
            _print(line)
            quiet = False
        failure = failure or problem
    if failure is not None:
        raise failure
    if quiet:
        print(f"{PROG}: nothing was waiting", file=sys.stderr)
    return int(ExitCode.OK)


def _named_log(args: argparse.Namespace, environ: Mapping[str, str], clock: Clock) -> EventLog | None:
    job_id = _job_id(args, environ)
    named = job_id or args.ticket or environ.get(ENV_TICKET)
    return _open_events(args, job_id, environ, clock) if named else None


def _waiting_logs(args: argparse.Namespace, clock: Clock) -> Iterator[EventLog]:
    from jobwire.registry.event_log import HomeOutboxes

    for waiting in HomeOutboxes(RecordStore(args.home, clock=clock)).job_ids():
        yield open_event_log(
            job_id=waiting, ticket=None, home=args.home, attempt=None, clock=clock, environ={}
        )


def _flush_one(
    args: argparse.Namespace, events: EventLog, environ: Mapping[str, str], clock: Clock
) -> tuple[dict[str, object] | None, JobwireError | None]:
    """Return the line about the job, None where nothing could be tried, and what failed."""
    try:
        seq = events.recover().last_seq
        last = events.outbox.last()
        sender = _sender(args, events, environ, clock)
        sender.prepare()
    except JobwireError as error:
        return None, error
    try:
        delivery = sender.flush(attempts=args.attempts, confirm_seconds=args.confirm or 0.0)
    finally:
        sender.close()
    line: dict[str, object] = {
        "job_id": events.job_id,
        "seq": seq,
        "event": last.event if last else None,
        "delivered": delivery.delivered,
        "sent": delivery.sent,
        "waiting": delivery.waiting,
    }
    return line, kept(delivery.failure, events)


def _print(body: Mapping[str, object]) -> None:
    print(json.dumps(body), flush=True)


def _warn(sentence: str) -> None:
    print(f"{PROG}: warning: {sentence}", file=sys.stderr)


def _unconfirmed(published: Published, *, attended: bool) -> str:
    why = "did not confirm it in time" if attended else "of this home is not running"
    return (
        f"seq {published.seq} is delivered, but the registry process {why}; it is kept, and sent again until"
        " it is confirmed"
    )
