"""After an error of the model's service: whether it is tried again, when, and how often."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.core.clock import utc_timestamp
from jobwire.hooks.policy import Policy
from jobwire.hooks.turn_end import MAX_RETRY_SECONDS, RETRY_WINDOW_SECONDS, Retry, next_retry
from jobwire.jobs.request_form import RequestKind
from jobwire.jobs.requests import Request

NOW = 1_800_000_000.0


def errors(count: int, *, before: float = 60.0, kind: RequestKind = RequestKind.ERROR) -> list[Request]:
    """Return so many requests that were asked a while ago."""
    asked = utc_timestamp(NOW - before)
    return [Request(f"r{number}", kind, "x", number + 1, 1, asked) for number in range(count)]


def test_each_try_waits_twice_as_long_up_to_a_limit() -> None:
    """30, 60, 120 s, then a person."""
    tries = [next_retry("overloaded", errors(count), Policy(), NOW) for count in range(4)]
    assert tries == [Retry(1, 3, 30.0), Retry(2, 3, 60.0), Retry(3, 3, 120.0), None]


@pytest.mark.parametrize("error", ["authentication_failed", "billing_error", "invalid_request", "", "new"])
def test_what_waiting_does_not_help_is_a_persons(error: str) -> None:
    """Only errors that may be over in a while are tried again."""
    assert next_retry(error, [], Policy(), NOW) is None


def test_what_else_was_asked_and_what_is_long_ago_does_not_count() -> None:
    """Only errors of the last hours."""
    others = errors(20, kind=RequestKind.PERMISSION) + errors(20, before=RETRY_WINDOW_SECONDS + 1)
    assert next_retry("overloaded", others, Policy(), NOW) == Retry(1, 3, 30.0)


@given(st.integers(0, 20), st.integers(0, 32), st.floats(1, 900))
def test_it_ends_and_never_waits_too_long(limit: int, earlier: int, seconds: float) -> None:
    """Whatever the policy: as many tries as it says, each within a quarter of an hour."""
    found = next_retry("server_error", errors(earlier), Policy(retries=limit, retry_seconds=seconds), NOW)
    assert (found is not None) == (earlier < limit)
    assert found is None or seconds <= found.seconds <= MAX_RETRY_SECONDS
