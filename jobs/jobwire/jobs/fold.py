"""How a record changes: every transition as a pure function from record to record."""

from jobwire.core import lease
from jobwire.core.backoff import retry_delay
from jobwire.core.bounds import DEFAULT_MAX_ATTEMPTS, KEPT_TOKENS, MAX_ATTEMPTS, MAX_NAME
from jobwire.core.clock import utc_timestamp
from jobwire.core.errors import ConflictError, StoppedError, TransitionError
from jobwire.core.lease import Lease, LeaseGrant
from jobwire.jobs import requests
from jobwire.jobs.event import MAX_DETAIL, Event
from jobwire.jobs.lifecycle import EVENT_TRANSITIONS, Status, check_transition, event_allowed
from jobwire.jobs.record import REGISTRY, JobRecord
from jobwire.jobs.requests import Answer, Requests

# Of a worker that starts without a pick: it did not ask for a lease, so it knows of none to renew, and it
# may work longer than a claim's 300 s between two events.
_UNASKED_SECONDS = 3600.0
_UNASKED_OWNER = "worker"
# How long a job rests that lost its lease: a job that kills its workers does not kill one a second.
_REST_SECONDS = 5.0
_LONGEST_REST_SECONDS = 600.0


def apply_event(record: JobRecord, event: Event, now: float) -> JobRecord:
    """Return the record after `event`; the same record where it was applied before (idempotent by seq).

    `now` is epoch seconds. Raises TransitionError where the lifecycle forbids it.
    """
    if event.seq <= record.last_seq:
        return record
    if record.terminal:
        raise TransitionError(
            f"job {record.job_id} is {record.status}: it takes no more {event.event} events",
            hint="register a new job for further work",
            before=str(record.status),
        )
    contiguous = event.seq == record.last_seq + 1
    first = False if record.last_seq > record.attempt_seq else (True if contiguous else None)
    if not event_allowed(record.status, event.event, first_of_attempt=first):
        raise TransitionError(
            f"job {record.job_id} is {record.status}: {event.event} does not fit here",
            hint="an attempt says `started` once, first",
            before=str(record.status),
        )
    stamp = utc_timestamp(now)
    status = EVENT_TRANSITIONS[record.status, event.event]
    asked = _after(record, event, now)
    if asked is not record.requests:
        record = _with_requests(record, asked)
    return record._replace(
        status=status,
        updated_at=stamp,
        started_at=record.started_at or stamp,
        finished_at=stamp if event.terminal else None,
        last_seq=event.seq,
        # Of earlier versions' records the flag may stand without a request.
        attention=bool(asked) and record.attention,
        detail=event.detail,
        result={"event": event.event, "detail": event.detail, "data": dict(event.data)}
        if event.terminal
        else None,
        lease=None if event.terminal else _after_event(record, now),
        idle_since=stamp,
        not_before=None,
    )


def claim(record: JobRecord, grant: LeaseGrant, now: float) -> JobRecord:
    """Return the record as picked by `grant.owner`."""
    check_transition(record.status, Status.RUNNING)
    stamp = utc_timestamp(now)
    return record._replace(
        status=Status.RUNNING,
        updated_at=stamp,
        started_at=record.started_at or stamp,
        lease=lease.take(record.lease, grant, now),
        idle_since=stamp,
        not_before=None,
    )


def renew(record: JobRecord, grant: LeaseGrant, now: float) -> JobRecord:
    """Return the record with its lease granted anew; raises StoppedError for anybody but its holder."""
    if record.status is not Status.RUNNING or not lease.holds(record.lease, grant.owner):
        holder = record.lease.owner if record.lease else "nobody"
        raise StoppedError(
            f"{grant.owner} does not hold job {record.job_id}: it is {record.status}, held by {holder}",
            hint="stop working on it",
        )
    return record._replace(updated_at=utc_timestamp(now), lease=lease.grant(grant, now))


def next_attempt(record: JobRecord, token: str, now: float, cause: str) -> JobRecord:
    """Return the record as pending again under a new token: the old worker is fenced off everywhere.

    After `max_attempts` attempts the job ends in error instead, with the reason in its result.
    """
    limit = _attempts(record)
    if record.attempt >= limit:
        return fail(record, now, f"{cause}, and {limit} attempts are the limit")
    check_transition(record.status, Status.PENDING)
    return _with_requests(record, requests.voided(record.requests, now))._replace(
        status=Status.PENDING,
        updated_at=utc_timestamp(now),
        attempt=record.attempt + 1,
        attempt_seq=record.last_seq,
        auth_token=token,
        previous_tokens=(*record.previous_tokens, record.auth_token)[-KEPT_TOKENS:],
        attention=False,
        detail=cause[:MAX_DETAIL],
        lease=None,
        idle_since=utc_timestamp(now),
    )


def answer(record: JobRecord, request_id: str, given: Answer, now: float) -> JobRecord:
    """Return the record with the answer to a request; its worker has its whole lease to go on.

    Raises ConflictError where the job is finished or the request settled, NotFoundError,
    InvalidInputError.
    """
    if record.terminal:
        raise ConflictError(
            f"job {record.job_id} is already {record.status}: nobody hears the answer",
            code="already_terminal",
            status=str(record.status),
        )
    return _goes_on(record, requests.answered(record.requests, request_id, given, now), now)


