"""What `jobwire registry ...` does: arguments in, one call of the library, words or JSON out."""

import argparse
import json
import os
import shutil
import sys
from pathlib import Path

from jobwire.core.bounds import MAX_INSTRUCTIONS
from jobwire.core.canonical import MAX_INTEGER
from jobwire.core.errors import ConflictError, InvalidInputError
from jobwire.core.exit_codes import ExitCode
from jobwire.core.lease import LeaseGrant
from jobwire.core.terminal_text import safe, table
from jobwire.core.told import at_most
from jobwire.jobs.labels import label_pairs
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import JobRecord, Priority, Timeouts, public_record
from jobwire.registry import present, quarantine
from jobwire.registry.queue import JobQueue
from jobwire.registry.spec import Change, Expectation, JobSpec
from jobwire.registry.store import RecordStore
from jobwire.storage.named_files import read_named_text


def build(args: argparse.Namespace) -> JobQueue:
    """Return the queue of the home directory that the command names."""
    return JobQueue(RecordStore(Path(args.home)), warn=warn)


def warn(message: str) -> None:
    """Report what does not stop the command."""
    sys.stderr.write(f"jobwire: warning: {message}\n")


def say(args: argparse.Namespace, value: object, text: str) -> None:
    """Print `value` as one JSON line for programs, or `text` for people."""
    line = json.dumps(value, ensure_ascii=False) if args.json else text
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def default_owner() -> str:
    """Return host:pid, which names the caller where it gave no name."""
    return f"{os.uname().nodename}:{os.getpid()}"


def register(args: argparse.Namespace) -> int:
    """Create a job, or name the one that exists under its key or session."""
    spec = JobSpec(
        title=args.title,
        instructions=_instructions(args),
        agent_session=args.agent_session,
        priority=Priority(args.priority),
        timeouts=Timeouts(args.idle_timeout, args.wall_timeout, args.pending_timeout),
        broker=dict(broker_pair(pair) for pair in args.broker),
        max_attempts=args.max_attempts,
        idempotency_key=args.idempotency_key,
        unique_session=args.unique_session,
        labels=label_pairs(args.label),
    )
    record, created = build(args).register(spec)
    what = (
        f"registered {record.job_id}" if created else f"job {record.job_id} exists already ({record.status})"
    )
    body = {**public_record(record), "created": created, "home": str(Path(args.home).absolute())}
    say(args, body, f"{what} in {args.home}")
    return ExitCode.OK


def pick(args: argparse.Namespace) -> int:
    """Claim the next job."""
    record = build(args).pick(
        LeaseGrant(args.owner or default_owner(), args.lease),
        agent_session=args.agent_session,
        any_session=args.any_session,
        wait_seconds=args.wait,
    )
    _say_record(args, record)
    return ExitCode.OK


def claim(args: argparse.Namespace) -> int:
    """Claim the named job."""
    record = build(args).claim(args.job, LeaseGrant(args.owner or default_owner(), args.lease))
    _say_record(args, record)
    return ExitCode.OK


def renew(args: argparse.Namespace) -> int:
    """Extend a lease."""
    _need_holder(args)
    record = build(args).renew(args.job, seconds=args.lease, owner=args.owner, attempt=args.for_attempt)
    until = record.lease.expires_at if record.lease else "now"
    say(args, public_record(record), f"job {record.job_id} is held until {until}")
    return ExitCode.OK


def release(args: argparse.Namespace) -> int:
    """Give a job back."""
    _need_holder(args)
    record = build(args).release(args.job, owner=args.owner, attempt=args.for_attempt, reason=args.reason)
    say(args, public_record(record), f"job {record.job_id} is {record.status}, attempt {record.attempt}")
    return ExitCode.OK


def show(args: argparse.Namespace) -> int:
    """Print one record, and its history on request."""
    store = RecordStore(Path(args.home))
    record = store.get(args.job)
    lines = store.audit(args.job).tail(args.history) if args.history else []
    text = present.facts(record, store.clock.now())
    if lines:
        text += "\n\n" + _table([present.HISTORY_HEADER, *map(present.history_row, lines)])
    say(args, {**public_record(record), **({"history": lines} if args.history else {})}, text)
    return ExitCode.OK


def list_jobs(args: argparse.Namespace) -> int:
    """Print the matching jobs, newest first, one JSON line each or a table."""
    queue = build(args)
    statuses = [Status(name) for name in args.status]
    records = at_most(
        args, queue.list(statuses=statuses, agent_session=args.agent_session, limit=args.limit + 1)
    )
    for item in quarantine.find(queue.store.jobs_path()):
        warn(quarantine.error_for(item).message)
    if args.json:
        for record in records:
            say(args, public_record(record), "")
    elif records:
        now = queue.store.clock.now()
        rows = [present.list_row(record, now) for record in records]
        say(args, None, _table([present.LIST_HEADER, *rows]))
    elif not queue.unread:
        say(args, None, f"no jobs in {args.home}")
    if queue.unread:
        raise queue.store.unread_error(queue.unread)
    return ExitCode.OK


