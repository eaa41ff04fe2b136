"""What `job_subscriber` does: watch jobs, print what happens to them, end with their verdicts."""

import argparse
import json
import math
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from jobwire.core.boundary import INTERRUPTED
from jobwire.core.broker_layer import command_line_layer
from jobwire.core.errors import InvalidInputError, NoWorkError
from jobwire.core.exit_codes import ExitCode
from jobwire.core.roles import Role
from jobwire.core.settings import BrokerSettings
from jobwire.core.terminal_text import safe
from jobwire.delivery.ticket_files import broker_layer, read_ticket
from jobwire.jobs.ticket import Ticket
from jobwire.storage.files import SystemFiles
from jobwire.storage.signals import delivered
from jobwire.subscriber.fleet import Mode
from jobwire.subscriber.formats import summary
from jobwire.subscriber.notifications import (
    BEFORE,
    PERMISSION,
    UNTIL,
    VERDICT,
    Notification,
    Notifications,
    Notifier,
    hook_words,
)
from jobwire.subscriber.outcome import Note, Verdicts
from jobwire.subscriber.printer import PROG, LinePrinter, style_of
from jobwire.subscriber.subscriber import open_watch, settings_for, settings_of
from jobwire.subscriber.watch_loop import WatchLoop
from jobwire.transport import load_settings

_TIMEOUTS = ("idle", "wall", "pending")


def run(args: argparse.Namespace) -> int:
    """Watch to the end and return the verdicts' exit code; Ctrl-C and SIGTERM give 130."""
    mode = mode_of(args)
    timeouts = timeout_options(args)
    tickets = [(read_ticket(Path(name)), Path(name)) for name in args.ticket]
    hook = None if args.hook is None else hook_words(args.hook)
    stop = threading.Event()

    def warn(text: str) -> None:
        print(f"{PROG}: {text}", file=sys.stderr)

    as_json = args.json or args.format == "json" or (args.format is None and not sys.stdout.isatty())
    printer = LinePrinter(sys.stdout, as_json=as_json)
    settings = _settings(args, tickets, os.environ)
    if tickets and settings.username == Role.WORKER:
        # The broker will not say so: a subscription that the access list forbids just stays silent.
        warn(
            f"the ticket's account {Role.WORKER} may send events but not read them, so none will come;"
            " a ticket written with --certificate may, or name an account with --username"
        )
    watch = open_watch(
        settings=settings,
        jobs=args.job,
        home=args.home if args.job or args.all else None,
        tickets=[ticket for ticket, _ in tickets],
        all_jobs=args.all,
        timeouts=timeouts,
        mode=mode,
        strict_idle=args.strict_idle,
        stop=stop,
        warn=warn,
    )
    notifier = Notifier(hook=hook, bell=args.bell, environ=os.environ, warn=warn)
    with _stopped_by_signals(stop), notifier:
        try:
            reached = _watch(watch, printer, settings.address, notifier, UNTIL[args.until])
        finally:
            printer.finish()
    verdicts = watch.verdicts()
    if reached is not None:
        _say_reached(reached, as_json=as_json)
        return ExitCode.OK
    if not as_json:
        _sum_up(verdicts, watch)
    if args.all and not mode.follow and not (verdicts.by_job or verdicts.undecided):
        raise NoWorkError(f"no unfinished job in {args.home}", hint="--follow waits for jobs to appear")
    _report(verdicts)
    for job_id in verdicts.by_job:
        if before := BEFORE.get(UNTIL[args.until]):
            warn(f"job {job_id}: {before}")
    return verdicts.exit_code


def _watch(
    watch: WatchLoop, printer: LinePrinter, address: str, notifier: Notifier, until: str
) -> Notification | None:
    """Print everything; return what ended the watch early, None for its own end.

    Says once when nothing published from then on can be missed: scripts wait for it.
    """
    batches, notifications = watch.batches(), Notifications()
    told = {PERMISSION, VERDICT, until}
    wanted = notifier.wanted or until != VERDICT
    announced = False
    try:
        for batch in batches:
            printer.batch(batch)
            found = notifications.of(batch, watch.conditions()) if wanted else ()
            for notification in found:
                if notification.event in told:
                    notifier.tell(notification)
                if notification.event == until != VERDICT:
                    return notification
            if watch.connected and not announced:
                announced = True
                count = watch.open_jobs
                printer(Note("", f"watching {count} job{'' if count == 1 else 's'} on {address}"))
    finally:
        batches.close()
    return None


