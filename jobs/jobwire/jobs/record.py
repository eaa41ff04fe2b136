"""The record of one job: its fields, and its form on disk.

Decoded without pydantic, because `publish_event` reads it at every start (docs/adr/0003).
"""

import json
from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, NamedTuple

from jobwire.core.bounds import MAX_INSTRUCTIONS, MAX_KEY, MAX_NAME, MAX_TITLE, seconds_fit
from jobwire.core.errors import InvalidInputError, JobwireError, StorageError
from jobwire.core.fields import (
    FLAG,
    JOB_ID,
    OBJECT,
    SECONDS,
    STAMP,
    Rules,
    count,
    many,
    nested,
    one_of,
    optional,
    read_fields,
    rules_of,
    settings,
    text,
    texts,
)
from jobwire.core.lease import Lease
from jobwire.core.override import override
from jobwire.jobs.event import MAX_DETAIL
from jobwire.jobs.labels import LABELS
from jobwire.jobs.lifecycle import TERMINAL_STATUSES, Status
from jobwire.jobs.request_form import MAX_REQUESTS
from jobwire.jobs.requests import Request, Requests

RECORD_VERSION = 1
MIN_TOKEN = 32
# `by` in a result that no event gave, beside its `timeout` where a limit did. Not in its data: those are a
# worker's words.
REGISTRY = "registry"
LIMITS = ("idle", "wall", "pending")
# Beside the lease in records of earlier versions: the seconds that stand in it now.
_LEASE_SECONDS = "lease_seconds"


class RecordFormatError(StorageError):
    """Bytes that are not a job record; `facts["field"]` names the first bad field."""


class RecordVersionError(RecordFormatError):
    """A record of a schema version that this program does not know; `facts["version"]`. Not damaged."""


class Priority(StrEnum):
    """The order of `pick`."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


# What it costs a second to let a job wait for a person: the feed's order.
WAITING_COST = {Priority.HIGH: 4.0, Priority.NORMAL: 2.0, Priority.LOW: 1.0}


class Timeouts(NamedTuple):
    """Limits in seconds; None is no limit."""

    idle_seconds: Annotated[float | None, optional(SECONDS)] = None
    wall_seconds: Annotated[float | None, optional(SECONDS)] = None
    pending_seconds: Annotated[float | None, optional(SECONDS)] = None


class JobRecord(NamedTuple):
    """One job as the registry knows it (SPEC section 5). Immutable; `_replace` makes the next one.

    `idle_since` is when something was last heard of it: its claim, its last event, the end of its last
    attempt. A renewed lease is nothing heard. `not_before`: a pending job that lost its lease rests until
    then.
    """

    job_id: Annotated[str, JOB_ID]
    auth_token: Annotated[str, text(least=MIN_TOKEN)]
    created_at: Annotated[str, STAMP]
    updated_at: Annotated[str, STAMP]
    status: Annotated[Status, one_of(Status, Status)] = Status.PENDING
    attempt: Annotated[int, count(1)] = 1
    agent_session: Annotated[str | None, optional(text(MAX_NAME))] = None
    title: Annotated[str, text(MAX_TITLE)] = ""
    instructions: Annotated[str, text(MAX_INSTRUCTIONS)] = ""
    started_at: Annotated[str | None, optional(STAMP)] = None
    finished_at: Annotated[str | None, optional(STAMP)] = None
    last_seq: Annotated[int, count(0)] = 0
    attention: Annotated[bool, FLAG] = False
    # Earlier versions wrote reasons of any length.
    detail: Annotated[str, text(MAX_DETAIL, cut=True)] = ""
    result: Annotated[Mapping[str, object] | None, optional(OBJECT)] = None
    lease: Annotated[Lease | None, optional(nested(Lease, "who works on it, believed until then"))] = None
    timeouts: Annotated[Timeouts, nested(Timeouts, "limits in seconds; null is no limit")] = Timeouts()
    priority: Annotated[Priority, one_of(Priority, Priority)] = Priority.NORMAL
    idempotency_key: Annotated[str | None, optional(text(MAX_KEY))] = None
    broker: Annotated[Mapping[str, str | int], settings()] = {}  # never changed in place
    attempt_seq: Annotated[int, count(0).described("last_seq when the present attempt began")] = 0
    confirmed_seq: Annotated[
        int, count(0).described("highest seq that the registry process has journaled")
    ] = 0
    max_attempts: Annotated[int | None, optional(count(1))] = None
    previous_tokens: Annotated[
        tuple[str, ...], texts().described("tokens of the latest earlier attempts, oldest first")
    ] = ()
    idle_since: Annotated[
        str | None,
        optional(STAMP.described("last claim or event, or end of the last attempt; no renewal")),
    ] = None
    not_before: Annotated[
        str | None, optional(STAMP.described("a pending job that lost its lease is not picked earlier"))
    ] = None
    requests: Annotated[
        Requests, many(nested(Request, "what a person is asked"), MAX_REQUESTS).described("oldest first")
    ] = ()
    answers_n: Annotated[
        int, count(0).described("how often the answers that wait for the worker have changed")
    ] = 0
    labels: Annotated[Mapping[str, str], LABELS.described("by what figures are wanted")] = {}
    extra: Mapping[str, object] = {}  # never changed in place

    @property
    def terminal(self) -> bool:
        """Tell whether the job is finished."""
        return self.status in TERMINAL_STATUSES

    @property
    def timed_out(self) -> str | None:
        """Return by which of its limits the registry ended the job: `idle`, `wall` or `pending`."""
        result = self.result or {}
        limit = result.get("timeout") if result.get("by") == REGISTRY else None
        return str(limit) if limit in LIMITS else None

    @override
    def __repr__(self) -> str:
        # Tokens must not reach logs or tracebacks.
        return f"JobRecord({self.job_id}, {self.status}, attempt={self.attempt}, last_seq={self.last_seq})"


FIELDS = rules_of(JobRecord)
# Records of earlier versions may lack these.
_ADDED_LATER = (
    "attempt_seq",
    "confirmed_seq",
    "max_attempts",
    "previous_tokens",
    "idle_since",
    "not_before",
    "requests",
    "answers_n",
    "labels",
)
MAY_LACK = {name: JobRecord._field_defaults[name] for name in _ADDED_LATER}

# A field beside the model's own: when a person dismissed a failure (RFC 3339 UTC). It survives as an unknown
# one, so that every version keeps it.
DISMISSED = "dismissed_at"
# Likewise: the conversation whose work the job does.
THREAD = "thread"


def dismissed_at(record: JobRecord) -> str | None:
    """Return when the failed job was dismissed: from then on it counts among the failures nowhere."""
    value = record.extra.get(DISMISSED)
    return value if isinstance(value, str) else None


def thread_of(record: JobRecord) -> str | None:
    """Return the id of the thread whose work the job does, None where it has none."""
    value = record.extra.get(THREAD)
    return value if isinstance(value, str) else None


# Never shown to people, pages or programs.
SECRET_FIELDS = frozenset({"auth_token", "previous_tokens"})


_encode = json.JSONEncoder(ensure_ascii=False).encode
_encode_text = json.encoder.encode_basestring
_EMPTY = {bool: "false", dict: "{}", list: "[]", tuple: "[]"}


def encode_record(record: JobRecord, *, known: JobRecord | None = None) -> bytes:
    """Return the record as one JSON object, a line for each field, with a final line break.

    What it shares with `known`, which was read or written, is not checked again. Raises InvalidInputError
    naming the field that `decode_record` would not read back: written, it would cost the whole job.
    """
    value = record._asdict()
    extra = value.pop("extra")
    value["lease"] = record.lease._asdict() if record.lease else None
    value["timeouts"] = record.timeouts._asdict()
    value["requests"] = [one._asdict() for one in record.requests]
    rules = FIELDS if known is None else _differing(record, known)
    read_fields(value, rules, partial(_refused, InvalidInputError), optional=())
    body = {"schema_version": RECORD_VERSION, **value, **{k: v for k, v in extra.items() if k not in value}}
    # One field a line, by hand: json's own indentation leaves its C encoder and takes ten times as long.
    fields = ",\n ".join([f"{_encode_text(name)}: {_encode_field(item)}" for name, item in body.items()])
    try:
        return f"{{\n {fields}\n}}\n".encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"job {record.job_id}: a text is not valid UTF-8") from error


def _differing(record: JobRecord, known: JobRecord) -> Rules:
    pairs = zip(FIELDS.items(), record, known, strict=False)  # `extra`, the last one, has no rule
    return {name: rule for (name, rule), new, old in pairs if new is not old}


def _encode_field(value: object) -> str:
    """Return `value` as JSON; what most fields hold without a call of the encoder, which costs more."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return _encode_text(str(value))  # an enum's member is a str as well
    if type(value) is int:
        return str(value)
    return (None if value else _EMPTY.get(type(value))) or _encode(value)


