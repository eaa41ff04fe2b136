"""The record of one job: its fields, and its form on disk.

Decoded by hand and not by pydantic, because `publish_event` reads it at every start; a property test
holds this decoder and `models.RecordModel` equal (docs/adr/0003).
"""

import json
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from jobwire.core.bounds import MAX_INSTRUCTIONS, MAX_KEY, MAX_NAME, MAX_TITLE, seconds_fit
from jobwire.core.canonical import MAX_INTEGER
from jobwire.core.errors import InvalidInputError, JobwireError, StorageError
from jobwire.core.lease import DEFAULT_LEASE_SECONDS, Lease
from jobwire.core.override import override
from jobwire.core.topics import check_job_id
from jobwire.jobs.event import MAX_DETAIL
from jobwire.jobs.lifecycle import TERMINAL_STATUSES, Status

RECORD_VERSION = 1
MIN_TOKEN = 32
# `by` in a result that no event gave, beside its `timeout` where a limit did. Not in its data: those are a
# worker's words.
REGISTRY = "registry"
LIMITS = ("idle", "wall", "pending")
# Beside the lease in records of earlier versions: the seconds that stand in it now.
_LEASE_SECONDS = "lease_seconds"
_TIMESTAMP = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?Z")


class RecordFormatError(StorageError):
    """Bytes that are not a job record; `facts["field"]` names the first bad field."""


class RecordVersionError(RecordFormatError):
    """A record of a schema version that this program does not know; `facts["version"]`. Not damaged."""