def _say_reached(found: Notification, *, as_json: bool) -> None:
    what = next(name for name, event in UNTIL.items() if event == found.event)
    if as_json:
        body = {"job_id": found.job_id, "reached": what, "status": found.status, "detail": found.detail}
        print(json.dumps({**body, "exit_code": int(ExitCode.OK)}))
    else:
        said = f": {safe(found.detail)}" if found.detail else ""
        print(f"{PROG}: job {found.job_id}: reached {what}{said}", file=sys.stderr)


def _settings(
    args: argparse.Namespace, tickets: Sequence[tuple[Ticket, Path]], environ: Mapping[str, str]
) -> BrokerSettings:
    """Return the one broker of all jobs; a job's own overrides count where it is named."""
    command_line = command_line_layer(args)
    found = []
    if args.job or args.all:
        found = list(settings_of(args.home, args.job, command_line, environ, all_jobs=args.all))
    found += [
        (
            ticket.job_id,
            load_settings(
                # A jobwire.toml beside the ticket fills in what the ticket leaves open.
                home=path.parent,
                role=Role.HERMES,
                command_line=command_line,
                record=_ticket_layer(ticket, path, command_line),
                environ=environ,
            ),
        )
        for ticket, path in tickets
    ]
    return settings_for(found)


def _ticket_layer(ticket: Ticket, path: Path, command_line: Mapping[str, object]) -> dict[str, object]:
    """Return the ticket's settings, without its worker's certificate where we come as somebody else."""
    layer = broker_layer(ticket, path, SystemFiles())
    if command_line.get("username") or command_line.get("certfile"):
        return {key: value for key, value in layer.items() if key not in {"certfile", "keyfile"}}
    return layer


def _stopped_by_signals(stop: threading.Event) -> AbstractContextManager[None]:
    """Let SIGINT and SIGTERM end the watch cleanly for the block; a second one ends it at once."""

    def on_signal() -> None:
        if stop.is_set():
            os._exit(INTERRUPTED)
        stop.set()

    return delivered(dict.fromkeys((signal.SIGINT, signal.SIGTERM), on_signal))


def _sum_up(verdicts: Verdicts, watch: WatchLoop) -> None:
    if len(verdicts.by_job) + len(verdicts.undecided) > 1 and sys.stdout.isatty():
        print()
        for line in summary(verdicts, watch.titles, style_of(sys.stdout, os.environ)):
            print(line)


def _report(verdicts: Verdicts) -> None:
    """Say on stderr why the exit code is not 0, for whoever sees nothing but that."""
    if verdicts.interrupted:
        print(f"{PROG}: interrupted; the jobs go on", file=sys.stderr)
    if sys.stdout.isatty() and sys.stderr.isatty():
        return  # the verdict stands right above
    for verdict in verdicts.by_job.values():
        if verdict.exit_code:
            print(f"{PROG}: {safe(verdict.sentence)}", file=sys.stderr)


def timeout_options(args: argparse.Namespace) -> dict[str, float | None]:
    """Return the limits named on the command line, by field name; None is no limit."""
    given = {name: getattr(args, f"{name}_timeout") for name in _TIMEOUTS}
    return {
        f"{name}_seconds": None if math.isinf(value) else value
        for name, value in given.items()
        if value is not None
    }


def mode_of(args: argparse.Namespace) -> Mode:
    """Return when the watch ends; raises InvalidInputError for options that contradict each other."""
    if not (args.job or args.ticket or args.all):
        raise InvalidInputError("no job is named", hint="give JOB, --ticket FILE or --all")
    if args.follow and not args.all:
        raise InvalidInputError("--follow needs --all", hint="new jobs can appear only with --all")
    if args.follow and args.any:
        raise InvalidInputError("--follow and --any contradict each other")
    if args.format == "line" and args.json:
        raise InvalidInputError("--json and --format line contradict each other")
    return Mode(any_one=args.any, fail_fast=args.fail_fast, follow=args.follow)