def cancel(args: argparse.Namespace) -> int:
    """Cancel a job; again is no error."""
    record, changed = build(args).cancel(args.job, reason=args.reason)
    text = f"cancelled {record.job_id}" if changed else f"job {record.job_id} was cancelled before"
    say(args, {**public_record(record), "changed": changed}, text)
    return ExitCode.OK


def dismiss(args: argparse.Namespace) -> int:
    """Dismiss the named failures, or all; again is no error."""
    queue = build(args)
    if args.failed:
        done = [(record, True) for record in queue.dismiss_failed()]
    else:
        done = [queue.dismiss(job_id) for job_id in dict.fromkeys(args.jobs)]
    if args.json:
        for record, changed in done:
            say(args, {**public_record(record), "changed": changed}, "")
        return ExitCode.OK
    texts = [
        f"dismissed {record.job_id}" if changed else f"job {record.job_id} was dismissed before"
        for record, changed in done
    ]
    say(args, None, "\n".join(texts) or "no failed jobs")
    return ExitCode.OK


def update(args: argparse.Namespace) -> int:
    """Compare and set; a refusal carries the present state, also as JSON on stdout."""
    expect = Expectation(
        status=Status(args.expect_status) if args.expect_status else None,
        seq=args.expect_seq,
        attempt=args.expect_attempt,
    )
    try:
        record = build(args).update(
            args.job,
            _change(args),
            status=Status(args.status) if args.status else None,
            reason=args.reason,
            expect=expect,
        )
    except ConflictError as error:
        if args.json and "present" in error.facts:
            say(args, {"updated": False, "present": error.facts["present"]}, "")
        raise
    say(args, {**public_record(record), "updated": True}, f"job {record.job_id} is {record.status}")
    return ExitCode.OK


def reap(args: argparse.Namespace) -> int:
    """Move on what ran out of time, once."""
    reaped = build(args).reap()
    body = [
        {
            "job_id": item.record.job_id,
            "before": item.before,
            "after": item.record.status,
            "cause": item.cause,
        }
        for item in reaped
    ]
    words = [f"{one['job_id']}: {one['before']} -> {one['after']}: {one['cause']}" for one in body]
    say(args, {"reaped": body}, "\n".join(map(safe, words)) or "nothing ran out of time")
    return ExitCode.OK


def reindex(args: argparse.Namespace) -> int:
    """Make the index again."""
    queue = build(args)
    count = queue.reindex()
    aside = [item._asdict() for item in quarantine.find(queue.store.jobs_path())]
    text = f"indexed {count} jobs" + (f"; {len(aside)} records stand in quarantine" if aside else "")
    say(args, {"jobs": count, "quarantine": aside}, text)
    return ExitCode.OK


def _say_record(args: argparse.Namespace, record: JobRecord) -> None:
    say(args, public_record(record), present.facts(record, RecordStore(args.home).clock.now()))


def _table(rows: list[tuple[str, ...]]) -> str:
    return "\n".join(table(rows, shutil.get_terminal_size((120, 24)).columns))


def _instructions(args: argparse.Namespace) -> str:
    if args.instructions_file is None:
        return str(args.instructions)
    if args.instructions:
        raise InvalidInputError("instructions are given twice", hint="as text or as file, not both")
    return read_named_text(args.instructions_file, "instructions file", limit=MAX_INSTRUCTIONS * 4)


def broker_pair(pair: str) -> tuple[str, str | int]:
    """Return the setting in KEY=VALUE; raises InvalidInputError."""
    key, separator, value = pair.partition("=")
    if not separator:
        raise InvalidInputError(f"not KEY=VALUE: {key!r}", hint="for example --broker port=1883")
    # Five digits at most: more make no port, and int() would refuse thousands of them.
    number = key == "port" and value.isascii() and value.isdigit() and len(value) <= len("65535")
    return key, int(value) if number else value


def _need_holder(args: argparse.Namespace) -> None:
    """Take the attempt from the worker's environment where neither owner nor attempt is given."""
    if args.owner is None and args.for_attempt is None:
        inherited = os.environ.get("JOBWIRE_ATTEMPT", "")
        # Sixteen digits at most, as records hold: int() would refuse thousands of them.
        if not (inherited.isascii() and inherited.isdigit() and len(inherited) <= len(str(MAX_INTEGER))):
            raise InvalidInputError(
                "who holds the lease?", hint="name --owner as at pick, or --for-attempt N (JOBWIRE_ATTEMPT)"
            )
        args.for_attempt = int(inherited)


def _change(args: argparse.Namespace) -> Change:
    return Change(
        title=args.title,
        priority=Priority(args.priority) if args.priority else None,
        agent_session=args.agent_session,
        max_attempts=args.max_attempts,
        idle_seconds=args.idle_timeout,
        wall_seconds=args.wall_timeout,
        pending_seconds=args.pending_timeout,
    )
