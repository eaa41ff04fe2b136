"""Admission: is this message a genuine, fresh and legal event? One rule for every consumer."""

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from enum import StrEnum
from operator import itemgetter
from typing import NamedTuple

from jobwire.core.canonical import JsonShapeError, encode_checked
from jobwire.core.signature import SIGNATURE_FIELD, verify_bytes
from jobwire.core.strict_json import decode_checked
from jobwire.core.topics import Topics
from jobwire.jobs.event import MAX_JUMP, MAX_PAYLOAD, SCHEMA_VERSION, Event, bad_field
from jobwire.jobs.gaps import Gaps
from jobwire.jobs.lifecycle import EVENT_TRANSITIONS, TERMINAL_STATUSES, Status, event_allowed

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
# An attribute of an enum is looked up in its metaclass: too slow for every event.
_RUNNING = Status.RUNNING
_UNSIGNED = object()
_event_fields = itemgetter(*Event._fields)


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


class Parsed(NamedTuple):
    """A well-formed event of which nobody knows yet who signed it.

    `event` is without the signature, `signed` is the object that the signature covers, `signature`
    is what stood in its place (`_UNSIGNED`: nothing), `plain` is what `check_shape` said.
    """

    event: Event
    signed: Mapping[str, object]
    signature: object
    plain: bool

    @property
    def job_id(self) -> str:
        """Return the job that the event speaks of."""
        return self.event.job_id


class JobView:
    """What one consumer knows of one job: its key, its state, and which events it saw.

    `joined_late` is for a consumer that did not follow from the first event: it cannot know whether
    an event is the attempt's first, nor how much it missed: it folds nothing, and takes a jump of any width.
    """

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
        # The seqs below the highest that were not seen.
        self.missing = Gaps(MAX_MISSING)

    def remember(self, seq: int, digest: bytes) -> None:
        """Note that the event `seq` was seen, whatever became of it."""
        if seq > self.last_seq:
            if not (self.joined_late and self.last_seq == 0):
                self.missing.open(self.last_seq + 1, seq - 1)
            self.last_seq = seq
        else:
            self.missing.close(seq)
        self._digests[seq] = (digest, self.attempt)
        if len(self._digests) > REMEMBERED:
            self.forget(REMEMBERED)

    def forget(self, keep: int) -> None:
        """Forget the digests of all but the `keep` events that were seen last: a job may speak for months."""
        while len(self._digests) > keep:
            self._digests.popitem(last=False)

    def accept(self, accepted: Accepted) -> None:
        """Note an accepted event: it was seen, and the state follows it."""
        event = accepted.event
        self.remember(event.seq, accepted.digest)
        if self.status is _RUNNING and event.event == "progress":
            return  # most events by far, and looking up an enum's member is not free
        before = self.status
        if self.joined_late and before is Status.PENDING:
            before = _RUNNING  # the `started` before it was missed, or this is the one
        self.status = EVENT_TRANSITIONS.get((before, event.event), before)

    def seen(self, seq: int) -> tuple[bytes, int] | None:
        """Return (digest, attempt) of a remembered event."""
        return self._digests.get(seq)

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


def parse(topics: Topics, topic: str, payload: bytes) -> Parsed | Rejected:
    """Check everything that needs no knowledge of the job: size, form, fields, topic."""
    if len(payload) > MAX_PAYLOAD:
        return Rejected(Reason.OVERSIZE, f"{len(payload)} bytes, {MAX_PAYLOAD} are allowed")
    try:
        value, plain = decode_checked(payload)
    except JsonShapeError as error:
        return Rejected(Reason.MALFORMED, error.message)
    version = value.get("schema_version")
    if type(version) is not int or version != SCHEMA_VERSION:
        return Rejected(Reason.SCHEMA_VERSION, f"schema_version is not {SCHEMA_VERSION}")
    bad = bad_field(value)
    if bad:
        return Rejected(Reason.INVALID_FIELD, bad)
    data: dict[str, object] = value["data"]  # type: ignore[assignment]  # an object: no bad field
    signature = data.pop(SIGNATURE_FIELD, _UNSIGNED)
    event = Event._make(_event_fields(value))
    if topic != topics.events(event.job_id):
        return Rejected(Reason.TOPIC_MISMATCH, f"the event names job {event.job_id}")
    return Parsed(event, value, signature, plain)


