"""The ticket: what is written is read back, and nothing else is taken for one."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.jobs.record import JobRecord, Timeouts
from jobwire.jobs.ticket import Ticket, TicketError, decode_ticket, encode_ticket, ticket_for

TOKEN = "t" * 43
VALID = Ticket(
    "0a1b2c3d", TOKEN, 2, {"broker": "bus.example", "port": 8883}, "python/mqtt/jobs", Timeouts(60.0), 7, 3
)

_seconds = st.none() | st.floats(min_value=0.001, max_value=1e9, allow_nan=False)
_tickets = st.builds(
    Ticket,
    job_id=st.from_regex(r"[0-9a-f]{8}", fullmatch=True),
    auth_token=st.text(st.characters(codec="utf-8"), min_size=32, max_size=64),
    attempt=st.integers(1, 2**53 - 1),
    broker=st.fixed_dictionaries(
        {},
        optional={
            "broker": st.text(st.characters(codec="utf-8")),
            "port": st.integers(1, 65535),
            "password": st.text(st.characters(codec="utf-8")),
            "ca_certs_pem": st.text(st.characters(codec="utf-8")),
        },
    ),
    topic_root=st.from_regex(r"[a-z]{1,8}(/[a-z]{1,8}){0,2}", fullmatch=True),
    timeouts=st.builds(Timeouts, _seconds, _seconds, _seconds),
    last_seq=st.integers(0, 2**53 - 1),
    attempt_seq=st.integers(0, 2**53 - 1),
)


@given(_tickets)
def test_round_trip(ticket: Ticket) -> None:
    """A ticket survives encoding and decoding unchanged."""
    assert decode_ticket(encode_ticket(ticket)) == ticket


@given(st.binary(max_size=200))
def test_any_bytes_are_a_ticket_or_a_ticket_error(payload: bytes) -> None:
    """Whatever the file holds, the answer is a ticket or a TicketError."""
    with pytest.raises(TicketError):
        decode_ticket(payload)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"schema_version": 2}, "schema_version"),
        ({"job_id": "../../etc"}, "job_id"),
        ({"job_id": None}, "job_id"),
        ({"auth_token": "short"}, "auth_token"),
        ({"attempt": 0}, "attempt"),
        ({"attempt": True}, "attempt"),
        ({"broker": []}, "broker"),
        ({"broker": {"brocker": "x"}}, "broker"),
        ({"broker": {"topic_root": "x"}}, "broker"),
        ({"broker": {"port": 1.5}}, "broker"),
        ({"broker": {"ca_certs": "a.pem", "ca_certs_pem": "x"}}, "broker"),
        ({"broker": {"keyfile_pem": "x"}}, "broker"),
        ({"topic_root": "jobs/#"}, "topic_root"),
        ({"timeouts": {"idle_seconds": -1}}, "timeouts"),
        ({"timeouts": {"idle_seconds": True}}, "timeouts"),
        ({"last_seq": -1}, "last_seq"),
    ],
)
def test_a_bad_field_is_named_without_its_value(change: dict[str, Any], field: str) -> None:
    """A damaged ticket is refused, naming the field."""
    body = json.loads(encode_ticket(VALID)) | change
    with pytest.raises(TicketError) as refused:
        decode_ticket(json.dumps(body).encode())
    assert refused.value.facts["field"] == field
    assert TOKEN not in str(refused.value)


@pytest.mark.parametrize("field", ["job_id", "auth_token", "attempt", "broker", "topic_root"])
def test_a_missing_field_is_named(field: str) -> None:
    """A ticket without a required field is refused, naming it."""
    body = json.loads(encode_ticket(VALID))
    del body[field]
    with pytest.raises(TicketError) as refused:
        decode_ticket(json.dumps(body).encode())
    assert refused.value.facts["field"] == field


def test_an_unknown_field_is_ignored() -> None:
    """A ticket of a newer registry is still readable."""
    body = json.loads(encode_ticket(VALID)) | {"colour": "blue"}
    assert decode_ticket(json.dumps(body).encode()) == VALID


def test_secrets_do_not_print() -> None:
    """Neither token nor password nor key shows in a ticket's repr."""
    ticket = VALID._replace(broker={"password": "hunter2hunter2", "keyfile_pem": "PEM", "certfile_pem": "C"})
    assert TOKEN not in repr(ticket)
    assert "hunter2" not in f"{ticket!r} {ticket}"


def test_a_ticket_continues_the_record() -> None:
    """A ticket counts on from where its record stands."""
    record = JobRecord(
        "0a1b2c3d",
        TOKEN,
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:00Z",
        attempt=3,
        last_seq=9,
        attempt_seq=8,
        timeouts=Timeouts(5, 6, 7),
    )
    ticket = ticket_for(record, broker={"port": 1}, topic_root="r")
    assert (ticket.attempt, ticket.last_seq, ticket.attempt_seq) == (3, 9, 8)
    assert ticket.timeouts == Timeouts(5, 6, 7)
