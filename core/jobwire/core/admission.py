"""Admission: is this message a genuine, fresh and legal event? One rule for every consumer."""

import hashlib
from collections import OrderedDict
from enum import StrEnum
from typing import NamedTuple

from pydantic import ValidationError

from jobwire.core.canonical import JsonShapeError
from jobwire.core.event import EVENT_TYPES, MAX_PAYLOAD, SCHEMA_VERSION, Event
from jobwire.core.lifecycle import EVENT_TRANSITIONS, TERMINAL_STATUSES, Status, event_allowed
from jobwire.core.models import EventModel
from jobwire.core.signature import SIGNATURE_FIELD, signed_event_message, verify_bytes
from jobwire.core.strict_json import decode_object
from jobwire.core.topics import Topics

# Digests kept a job: redeliveries come from the broker's in-flight window, which is far smaller.
REMEMBERED = 4096
# Gaps kept a job: more missing events than this are told apart from replays no longer.
MAX_MISSING = 4096


class Reason(StrEnum):
    """Why a message is not an accepted event (SPEC section 3)."""

    OVERSIZE = "oversize"
    MALFORMED = "malformed"
    SCHEMA_VERSION = "schema_version"
    INVALID_FIELD = "invalid_field"
    TOPIC_MISMATCH = "topic_mismatch"
    UNKNOWN_JOB = "unknown_job"
    UNSIGNED = "unsigned"
    BAD_SIGNATURE = "bad_signature"
    DUPLICATE = "duplicate"
    REPLAYED = "replayed"
    LATE = "late"
    AFTER_TERMINAL = "after_terminal"
    ILLEGAL_TRANSITION = "illegal_transition"


ACCEPTED = "accepted"


class Accepted(NamedTuple):
    """A genuine, fresh and legal event."""

    event: Event
    digest: bytes


class Rejected(NamedTuple):
    """A message that changes nothing; `event` is given where its signature was good."""

    reason: Reason
    why: str
    event: Event | None = None
    digest: bytes = b""


Verdict = Accepted | Rejected


class JobView:
    """What one consumer knows of one job: its key, its state, and which events it saw.

    `joined_late` is for a consumer that did not follow from the first event: it cannot know whether
    an event is the attempt's first.
    """

    __slots__ = (
        "_digests",
        "_missing",
        "attempt",
        "attempt_seq",
        "joined_late",
        "last_seq",
        "status",
        "token",
    )

    def __init__(
        self,
        *,
        token: str,
        status: Status = Status.PENDING,
        attempt: int = 1,
        last_seq: int = 0,
        attempt_seq: int = 0,
        joined_late: bool = False,
    ) -> None:
        self.token = token
        self.status = status
        self.attempt = attempt
        self.last_seq = last_seq
        self.attempt_seq = attempt_seq
        self.joined_late = joined_late
        self._digests: OrderedDict[int, tuple[bytes, int]] = OrderedDict()
        self._missing: set[int] = set()

    def remember(self, seq: int, digest: bytes) -> None:
        """Note that the event `seq` was seen, whatever became of it."""
        if seq > self.last_seq:
            first_gap = max(self.last_seq + 1, seq - MAX_MISSING)
            if not (self.joined_late and self.last_seq == 0):
                self._missing.update(range(first_gap, seq))
            self.last_seq = seq
        else:
            self._missing.discard(seq)
        self._digests[seq] = (digest, self.attempt)
        if len(self._digests) > REMEMBERED:
            self._digests.popitem(last=False)
        while len(self._missing) > MAX_MISSING:
            self._missing.discard(min(self._missing))

    def accept(self, accepted: Accepted) -> None:
        """Note an accepted event: it was seen, and the state follows it."""
        event = accepted.event
        self.remember(event.seq, accepted.digest)
        self.status = EVENT_TRANSITIONS.get((self.status, event.event), self.status)

    def seen(self, seq: int) -> tuple[bytes, int] | None:
        """Return (digest, attempt) of a remembered event."""
        return self._digests.get(seq)

    @property
    def missing(self) -> frozenset[int]:
        """Return the seqs below the highest that were not seen."""
        return frozenset(self._missing)

    def first_of_attempt(self, seq: int) -> bool | None:
        """Tell whether `seq` opens the present attempt; None where that cannot be known."""
        if self.last_seq > self.attempt_seq:
            return False if not self.joined_late or self._digests else None
        if self.joined_late or seq != self.last_seq + 1:
            return None
        return True

    def new_attempt(self, *, token: str, attempt: int, status: Status, attempt_seq: int) -> None:
        """Follow a claim: the key changed, and events of the old one are refused from now on."""
        self.token = token
        self.attempt = attempt
        self.status = status
        self.attempt_seq = attempt_seq


