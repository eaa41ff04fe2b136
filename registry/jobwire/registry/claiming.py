"""Who may claim and hold a job, and what to say where there is none to claim. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jobwire.core.bounds import MAX_NAME, check_line
from jobwire.core.errors import ConflictError, NoWorkError, StoppedError
from jobwire.core.lease import LeaseGrant
from jobwire.jobs.lifecycle import Status
from jobwire.registry.deadlines import ready_at

if TYPE_CHECKING:
    from collections.abc import Collection

    from jobwire.jobs.record import JobRecord


def check_names(
    *, owner: str | None = None, agent_session: str | None = None, author: str | None = None
) -> None:
    """Refuse what no record can hold: it would match nothing, and UTF-8 may not carry it."""
    for field, name in (("owner", owner), ("session", agent_session), ("author", author)):
        if name is not None:
            check_line(field, name, MAX_NAME)


def check_pending(record: JobRecord, now: float) -> None:
    """Refuse to claim what pick would not: a job that runs, is finished, or rests after a lost lease."""
    if record.terminal:
        raise ConflictError(
            f"job {record.job_id} is already {record.status}",
            hint="register a new job for further work",
            status=str(record.status),
        )
    if record.status is Status.RUNNING:
        owner, until = record.lease[:2] if record.lease else ("nobody", "now")
        raise ConflictError(
            f"job {record.job_id} is running, held by {owner} until {until}",
            hint="a lease that ran out is moved on by the registry process, or by `jobwire registry reap`",
            status=str(record.status),
            owner=owner,
        )
    if (ready_at(record) or now) > now:
        raise ConflictError(
            f"job {record.job_id} rests until {record.not_before} after a lost lease",
            hint=f"wait for it, or end the rest: jobwire registry update {record.job_id} --status pending",
            status=str(record.status),
        )


def held_grant(record: JobRecord, owner: str | None, attempt: int | None) -> LeaseGrant:
    """Return what the owner that is named, or whoever holds the attempt that is named, was granted."""
    if attempt is not None and attempt != record.attempt:
        raise StoppedError(
            f"job {record.job_id} is in attempt {record.attempt}, not {attempt}", hint="stop working on it"
        )
    if record.lease is None:
        return LeaseGrant(owner or "nobody")
    return LeaseGrant(record.lease.owner if owner is None else owner, record.lease.seconds)


class Unclaimed(NamedTuple):
    """Why there is nothing to pick: how many jobs are for others, rest, are locked, or cannot be read."""

    elsewhere: int
    resting: int
    busy: Collection[str]
    unreadable: int


def no_work(session: str | None, rest: Unclaimed) -> NoWorkError:
    """Return the error of a pick that found nothing, with what the caller could do."""
    where = f" for session {session}" if session is not None else ""
    hint = "wait for one with --wait SECONDS"
    if rest.busy:
        names = ", ".join(sorted(rest.busy)[:3])
        hint = f"{len(rest.busy)} pending job(s) are locked by other processes ({names}); {hint}"
    elif rest.elsewhere:
        hint = (
            f"{rest.elsewhere} pending job(s) are for named sessions: --agent-session NAME or --any-session"
        )
    elif rest.resting:
        hint = (
            f"{rest.resting} pending job(s) rest after a lost lease, `jobwire registry list` says how long; "
            f"{hint}"
        )
    elif rest.unreadable:
        hint = f"{rest.unreadable} job(s) cannot be read, `jobwire registry list` says why; {hint}"
    return NoWorkError(
        f"no pending job{where}",
        hint=hint,
        addressed_elsewhere=rest.elsewhere,
        resting=rest.resting,
        locked=len(rest.busy),
    )
