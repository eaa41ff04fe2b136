"""Compare and set: what `update` expects of a record, and what it changes. Pure."""

from typing import NamedTuple

from jobwire.core.clock import utc_timestamp
from jobwire.core.errors import ConflictError
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import JobRecord, Priority, Timeouts
from jobwire.registry.spec import JobSpec, check_spec


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
