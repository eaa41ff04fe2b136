"""What a delegator says of a new job, what `update` changes of one, and what of both is refused. Pure."""

from collections.abc import Mapping
from typing import NamedTuple

from jobwire.core.bounds import (
    DEFAULT_MAX_ATTEMPTS,
    MAX_ATTEMPTS,
    MAX_INSTRUCTIONS,
    MAX_KEY,
    MAX_NAME,
    MAX_REASON,
    MAX_SETTING,
    MAX_TITLE,
    check_count,
    check_line,
    check_seconds,
    check_text,
)
from jobwire.core.clock import utc_timestamp
from jobwire.core.errors import ConflictError, InvalidInputError
from jobwire.core.settings import resolve_broker
from jobwire.jobs.labels import check_labels
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import THREAD, JobRecord, Priority, Timeouts


class JobSpec(NamedTuple):
    """A new job. `unique_session` asks for at most one unfinished job addressed to `agent_session`.

    `thread` is the conversation whose work it does (`record.THREAD`).
    """

    title: str = ""
    instructions: str = ""
    agent_session: str | None = None
    priority: Priority = Priority.NORMAL
    timeouts: Timeouts = Timeouts()
    broker: Mapping[str, str | int] = {}  # never changed in place
    max_attempts: int | None = None
    idempotency_key: str | None = None
    unique_session: bool = False
    thread: str | None = None
    labels: Mapping[str, str] = {}  # as `broker`


def check_spec(spec: JobSpec) -> None:
    """Raise InvalidInputError naming the first field that is not acceptable."""
    check_line("title", spec.title, MAX_TITLE, empty=True)
    if spec.agent_session is not None:
        check_line("session", spec.agent_session, MAX_NAME)
    if spec.idempotency_key is not None:
        check_line("idempotency key", spec.idempotency_key, MAX_KEY)
    if spec.thread is not None:
        check_line("thread", spec.thread, MAX_KEY)
    check_text("instructions", spec.instructions, MAX_INSTRUCTIONS)
    if spec.unique_session and spec.agent_session is None:
        raise InvalidInputError("a unique session needs its name", hint="add --agent-session NAME")
    if spec.max_attempts is not None:
        check_count("max_attempts", spec.max_attempts, MAX_ATTEMPTS)
    check_timeouts(spec.timeouts)
    check_broker(spec.broker)
    check_labels(spec.labels)


def new_record(spec: JobSpec, job_id: str, token: str, now: float) -> JobRecord:
    """Return the record of a job that is registered at `now`, in epoch seconds; `spec` was checked."""
    stamp = utc_timestamp(now)
    return JobRecord(
        job_id=job_id,
        auth_token=token,
        created_at=stamp,
        updated_at=stamp,
        agent_session=spec.agent_session,
        title=spec.title,
        instructions=spec.instructions,
        timeouts=spec.timeouts,
        priority=spec.priority,
        idempotency_key=spec.idempotency_key,
        broker=dict(spec.broker),
        max_attempts=spec.max_attempts or DEFAULT_MAX_ATTEMPTS,
        extra={} if spec.thread is None else {THREAD: spec.thread},
        labels=dict(spec.labels),
    )


def check_reason(reason: str) -> None:
    """Refuse a reason that is not one printable line of at most MAX_REASON characters."""
    check_line("reason", reason, MAX_REASON, empty=True)


def check_timeouts(timeouts: Timeouts) -> None:
    """Refuse limits that no record can hold."""
    for name, value in timeouts._asdict().items():
        if value is not None:
            check_seconds(name, value)


def check_broker(broker: Mapping[str, str | int]) -> None:
    """Refuse unknown or unusable broker settings, and a password in clear."""
    if "password" in broker:
        raise InvalidInputError(
            "the broker setting 'password' does not go into a job's record",
            hint="name a 0600 file with password_file=PATH",
        )
    for key, value in broker.items():
        check_line(f"broker setting {key[:MAX_NAME]!r}", str(value), MAX_SETTING, empty=True)
    resolve_broker([("the job's broker settings", broker)])


class Change(NamedTuple):
    """What `update` sets; None leaves a field as it is."""

    title: str | None = None
    priority: Priority | None = None
    agent_session: str | None = None
    max_attempts: int | None = None
    idle_seconds: float | None = None
    wall_seconds: float | None = None
    pending_seconds: float | None = None


class Expectation(NamedTuple):
    """What a compare-and-set expects of the record; None does not care."""

    status: Status | None = None
    seq: int | None = None
    attempt: int | None = None


def check_expected(record: JobRecord, expect: Expectation) -> None:
    """Raise ConflictError, with the present state in its facts, unless the record is as expected."""
    wanted = {"status": expect.status, "last_seq": expect.seq, "attempt": expect.attempt}
    present = {"status": record.status, "last_seq": record.last_seq, "attempt": record.attempt}
    if any(value is not None and value != present[name] for name, value in wanted.items()):
        raise ConflictError(
            f"job {record.job_id} is not as expected: it is {record.status} at seq {record.last_seq}, "
            f"attempt {record.attempt}, since {record.updated_at}",
            hint="read the present state, decide again, and repeat with what it says",
            present={**present, "status": str(record.status), "updated_at": record.updated_at},
        )


def check_change(change: Change) -> None:
    """Hold changes to the rules of registration."""
    limits = Timeouts(change.idle_seconds, change.wall_seconds, change.pending_seconds)
    check_spec(
        JobSpec(
            title=change.title or "",
            agent_session=change.agent_session,
            max_attempts=change.max_attempts,
            timeouts=limits,
        )
    )


def changed(record: JobRecord, change: Change, now: float) -> JobRecord:
    """Return the record with the change; the same record where it says so already."""
    fields = {name: value for name, value in change._asdict().items() if value is not None}
    limits = {name: fields.pop(name) for name in Timeouts._fields if name in fields}
    fields["timeouts"] = record.timeouts._replace(**limits)
    if all(getattr(record, name) == value for name, value in fields.items()):
        return record
    return record._replace(**fields, updated_at=utc_timestamp(now))