def public_record(record: JobRecord) -> dict[str, object]:
    """Return the record for people and programs: everything but its secrets."""
    body: dict[str, object] = json.loads(encode_record(record))
    # Overrides may name a password.
    broker = {key: value for key, value in record.broker.items() if key != "password"}
    return {**{key: value for key, value in body.items() if key not in SECRET_FIELDS}, "broker": broker}


def decode_record(payload: bytes) -> JobRecord:
    """Return the record in `payload`; raises RecordFormatError naming the first bad field."""
    try:
        # Not json.loads(bytes), which lets encoded surrogates pass.
        body = json.loads(payload.decode())
        if b"\\u" in payload and b"\\ud" in payload.lower():
            _encode(body).encode()  # nor half an escaped pair: it could not be written back
    except (ValueError, RecursionError) as error:
        raise RecordFormatError(f"not JSON: {error}", field="") from error
    if not isinstance(body, dict):
        raise RecordFormatError("not a JSON object", field="")
    version = body.get("schema_version")
    if type(version) is int and version > RECORD_VERSION:
        raise RecordVersionError(
            f"it has schema version {version}, and this jobwire knows version {RECORD_VERSION}",
            hint="use the jobwire that wrote it, or a later one",
            field="schema_version",
            version=version,
        )
    if version != RECORD_VERSION:
        raise RecordFormatError(f"schema_version is not {RECORD_VERSION}", field="schema_version")
    return _read(body)


def _read(body: dict[str, Any]) -> JobRecord:
    fields = read_fields(body, FIELDS, partial(_refused, RecordFormatError), optional=MAY_LACK)
    extra = {name: value for name, value in body.items() if name not in FIELDS and name != "schema_version"}
    beside = extra.pop(_LEASE_SECONDS, None)
    if fields["lease"] is not None and "seconds" not in body["lease"] and seconds_fit(beside):
        fields["lease"] = fields["lease"]._replace(seconds=beside)
    return JobRecord(**fields, extra=extra)


def _refused(kind: type[JobwireError], name: str, cause: str) -> JobwireError:
    return kind(f"field {name} {cause}", field=name)


def ended_by_event(record: JobRecord) -> bool:
    """Tell whether a worker's event ended the job, and not the registry (cancelled, timed out)."""
    if record.status not in {Status.COMPLETED, Status.ERROR} or record.result is None:
        return False
    return record.result.get("by") != REGISTRY