def expire_requests(record: JobRecord, until: float, now: float) -> JobRecord:
    """Return the record with the requests expired that nobody answered by `until`, as after an answer."""
    asked = requests.expired(record.requests, until, now)
    return record if asked is record.requests else _goes_on(record, asked, now)


def _goes_on(record: JobRecord, asked: Requests, now: float) -> JobRecord:
    """Return the record with these requests; its worker has its whole lease to go on."""
    stamp = utc_timestamp(now)
    return _with_requests(record, asked)._replace(
        updated_at=stamp,
        idle_since=stamp,
        lease=lease.extend(record.lease, now) if record.lease is not None else None,
    )


def lose_lease(record: JobRecord, token: str, now: float, cause: str) -> JobRecord:
    """Return the record after its lease ran out: as `next_attempt`, at rest, longer after each attempt."""
    after = next_attempt(record, token, now, cause)
    if after.terminal:
        return after
    rest = retry_delay(record.attempt, 0.0, base=_REST_SECONDS, cap=_LONGEST_REST_SECONDS)
    return after._replace(not_before=utc_timestamp(now + rest))


def retry(record: JobRecord, token: str, now: float, cause: str) -> JobRecord:
    """Return the record as pending, at once, because a person wants it tried again.

    Of a running job that is the next attempt, one more than the limit if need be; a job at rest need not
    rest any longer. Raises TransitionError for any other, with what to do instead.
    """
    if record.status is Status.PENDING:
        if record.not_before is None:
            raise TransitionError(
                f"job {record.job_id} is already pending",
                hint="a worker takes it with `jobwire registry pick`",
                before=str(record.status),
            )
        return record._replace(updated_at=utc_timestamp(now), not_before=None)
    if record.attempt >= MAX_ATTEMPTS and not record.terminal:
        raise TransitionError(
            f"job {record.job_id} had {record.attempt} attempts, and no job has more than {MAX_ATTEMPTS}",
            hint="cancel it, and register a new one",
            before=str(record.status),
        )
    limit = max(_attempts(record), record.attempt + 1)
    return next_attempt(record._replace(max_attempts=limit), token, now, cause)


def cancel(record: JobRecord, now: float, cause: str, *, timeout: str = "") -> JobRecord:
    """Return the record as cancelled; cancelling twice changes nothing.

    `timeout` names the limit where one was reached; the result says so then. Raises ConflictError where
    the job ended otherwise.
    """
    if record.status is Status.CANCELLED:
        return record
    if record.terminal:
        raise ConflictError(f"job {record.job_id} is already {record.status}", status=str(record.status))
    return _ended(
        record, Status.CANCELLED, now, cause, _result("cancelled", cause, timeout) if timeout else None
    )


def fail(record: JobRecord, now: float, cause: str, *, timeout: str = "") -> JobRecord:
    """Return the record as ended in error by the registry itself, with `cause` as its result.

    `timeout` names the limit that was reached, if one was.
    """
    check_transition(record.status, Status.ERROR)
    return _ended(record, Status.ERROR, now, cause, _result("error", cause, timeout))


def _ended(
    record: JobRecord, status: Status, now: float, cause: str, result: dict[str, object] | None
) -> JobRecord:
    stamp = utc_timestamp(now)
    return _with_requests(record, requests.voided(record.requests, now))._replace(
        status=status,
        updated_at=stamp,
        finished_at=stamp,
        attention=False,
        detail=cause[:MAX_DETAIL],
        lease=None,
        not_before=None,
        result=result,
    )


def _after(record: JobRecord, event: Event, now: float) -> Requests:
    if event.terminal:
        done = requests.after_event(record.requests, event, attempt=record.attempt, now=now)
        return requests.voided(done, now) if done else done
    return requests.after_event(record.requests, event, attempt=record.attempt, now=now)


def _with_requests(record: JobRecord, asked: Requests) -> JobRecord:
    if not asked and not record.requests:
        return record
    moved = requests.unapplied(asked) != requests.unapplied(record.requests)
    return record._replace(
        requests=asked, attention=requests.is_open(asked), answers_n=record.answers_n + moved
    )


def _attempts(record: JobRecord) -> int:
    """Return how many attempts the job has: records of earlier versions may name no limit."""
    return DEFAULT_MAX_ATTEMPTS if record.max_attempts is None else record.max_attempts


def _result(end: str, cause: str, timeout: str) -> dict[str, object]:
    said = {"event": end, "detail": cause[:MAX_DETAIL], "data": {}}
    return {**said, "by": REGISTRY, **({"timeout": timeout} if timeout else {})}


def _after_event(record: JobRecord, now: float) -> Lease:
    """Every event is a sign of life; a worker's first one grants it a lease where it has none."""
    if record.lease is not None:
        return lease.extend(record.lease, now)
    # Records of earlier versions may hold a session of any characters.
    session = "".join(filter(str.isprintable, record.agent_session or ""))
    owner = f"{_UNASKED_OWNER}:{session}" if session else _UNASKED_OWNER
    # Not below the idle limit: that one is to speak first.
    seconds = max(_UNASKED_SECONDS, record.timeouts.idle_seconds or 0.0)
    return lease.grant(LeaseGrant(owner[:MAX_NAME], seconds), now)
