"""The ticket of an agent on another host: who it is, its key, where the broker is. A secret, mode 0600."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, NamedTuple

from jobwire.core.canonical import JsonShapeError
from jobwire.core.errors import InvalidInputError, NotFoundError
from jobwire.core.fields import read_fields, rules_of, settings, text
from jobwire.core.override import override
from jobwire.core.strict_json import decode_object
from jobwire.core.topics import check_agent
from jobwire.delivery.ticket_files import MAX_TICKET
from jobwire.jobs.ticket import BROKER_KEYS, TicketError, check_way
from jobwire.storage.named_files import read_named_file

TICKET_VERSION = 1
KIND = "agent"
_MIN_KEY = 32
_HINT = "`jobwire agent ticket NAME` writes a new one"


class AgentTicket(NamedTuple):
    """Who may speak, with which key, and where; `broker` as in a job's ticket."""

    agent: Annotated[str, text(64, least=1)]
    key: Annotated[str, text(1024, least=_MIN_KEY)]
    broker: Annotated[Mapping[str, str | int], settings(BROKER_KEYS)]
    topic_root: Annotated[str, text()]

    @override
    def __repr__(self) -> str:
        # Keys must not reach logs or tracebacks.
        return f"AgentTicket({self.agent})"


_RULES = rules_of(AgentTicket)


def encode_agent_ticket(ticket: AgentTicket) -> bytes:
    """Return the ticket as one indented JSON object."""
    body = {"schema_version": TICKET_VERSION, "kind": KIND, **ticket._asdict()}
    return (json.dumps(body, indent=1, ensure_ascii=False) + "\n").encode()


def decode_agent_ticket(payload: bytes) -> AgentTicket:
    """Return the ticket in `payload`; raises TicketError naming the first bad field, never its value."""
    try:
        body = decode_object(payload)
    except JsonShapeError as error:
        raise TicketError(f"not a ticket: {error.message}", hint=_HINT, field="") from error
    if body.get("schema_version") != TICKET_VERSION or body.get("kind") != KIND:
        raise _refused("kind", "is not that of an agent's ticket of this version")
    ticket = AgentTicket(**read_fields(body, _RULES, _refused, optional=()))
    try:
        check_agent(ticket.agent)
    except InvalidInputError as error:
        raise _refused("agent", "is not valid") from error
    check_way(ticket.topic_root, ticket.broker, _refused)
    return ticket


def read_agent_ticket(path: Path) -> AgentTicket:
    """Return the ticket in `path`; raises NotFoundError, ConfigError for one open to others or none."""
    try:
        payload = read_named_file(path, "ticket", limit=MAX_TICKET, private=True, hint=_HINT)
    except FileNotFoundError as error:
        raise NotFoundError(f"no ticket {path}", hint=_HINT) from error
    return decode_agent_ticket(payload)


def _refused(name: str, cause: str) -> TicketError:
    return TicketError(f"the ticket's {name} {cause}", hint=_HINT, field=name)