class Priority(StrEnum):
    """The order of `pick`."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


class Timeouts(NamedTuple):
    """Limits in seconds; None is no limit."""

    idle_seconds: float | None = None
    wall_seconds: float | None = None
    pending_seconds: float | None = None


class JobRecord(NamedTuple):
    """One job as the registry knows it (SPEC section 5). Immutable; `_replace` makes the next one.

    `idle_since` is when something was last heard of it: its claim, its last event, the end of its last
    attempt. A renewed lease is nothing heard. `not_before`: a pending job that lost its lease rests until
    then.
    """

    job_id: str
    auth_token: str
    created_at: str
    updated_at: str
    status: Status = Status.PENDING
    attempt: int = 1
    agent_session: str | None = None
    title: str = ""
    instructions: str = ""
    started_at: str | None = None
    finished_at: str | None = None
    last_seq: int = 0
    attention: bool = False
    detail: str = ""
    result: Mapping[str, object] | None = None
    lease: Lease | None = None
    timeouts: Timeouts = Timeouts()
    priority: Priority = Priority.NORMAL
    idempotency_key: str | None = None
    broker: Mapping[str, str | int] = {}  # never changed in place
    attempt_seq: int = 0
    confirmed_seq: int = 0
    max_attempts: int | None = None
    previous_tokens: tuple[str, ...] = ()
    idle_since: str | None = None
    not_before: str | None = None
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


# A field beside the model's own: when a person dismissed a failure (RFC 3339 UTC). It survives as an unknown
# one, so that every version keeps it.
DISMISSED = "dismissed_at"


def dismissed_at(record: JobRecord) -> str | None:
    """Return when the failed job was dismissed: from then on it counts among the failures nowhere."""
    value = record.extra.get(DISMISSED)
    return value if isinstance(value, str) else None


# Never shown to people, pages or programs.
SECRET_FIELDS = frozenset({"auth_token", "previous_tokens"})


_encode = json.JSONEncoder(ensure_ascii=False).encode
_encode_text = json.encoder.encode_basestring


def encode_record(record: JobRecord) -> bytes:
    """Return the record as one JSON object, a line for each field, with a final line break.

    Raises InvalidInputError naming the field that `decode_record` would not read back: written, it would
    cost the whole job.
    """
    value = record._asdict()
    extra = value.pop("extra")
    value["lease"] = record.lease._asdict() if record.lease else None
    value["timeouts"] = record.timeouts._asdict()
    for name, reader in _READERS.items():
        _checked(name, reader, value[name], InvalidInputError)
    body = {"schema_version": RECORD_VERSION, **value, **{k: v for k, v in extra.items() if k not in value}}
    # One field a line, by hand: json's own indentation leaves its C encoder and takes ten times as long.
    fields = ",\n ".join([f"{_encode_text(name)}: {_encode_field(item)}" for name, item in body.items()])
    try:
        return f"{{\n {fields}\n}}\n".encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"job {record.job_id}: a text is not valid UTF-8") from error


def _encode_field(value: object) -> str:
    if value is None:
        return "null"
    # str(), because an enum's member is a str as well.
    return _encode_text(str(value)) if isinstance(value, str) else _encode(value)


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
            f"it is of schema version {version}, and this jobwire knows version {RECORD_VERSION}",
            hint="use the jobwire that wrote it, or a later one",
            field="schema_version",
            version=version,
        )
    if version != RECORD_VERSION:
        raise RecordFormatError(f"schema_version is not {RECORD_VERSION}", field="schema_version")
    return _read(body)


def _read(body: dict[str, Any]) -> JobRecord:
    fields: dict[str, Any] = {}
    for name, reader in _READERS.items():
        if name not in body:
            if name in _OPTIONAL:
                continue
            raise RecordFormatError(f"field {name} is missing", field=name)
        fields[name] = _checked(name, reader, body[name], RecordFormatError)
    extra = {name: value for name, value in body.items() if name not in _READERS and name != "schema_version"}
    beside = extra.pop(_LEASE_SECONDS, None)
    if fields["lease"] is not None and "seconds" not in body["lease"] and seconds_fit(beside):
        fields["lease"] = fields["lease"]._replace(seconds=beside)
    return JobRecord(**fields, extra=extra)


def _checked(name: str, reader: Callable[[Any], Any], value: object, refusal: type[JobwireError]) -> Any:
    try:
        return reader(value)
    except Exception as error:  # whatever a reader raises, the field is bad
        raise refusal(f"field {name} is not valid", field=name) from error


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _text_within(limit: int) -> Callable[[object], str]:
    def read(value: object) -> str:
        if len(_text(value)) > limit:
            raise ValueError
        return _text(value)

    return read


def _detail(value: object) -> str:
    # Earlier versions wrote reasons of any length.
    return _text(value)[:MAX_DETAIL]


def _timestamp(value: object) -> str:
    if not _TIMESTAMP.fullmatch(_text(value)):
        raise ValueError
    return _text(value)


def _count(minimum: int) -> Callable[[object], int]:
    def read(value: object) -> int:
        if type(value) is not int or not minimum <= value <= MAX_INTEGER:
            raise ValueError
        return value

    return read


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError
    return value


def _token(value: object) -> str:
    if len(_text(value)) < MIN_TOKEN:
        raise ValueError
    return _text(value)


def _seconds(value: object) -> float:
    if not seconds_fit(value):
        raise ValueError
    return value  # type: ignore[return-value]  # a number by now


def _lease(value: object) -> Lease:
    body = _object(value)
    seconds = _seconds(body.get("seconds", DEFAULT_LEASE_SECONDS))
    # Likewise names.
    return Lease(_text(body["owner"])[:MAX_NAME], _timestamp(body["expires_at"]), seconds)


def _timeouts(value: object) -> Timeouts:
    body = _object(value)
    return Timeouts(*(_optional(_seconds)(body.get(name)) for name in Timeouts._fields))


def _tokens(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise TypeError
    return tuple(_text(item) for item in value)


def _broker(value: object) -> dict[str, str | int]:
    body = _object(value)
    for item in body.values():
        if type(item) not in (str, int):
            raise TypeError
    return body


def _optional(reader: Callable[[Any], Any]) -> Callable[[object], Any]:
    return lambda value: None if value is None else reader(value)


_READERS: dict[str, Callable[[Any], Any]] = {
    "job_id": check_job_id,
    "auth_token": _token,
    "created_at": _timestamp,
    "updated_at": _timestamp,
    "status": Status,
    "attempt": _count(1),
    "agent_session": _optional(_text_within(MAX_NAME)),
    "title": _text_within(MAX_TITLE),
    "instructions": _text_within(MAX_INSTRUCTIONS),
    "started_at": _optional(_timestamp),
    "finished_at": _optional(_timestamp),
    "last_seq": _count(0),
    "attention": _flag,
    "detail": _detail,
    "result": _optional(_object),
    "lease": _optional(_lease),
    "timeouts": _timeouts,
    "priority": Priority,
    "idempotency_key": _optional(_text_within(MAX_KEY)),
    "broker": _broker,
    "attempt_seq": _count(0),
    "confirmed_seq": _count(0),
    "max_attempts": _optional(_count(1)),
    "previous_tokens": _tokens,
    "idle_since": _optional(_timestamp),
    "not_before": _optional(_timestamp),
}
_OPTIONAL = frozenset(
    {"attempt_seq", "confirmed_seq", "max_attempts", "previous_tokens", "idle_since", "not_before"}
)


def ended_by_event(record: JobRecord) -> bool:
    """Tell whether a worker's event ended the job, and not the registry (cancelled, timed out)."""
    if record.status not in {Status.COMPLETED, Status.ERROR} or record.result is None:
        return False
    return record.result.get("by") != REGISTRY
