"""The signed, retained snapshot of a record: what a worker or watcher on another host may know of it."""

from typing import NamedTuple

from jobwire.core.bounds import KEPT_TOKENS
from jobwire.core.envelope import open_sealed, seal
from jobwire.core.errors import InvalidInputError
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import LIMITS, JobRecord

# Only in the snapshot of a job that the registry ended by a limit: which one.
_TIMEOUT = "timeout"


class Snapshot(NamedTuple):
    """A verified snapshot. `superseded` is True where it was signed for an earlier attempt's holder."""

    job_id: str
    status: Status
    last_seq: int
    attempt: int
    updated_at: str
    attention: bool
    detail: str
    superseded: bool = False
    timed_out: str | None = None


def encode_snapshot(record: JobRecord, *, confirmed_seq: int) -> bytes:
    """Return the signed snapshot of `record`.

    `last_seq` on the wire is `confirmed_seq`: what the registry process holds durably, so that a
    worker may trim its outbox by it. It is sealed for the latest earlier attempts' holders, too.
    """
    body: dict[str, object] = {
        "job_id": record.job_id,
        "status": str(record.status),
        "last_seq": confirmed_seq,
        "attempt": record.attempt,
        "updated_at": record.updated_at,
        "attention": record.attention,
        "detail": record.detail,
    }
    if record.timed_out is not None:
        body[_TIMEOUT] = record.timed_out
    return seal(body, record.auth_token, former_keys=record.previous_tokens[-KEPT_TOKENS:])


class UnknownStateError(InvalidInputError):
    """A snapshot that the registry signed and that says something unknown here."""


def decode_snapshot(payload: bytes, *, job_id: str, token: str) -> Snapshot | None:
    """Return the snapshot if it is of `job_id` and signed for the holder of `token`, else None.

    Raises UnknownStateError for one that is signed and says what only a newer version knows.
    """
    envelope = open_sealed(payload, token, about={"job_id": job_id})
    if envelope is None:
        return None
    value = envelope.body
    try:
        return Snapshot(
            job_id=job_id,
            status=Status(str(value["status"])),
            last_seq=_integer(value["last_seq"]),
            attempt=_integer(value["attempt"]),
            updated_at=str(value["updated_at"]),
            attention=value["attention"] is True,
            detail=str(value["detail"]),
            superseded=envelope.superseded,
            timed_out=str(value[_TIMEOUT]) if value.get(_TIMEOUT) in LIMITS else None,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UnknownStateError(
            f"the registry's state of job {job_id} says what this version does not know: {error}",
            hint="update jobwire on this host to the registry's version",
            job_id=job_id,
        ) from error


def _integer(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"{type(value).__name__} is no seq")
    return value