def admit(topics: Topics, topic: str, payload: bytes, *, retained: bool, job: JobView | None) -> Verdict:
    """Return the verdict on one message. Pure: the caller notes it with `JobView.accept` or `remember`.

    `retained` changes nothing for a terminal event; any other retained event is refused, because
    only terminal events are published with retain and a broker would repeat it for ever.
    """
    parsed = parse(topics, topic, payload)
    if isinstance(parsed, Rejected):
        return parsed
    return judge(parsed, payload, retained=retained, job=job)


def judge(parsed: Parsed, payload: bytes, *, retained: bool, job: JobView | None) -> Verdict:
    """Return the verdict on a parsed message: the part of `admit` that needs the job."""
    event = parsed.event
    if job is None:
        return Rejected(Reason.UNKNOWN_JOB, f"no job {event.job_id} here")
    digest = digest_of(payload)
    known = job.seen(event.seq)
    if known is not None and known[0] == digest:
        if known[1] == job.attempt:
            return Rejected(Reason.DUPLICATE, f"seq {event.seq} again", None, digest)
        return Rejected(Reason.REPLAYED, f"seq {event.seq} belongs to attempt {known[1]}", None, digest)
    if parsed.signature is _UNSIGNED:
        return Rejected(Reason.UNSIGNED, f"data.{SIGNATURE_FIELD} is missing")
    if not verify_bytes(encode_checked(parsed.signed, plain=parsed.plain), parsed.signature, job.token):
        return Rejected(Reason.BAD_SIGNATURE, f"not signed with the key of attempt {job.attempt}")
    return _place(event, digest, known=known is not None, retained=retained, job=job)


def _misplaced(seq: int, job: JobView) -> tuple[Reason, str] | None:
    """Return what is wrong with an unused `seq`, if it is not one of the next."""
    last = job.last_seq
    if seq > last:
        if seq - last <= MAX_JUMP or job.joined_late:
            return None
        return Reason.INVALID_FIELD, f"seq {seq} is more than {MAX_JUMP} above {last}"
    if seq in job.missing or job.joined_late:
        return Reason.LATE, f"seq {seq} after {last}"
    return Reason.REPLAYED, f"seq {seq} is not above {last}"


def _place(event: Event, digest: bytes, *, known: bool, retained: bool, job: JobView) -> Verdict:
    """Judge a genuine event by its place in the job's history; `known`: another one had its seq."""
    if known:
        return Rejected(Reason.REPLAYED, f"seq {event.seq} was another event", event, digest)
    misplaced = _misplaced(event.seq, job)
    if misplaced is not None:
        return Rejected(*misplaced, event, digest)
    if job.status in TERMINAL_STATUSES:
        return Rejected(Reason.AFTER_TERMINAL, f"the job is {job.status}", event, digest)
    if retained and not event.terminal:
        return Rejected(Reason.ILLEGAL_TRANSITION, "only a terminal event is retained", event, digest)
    if job.status is _RUNNING and event.event == "progress" and job.last_seq > job.attempt_seq:
        return Accepted(event, digest)
    # A late joiner may have missed `started`: always at first, later where there is a gap before this one.
    gap = not job.last_seq or event.seq > job.last_seq + 1
    if job.joined_late and job.status is Status.PENDING and gap:
        return Accepted(event, digest)
    if not event_allowed(job.status, event.event, first_of_attempt=job.first_of_attempt(event.seq)):
        return Rejected(Reason.ILLEGAL_TRANSITION, f"{event.event} while {job.status}", event, digest)
    return Accepted(event, digest)
