"""The ticket: everything a worker on another host needs to speak for one attempt of one job.

Decoded without pydantic, because `publish_event --ticket` reads it at every start.
"""

import json
from collections.abc import Callable, Mapping
from typing import Annotated, NamedTuple

from jobwire.core.canonical import JsonShapeError
from jobwire.core.errors import ConfigError, InvalidInputError
from jobwire.core.fields import JOB_ID, count, nested, read_fields, rules_of, settings, text
from jobwire.core.override import override
from jobwire.core.setting_tables import BROKER
from jobwire.core.strict_json import decode_object
from jobwire.core.topics import Topics
from jobwire.jobs.record import MIN_TOKEN, JobRecord, Timeouts

TICKET_VERSION = 1
# What a host that shares no file with the registry gets as text instead of as a path.
INLINE_FILES = {"ca_certs_pem": "ca_certs", "certfile_pem": "certfile", "keyfile_pem": "keyfile"}
BROKER_KEYS = (BROKER.keys() - {"topic_root"}) | set(INLINE_FILES)


class TicketError(ConfigError):
    """Bytes that are not a ticket; `facts["field"]` names the first bad field."""


class Ticket(NamedTuple):
    """Who may speak (token and attempt), where (broker, topic root), and from which seq on.

    `broker` holds settings as in jobwire.toml and INLINE_FILES as PEM text. `last_seq` and
    `attempt_seq` are the record's when the ticket was written: the worker counts on from there.
    """

    job_id: Annotated[str, JOB_ID]
    auth_token: Annotated[str, text(least=MIN_TOKEN)]
    attempt: Annotated[int, count(1)]
    broker: Annotated[Mapping[str, str | int], settings(BROKER_KEYS)]
    topic_root: Annotated[str, text()]
    timeouts: Annotated[Timeouts, nested(Timeouts, "limits in seconds; null is no limit")] = Timeouts()
    last_seq: Annotated[int, count(0)] = 0
    attempt_seq: Annotated[int, count(0)] = 0

    @override
    def __repr__(self) -> str:
        # Token, password and key must not reach logs or tracebacks.
        return f"Ticket({self.job_id}, attempt={self.attempt}, last_seq={self.last_seq})"


_FIELDS = rules_of(Ticket)
_HINT = "`jobwire registry ticket JOB` writes a new one"


def ticket_for(record: JobRecord, *, broker: Mapping[str, str | int], topic_root: str) -> Ticket:
    """Return the ticket of the present attempt of `record`."""
    own = {name: getattr(record, name) for name in _FIELDS if name not in {"broker", "topic_root"}}
    return Ticket(broker=dict(broker), topic_root=topic_root, **own)


def encode_ticket(ticket: Ticket) -> bytes:
    """Return the ticket as one indented JSON object; for a 0600 file, it is a secret."""
    body = {"schema_version": TICKET_VERSION, **ticket._asdict(), "timeouts": ticket.timeouts._asdict()}
    return (json.dumps(body, indent=1, ensure_ascii=False) + "\n").encode()


_OF_AGENT = "agent"
_AGENTS_HINT = "an agent asks by `inbox update --status blocked`, and hears by `inbox wait-reply`"


def decode_ticket(payload: bytes) -> Ticket:
    """Return the ticket in `payload`; raises TicketError naming the first bad field, never its value.

    Unknown top-level fields are ignored: a newer registry may write them.
    """
    try:
        body = decode_object(payload)
    except JsonShapeError as error:
        raise TicketError(f"not a ticket: {error.message}", hint=_HINT, field="") from error
    if body.get("schema_version") != TICKET_VERSION:
        raise _refused("schema_version", f"is not {TICKET_VERSION}")
    if body.get("kind") == _OF_AGENT:
        raise TicketError("this is the ticket of an agent, not of a job", hint=_AGENTS_HINT, field="kind")
    ticket = Ticket(**read_fields(body, _FIELDS, _refused, optional=Ticket._field_defaults))
    check_way(ticket.topic_root, ticket.broker, _refused)
    return ticket


def check_way(
    topic_root: str, broker: Mapping[str, str | int], refused: Callable[[str, str], TicketError]
) -> None:
    """Raise what `refused` returns for a field where a ticket's way to the broker is none."""
    try:
        Topics(topic_root)
    except InvalidInputError as error:
        raise refused("topic_root", "is not valid") from error
    if wrong := _misfit_of_broker(broker):
        raise refused("broker", wrong)


def _misfit_of_broker(broker: Mapping[str, str | int]) -> str:
    """Say what is wrong with a ticket's settings; "" where nothing is."""
    given = broker.keys()
    # Two answers to one question; and an inline key without its certificate proves nothing.
    if any({inline, plain} <= given for inline, plain in INLINE_FILES.items()):
        return "names a file twice, as a path and as its text"
    if ("certfile_pem" in given) != ("keyfile_pem" in given):
        return "has a certificate without its key, or the key alone"
    return ""


def _refused(name: str, cause: str) -> TicketError:
    return TicketError(f"the ticket's {name} {cause}", hint=_HINT, field=name)
