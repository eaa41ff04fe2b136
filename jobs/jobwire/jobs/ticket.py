"""The ticket: everything a worker on another host needs to speak for one attempt of one job.

Decoded by hand and not by pydantic, because `publish_event --ticket` reads it at every start.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from jobwire.core.bounds import seconds_fit
from jobwire.core.canonical import MAX_INTEGER, JsonShapeError
from jobwire.core.errors import ConfigError, InvalidInputError
from jobwire.core.override import override
from jobwire.core.settings import KEYS
from jobwire.core.strict_json import decode_object
from jobwire.core.topics import Topics, check_job_id
from jobwire.jobs.record import MIN_TOKEN, JobRecord, Timeouts

TICKET_VERSION = 1
# What a host that shares no file with the registry gets as text instead of as a path.
INLINE_FILES = {"ca_certs_pem": "ca_certs", "certfile_pem": "certfile", "keyfile_pem": "keyfile"}
BROKER_KEYS = (KEYS - {"topic_root"}) | set(INLINE_FILES)


class TicketError(ConfigError):
    """Bytes that are not a ticket; `facts["field"]` names the first bad field."""


class Ticket(NamedTuple):
    """Who may speak (token and attempt), where (broker, topic root), and from which seq on.

    `broker` holds settings as in jobwire.toml and INLINE_FILES as PEM text. `last_seq` and
    `attempt_seq` are the record's when the ticket was written: the worker counts on from there.
    """

    job_id: str
    auth_token: str
    attempt: int
    broker: Mapping[str, str | int]
    topic_root: str
    timeouts: Timeouts = Timeouts()
    last_seq: int = 0
    attempt_seq: int = 0

    @override
    def __repr__(self) -> str:
        # Token, password and key must not reach logs or tracebacks.
        return f"Ticket({self.job_id}, attempt={self.attempt}, last_seq={self.last_seq})"


def ticket_for(record: JobRecord, *, broker: Mapping[str, str | int], topic_root: str) -> Ticket:
    """Return the ticket of the present attempt of `record`."""
    return Ticket(
        job_id=record.job_id,
        auth_token=record.auth_token,
        attempt=record.attempt,
        broker=dict(broker),
        topic_root=topic_root,
        timeouts=record.timeouts,
        last_seq=record.last_seq,
        attempt_seq=record.attempt_seq,
    )


def encode_ticket(ticket: Ticket) -> bytes:
    """Return the ticket as one indented JSON object; for a 0600 file, it is a secret."""
    body = {"schema_version": TICKET_VERSION, **ticket._asdict(), "timeouts": ticket.timeouts._asdict()}
    return (json.dumps(body, indent=1, ensure_ascii=False) + "\n").encode()


def decode_ticket(payload: bytes) -> Ticket:
    """Return the ticket in `payload`; raises TicketError naming the first bad field, never its value.

    Unknown top-level fields are ignored: a newer registry may write them.
    """
    try:
        body = decode_object(payload)
    except JsonShapeError as error:
        raise TicketError(f"not a ticket: {error.message}", hint=_HINT, field="") from error
    if body.get("schema_version") != TICKET_VERSION:
        raise TicketError(
            f"the ticket's schema_version is not {TICKET_VERSION}", hint=_HINT, field="schema_version"
        )
    fields: dict[str, Any] = {}
    for name, reader in _READERS.items():
        if name not in body:
            if name in Ticket._field_defaults:
                continue
            raise TicketError(f"the ticket has no {name}", hint=_HINT, field=name)
        try:
            fields[name] = reader(body[name])
        except (TypeError, ValueError, InvalidInputError) as error:
            raise TicketError(f"the ticket's {name} is not valid", hint=_HINT, field=name) from error
    return Ticket(**fields)


_HINT = "`jobwire registry ticket JOB` writes a new one"


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _job_id(value: object) -> str:
    return check_job_id(_text(value))


def _token(value: object) -> str:
    if len(_text(value)) < MIN_TOKEN:
        raise ValueError
    return _text(value)


def _count(minimum: int) -> Callable[[object], int]:
    def read(value: object) -> int:
        if type(value) is not int or not minimum <= value <= MAX_INTEGER:
            raise ValueError
        return value

    return read


def _broker(value: object) -> dict[str, str | int]:
    if not isinstance(value, dict):
        raise TypeError
    for key, item in value.items():
        if key not in BROKER_KEYS or type(item) not in (str, int):
            raise ValueError
    for inline, plain in INLINE_FILES.items():
        # Two answers to one question; and an inline key without its certificate proves nothing.
        if inline in value and plain in value:
            raise ValueError
    if ("certfile_pem" in value) != ("keyfile_pem" in value):
        raise ValueError
    return value


def _topic_root(value: object) -> str:
    return Topics(_text(value)).root


def _seconds(value: object) -> float | None:
    if value is None:
        return None
    if not seconds_fit(value):
        raise ValueError
    return value  # type: ignore[return-value]  # a number by now


def _timeouts(value: object) -> Timeouts:
    if not isinstance(value, dict):
        raise TypeError
    return Timeouts(*(_seconds(value.get(name)) for name in Timeouts._fields))


_READERS: dict[str, Callable[[object], Any]] = {
    "job_id": _job_id,
    "auth_token": _token,
    "attempt": _count(1),
    "broker": _broker,
    "topic_root": _topic_root,
    "timeouts": _timeouts,
    "last_seq": _count(0),
    "attempt_seq": _count(0),
}
