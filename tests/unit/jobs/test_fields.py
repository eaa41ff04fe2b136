"""What an event has to be, and what a refused one is told."""

import datetime as dt
import hashlib
import hmac

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from jobwire.core.signature import sign_bytes, verify_bytes
from jobwire.jobs.event import bad_field
from jobwire.jobs.models import EventModel

odd = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2**53),
    st.floats(),
    st.text(max_size=4),
    st.just([]),
    st.just({}),
    st.sampled_from(["started", "0000abcd", "0000abcd\n", "0000ABCD", "x" * 1024, "x" * 1025]),
)
stamps = st.from_regex(
    r"\A[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-6][0-9]:[0-6][0-9](\.[0-9]{0,10})?Z?\n?\Z"
)
bodies: st.SearchStrategy[dict[str, object]] = st.fixed_dictionaries(
    {
        "schema_version": st.just(1) | odd,
        "seq": st.integers(0, 2**53) | odd,
        "job_id": st.just("0000abcd") | odd,
        "event": st.sampled_from(["started", "progress", "permission_required", "completed", "error"]) | odd,
        "timestamp": stamps | odd,
        "detail": st.text(max_size=8) | odd,
        "data": st.just({}) | odd,
    },
    optional={"extra": odd},
)
GOOD: dict[str, object] = {
    "schema_version": 1,
    "seq": 1,
    "job_id": "0000abcd",
    "event": "progress",
    "timestamp": "2026-01-02T03:04:05.678Z",
    "detail": "",
    "data": {},
}


@given(bodies)
@example(GOOD)
@example({**GOOD, "timestamp": "2026-02-29T03:04:05Z"})
@example({**GOOD, "timestamp": "2026-02-28T24:00:00Z"})
@example({**GOOD, "timestamp": "2026-02-28T23:59:60Z"})
@example({**GOOD, "timestamp": "0000-02-28T23:59:59Z"})
@example({**GOOD, "timestamp": "2026-02-28T23:59:59Z\n"})
@example({**GOOD, "detail": "\U0001f600" * 1024})
@example({**GOOD, "event": ["started"]})
def test_equal_to_the_model(body: dict[str, object]) -> None:
    """Whatever an object holds, the check by hand and the model agree, and a refusal names a field."""
    try:
        EventModel.model_validate(body)
        modelled = True
    except ValidationError:
        modelled = False
    assert (not bad_field(body)) == modelled


@given(st.data())
def test_a_missing_field_is_named(data: st.DataObject) -> None:
    """Every field is required, and the refusal says which one is not there."""
    name = data.draw(st.sampled_from(sorted(GOOD)))
    body = {key: value for key, value in GOOD.items() if key != name}
    assert bad_field(body) == f"{name}: missing"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seq": 0}, "seq: not a whole number from 1 to 9007199254740991"),
        ({"detail": "x" * 1025}, "detail: not a text of at most 1024 characters"),
        ({"event": "done"}, "event: not one of started, progress, permission_required, completed, error"),
        ({"timestamp": "yesterday"}, "timestamp: not a time in UTC, as in 2026-01-31T12:00:00Z"),
        ({"colour": "blue"}, "an unknown key"),
    ],
)
def test_a_refusal_names_the_field_and_what_it_takes(change: dict[str, object], said: str) -> None:
    """Who wrote the event can mend it by the reason alone; the bad value is not repeated."""
    assert bad_field({**GOOD, **change}) == said


@given(st.integers(0, 9999), st.integers(0, 13), st.integers(0, 32))
@example(2024, 2, 29)
@example(1900, 2, 29)
@example(2000, 2, 29)
def test_a_time_is_on_a_day_of_the_calendar(year: int, month: int, day: int) -> None:
    """Exactly the dates that the standard library knows are accepted, leap days among them."""
    try:
        known = bool(dt.date(year, month, day))
    except ValueError:
        known = False
    stamp = f"{year:04}-{month:02}-{day:02}T00:00:00Z"
    assert (not bad_field({**GOOD, "timestamp": stamp})) == known


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200), st.binary())
def test_prepared_keys_give_the_standard_mac(token: str, message: bytes) -> None:
    """Verification with prepared key blocks is HMAC-SHA256 for keys of every length."""
    expected = hmac.new(token.encode(), message, hashlib.sha256).hexdigest()
    assert sign_bytes(message, token) == expected
    assert verify_bytes(message, expected, token)
    assert not verify_bytes(message, expected.upper(), token) or expected == expected.upper()
    assert not verify_bytes(message + b"x", expected, token)


@given(st.one_of(st.none(), st.integers(), st.text(max_size=70), st.text(min_size=64, max_size=64)))
def test_anything_may_stand_where_a_signature_is_expected(signature: object) -> None:
    """No value in the signature's place raises; none but the right one verifies."""
    assert not verify_bytes(b"message", signature, "token")
