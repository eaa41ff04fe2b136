"""The signed, retained snapshot of a record: what a worker or watcher on another host may know of it."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from jobwire.core.bounds import KEPT_TOKENS
from jobwire.core.envelope import open_sealed, seal
from jobwire.core.errors import InvalidInputError
from jobwire.core.fields import one_of, optional, pattern, read_fields, texts
from jobwire.jobs.fact import STATED, Fact, facts_said
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import FIELDS as RECORD_FIELDS
from jobwire.jobs.record import LIMITS, JobRecord

# Only in the snapshot of a job that the registry ended by a limit: which one.
_TIMEOUT = "timeout"
_SIGNATURE = re.compile(r"[0-9a-f]{64}")
_COPIED = ("job_id", "status", "last_seq", "attempt", "updated_at", "attention", "detail")
_RULES = {name: RECORD_FIELDS[name] for name in _COPIED}
# What a state has on the wire.
FIELDS = {
    **_RULES,
    "created_at": optional(RECORD_FIELDS["created_at"]),
    "facts": STATED,
    _TIMEOUT: optional(one_of(LIMITS)).described("the limit by which the registry ended it"),
    "hmac_sig": pattern(_SIGNATURE.fullmatch, "^[0-9a-f]{64}$", "64 lower-case hex digits").described(
        "under the present attempt's token"
    ),
    "superseded": texts().described("signatures under the tokens of earlier attempts, oldest first"),
}
# Registries of earlier versions say neither when the job was made nor what was decided.
MAY_LACK: dict[str, object] = {"created_at": None, "facts": (), _TIMEOUT: None, "superseded": ()}


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


def encode_snapshot(record: JobRecord, *, confirmed_seq: int, facts: Sequence[Fact] = ()) -> bytes:
    """Return the signed snapshot of `record`; `facts` are what was decided about the job, in order.

    `last_seq` on the wire is `confirmed_seq`: what the registry process holds durably, so that a
    worker may trim its outbox by it. It is sealed for the latest earlier attempts' holders, too.
    """
    body: dict[str, object] = {name: getattr(record, name) for name in (*_COPIED, "created_at")}
    if facts:
        body["facts"] = facts_said(facts)
    body |= {"status": str(record.status), "last_seq": confirmed_seq}
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

    def unknown(name: str, cause: str) -> UnknownStateError:
        return UnknownStateError(
            f"the registry's state of job {job_id} says what this version does not know: {name} {cause}",
            hint="update jobwire on this host to the registry's version",
            job_id=job_id,
        )

    fields = read_fields(envelope.body, _RULES, unknown, optional=())
    limit = envelope.body.get(_TIMEOUT)
    return Snapshot(
        **fields, superseded=envelope.superseded, timed_out=str(limit) if limit in LIMITS else None
    )
