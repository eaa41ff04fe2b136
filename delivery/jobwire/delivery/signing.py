"""What makes a worker's draft the job's next event: who may, its number, its signature."""

import json
from collections.abc import Mapping
from typing import NamedTuple

from jobwire.core.clock import utc_timestamp
from jobwire.core.errors import ConflictError, InvalidInputError, StoppedError
from jobwire.core.signature import SIGNATURE_FIELD
from jobwire.delivery.outbox import SignedEvent
from jobwire.jobs.event import Event, EventType, compose, encode_signed
from jobwire.jobs.fold import apply_event
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import JobRecord

STOP_HINT = "stop working on it; nothing that this attempt says is accepted now"


class Draft(NamedTuple):
    """An event without its place in the job's history."""

    event: str
    detail: str = ""
    data: Mapping[str, object] = {}  # never changed in place


def check_attempt(record: JobRecord, attempt: int | None) -> None:
    """Raise StoppedError where the job is held by another attempt than `attempt` (None: whichever)."""
    if attempt is not None and attempt != record.attempt:
        raise claimed_again(record.job_id, attempt, record.attempt)


def claimed_again(job_id: str, attempt: int, present: int) -> StoppedError:
    """Return the error for the worker of an `attempt` where the job is in the `present` one."""
    return StoppedError(
        f"job {job_id} was claimed again: this is attempt {attempt}, now it is {present}",
        hint=STOP_HINT,
        job_id=job_id,
        attempt=present,
    )


def check_open(record: JobRecord) -> None:
    """Raise StoppedError where the job is cancelled, ConflictError where it ended otherwise."""
    if record.terminal:
        raise ended(record.job_id, record.status)


def ended(job_id: str, status: Status) -> StoppedError | ConflictError:
    """Return the error for the worker of a job that ended so."""
    if status is Status.CANCELLED:
        return StoppedError(f"job {job_id} is cancelled", hint=STOP_HINT, job_id=job_id)
    return ConflictError(
        f"job {job_id} is already {status}",
        hint="a job ends once; register a new one for further work",
        code="already_terminal",
        job_id=job_id,
        status=str(status),
    )


def sign_next(record: JobRecord, draft: Draft, *, seq: int, now: float) -> tuple[Event, SignedEvent]:
    """Return the signed event that follows `record`; `now` is epoch seconds. Pure.

    Raises TransitionError where it does not fit the record, InvalidInputError where it is not an event.
    """
    event = compose(
        seq=seq,
        job_id=record.job_id,
        event=draft.event,
        timestamp=utc_timestamp(now),
        detail=draft.detail,
        data=draft.data,
    )
    payload = encode_signed(event, record.auth_token)
    apply_event(record, event, now)
    return event, SignedEvent(seq, record.attempt, event.event, event.terminal, payload)


def event_in(seq: int, payload: bytes) -> Event:
    """Return the event `seq` that a signed payload carries; raises InvalidInputError for a damaged one."""
    try:
        body = json.loads(payload)
        data = {key: value for key, value in body["data"].items() if key != SIGNATURE_FIELD}
        event = Event(
            seq, body["job_id"], EventType(body["event"]).value, body["timestamp"], body["detail"], data
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidInputError(f"event {seq} is damaged", seq=seq) from error
    return event
