"""One event of one job: what a worker says, and its signed form on the wire."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, NamedTuple

from jobwire.core.canonical import MAX_INTEGER, canonical_json
from jobwire.core.errors import InvalidInputError
from jobwire.core.fields import JOB_ID, OBJECT, STAMP, constant, count, misfit, one_of, rules_of, text
from jobwire.core.signature import SIGNATURE_FIELD, sign_bytes
from jobwire.core.topics import check_job_id

SCHEMA_VERSION = 1
MAX_DETAIL = 1024
MAX_PAYLOAD = 64 * 1024
# How far seq may rise in one event: none costs whoever folds it more than its size. Far beyond what a
# broker's queue drops at once, and a worker's outbox sends in order what was lost.
MAX_JUMP = 4096


class EventType(StrEnum):
    """The five things a worker can say."""

    STARTED = "started"
    PROGRESS = "progress"
    PERMISSION_REQUIRED = "permission_required"
    COMPLETED = "completed"
    ERROR = "error"


EVENT_TYPES = frozenset(str(kind) for kind in EventType)
TERMINAL_EVENTS = frozenset({"completed", "error"})


class Event(NamedTuple):
    """A well-formed event; `data` is without the signature."""

    seq: Annotated[int, count(1).described("1 for the first event, then rising")]
    job_id: Annotated[str, JOB_ID]
    event: Annotated[str, one_of(EventType)]
    timestamp: Annotated[str, STAMP]
    detail: Annotated[str, text(MAX_DETAIL)]
    data: Annotated[Mapping[str, object], OBJECT.described("free metrics; data.hmac_sig holds the signature")]

    @property
    def terminal(self) -> bool:
        """Tell whether this is the job's last event, published with retain."""
        return self.event in TERMINAL_EVENTS

    def to_json(self) -> dict[str, object]:
        """Return the object of SPEC section 2, unsigned."""
        return {"schema_version": SCHEMA_VERSION, **self._asdict()}


# What an event has on the wire, and nothing else.
FIELDS = {"schema_version": constant(SCHEMA_VERSION), **rules_of(Event)}


def bad_field(body: Mapping[str, object]) -> str:
    """Say which field of a decoded object makes it no event, and what is expected there; "" for an event."""
    return misfit(body, FIELDS)


def compose(
    *, seq: int, job_id: str, event: str, timestamp: str, detail: str, data: Mapping[str, object]
) -> Event:
    """Return a checked event from a worker's words.

    Raises InvalidInputError naming the field. Whatever this returns, admission accepts (property test).
    """
    check_job_id(job_id)
    if not 1 <= seq <= MAX_INTEGER:
        raise InvalidInputError(f"seq {seq} is out of range")
    if event not in EVENT_TYPES:
        raise InvalidInputError(f"unknown event {event!r}", hint=f"one of {', '.join(sorted(EVENT_TYPES))}")
    check_detail(detail)
    if SIGNATURE_FIELD in data:
        raise InvalidInputError(f"data.{SIGNATURE_FIELD} is reserved for the signature")
    return Event(seq, job_id, event, timestamp, detail, dict(data))


def check_detail(detail: str) -> None:
    """Raise InvalidInputError for a detail that is too long."""
    if len(detail) > MAX_DETAIL:
        raise InvalidInputError(
            f"detail has {len(detail)} characters, {MAX_DETAIL} are allowed",
            hint="shorten it; put figures into --data",
        )


def encode_signed(event: Event, token: str) -> bytes:
    """Return the signed payload as canonical JSON.

    Raises InvalidInputError when `data` is not JSON or the payload exceeds MAX_PAYLOAD bytes.
    """
    body = event.to_json()
    signature = sign_bytes(canonical_json(body), token)
    payload = canonical_json({**body, "data": {**event.data, SIGNATURE_FIELD: signature}})
    if len(payload) > MAX_PAYLOAD:
        raise InvalidInputError(
            f"the event has {len(payload)} bytes, {MAX_PAYLOAD} are allowed",
            hint="keep bulk results in files and put their summary into --data",
        )
    return payload