def digest_of(payload: bytes) -> bytes:
    """Return what tells two payloads apart (128 bits of SHA-256)."""
    return hashlib.sha256(payload).digest()[:16]


def parse(topics: Topics, topic: str, payload: bytes) -> EventModel | Rejected:
    """Check everything that needs no knowledge of the job: size, form, fields, topic."""
    if len(payload) > MAX_PAYLOAD:
        return Rejected(Reason.OVERSIZE, f"{len(payload)} bytes, {MAX_PAYLOAD} are allowed")
    try:
        value = decode_object(payload)
    except JsonShapeError as error:
        return Rejected(Reason.MALFORMED, error.message)
    version = value.get("schema_version")
    if type(version) is not int or version != SCHEMA_VERSION:
        return Rejected(Reason.SCHEMA_VERSION, f"schema_version is not {SCHEMA_VERSION}")
    try:
        model = EventModel.model_validate(value)
    except ValidationError as error:
        return Rejected(Reason.INVALID_FIELD, _first_problem(error))
    address = topics.parse(topic)
    if address is None or address.kind != "events" or address.job_id != model.job_id:
        return Rejected(Reason.TOPIC_MISMATCH, f"the event names job {model.job_id}")
    return model


def admit(topics: Topics, topic: str, payload: bytes, *, retained: bool, job: JobView | None) -> Verdict:
    """Return the verdict on one message. Pure: the caller notes it with `JobView.accept` or `remember`.

    `retained` changes nothing for a terminal event; any other retained event is refused, because
    only terminal events are published with retain and a broker would repeat it for ever.
    """
    model = parse(topics, topic, payload)
    if isinstance(model, Rejected):
        return model
    return judge(model, payload, retained=retained, job=job)


def judge(model: EventModel, payload: bytes, *, retained: bool, job: JobView | None) -> Verdict:
    """Return the verdict on a parsed message: the part of `admit` that needs the job."""
    if job is None:
        return Rejected(Reason.UNKNOWN_JOB, f"no job {model.job_id} here")
    digest = digest_of(payload)
    known = job.seen(model.seq)
    if known is not None and known[0] == digest:
        if known[1] == job.attempt:
            return Rejected(Reason.DUPLICATE, f"seq {model.seq} again", None, digest)
        return Rejected(Reason.REPLAYED, f"seq {model.seq} belongs to attempt {known[1]}", None, digest)
    if SIGNATURE_FIELD not in model.data:
        return Rejected(Reason.UNSIGNED, f"data.{SIGNATURE_FIELD} is missing")
    try:
        message = signed_event_message(model.__dict__)
    except JsonShapeError as error:
        return Rejected(Reason.MALFORMED, error.message)
    if not verify_bytes(message, model.data[SIGNATURE_FIELD], job.token):
        return Rejected(Reason.BAD_SIGNATURE, f"not signed with the key of attempt {job.attempt}")
    return _place(model.to_event(), digest, retained=retained, job=job)


def _place(event: Event, digest: bytes, *, retained: bool, job: JobView) -> Verdict:
    """Judge a genuine event by its place in the job's history."""
    if job.seen(event.seq) is not None:
        return Rejected(Reason.REPLAYED, f"seq {event.seq} was another event", event, digest)
    if event.seq <= job.last_seq:
        if event.seq in job.missing or job.joined_late:
            return Rejected(Reason.LATE, f"seq {event.seq} after {job.last_seq}", event, digest)
        return Rejected(Reason.REPLAYED, f"seq {event.seq} is not above {job.last_seq}", event, digest)
    if job.status in TERMINAL_STATUSES:
        return Rejected(Reason.AFTER_TERMINAL, f"the job is {job.status}", event, digest)
    if retained and not event.terminal:
        return Rejected(Reason.ILLEGAL_TRANSITION, "only a terminal event is retained", event, digest)
    if job.joined_late and job.status is Status.PENDING and not job.last_seq:
        return Accepted(event, digest)
    if not event_allowed(job.status, event.event, first_of_attempt=job.first_of_attempt(event.seq)):
        return Rejected(Reason.ILLEGAL_TRANSITION, f"{event.event} while {job.status}", event, digest)
    return Accepted(event, digest)


def _first_problem(error: ValidationError) -> str:
    """Name the first bad field without repeating its value (a forger chooses that)."""
    first = error.errors(include_url=False, include_input=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    known = set(EventModel.model_fields)
    if first["loc"] and first["loc"][0] not in known:
        field = "an unknown key"
    extra = f" (one of {', '.join(sorted(EVENT_TYPES))})" if field == "event" else ""
    return f"{field}: {first['type']}{extra}"
