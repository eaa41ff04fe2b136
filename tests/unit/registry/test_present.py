"""Records for people: nothing that a terminal obeys, nothing that wraps."""

import pytest

from jobwire.core.lease import Lease
from jobwire.jobs.record import JobRecord
from jobwire.registry.present import age, facts, list_row

STAMP = "2026-01-01T00:00:00.000Z"
NOW = 1_767_225_600.0


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0s"), (59, "59s"), (60, "1m00s"), (3_661, "1h01m"), (90_000, "1d01h"), (-5, "0s")],
)
def test_age(seconds: int, words: str) -> None:
    """Ages are two units; the future is now."""
    assert age(STAMP, NOW + seconds) == words


def test_age_of_nothing() -> None:
    """A missing or impossible time does not stop the table."""
    assert (age(None, NOW), age("2026-02-30T00:00:00Z", NOW)) == ("-", "?")


def test_resting_job() -> None:
    """A job that rests after a lost lease says for how long, in the list and on its page."""
    record = JobRecord("1a2b3c4d", "t" * 43, STAMP, STAMP, not_before="2026-01-01T00:00:40.000Z")
    assert list_row(record, NOW)[1] == "pending, in 40s"
    assert "not before   2026-01-01T00:00:40.000Z (in 40s)" in facts(record, NOW)
    assert list_row(record, NOW + 40)[1] == "pending"


def test_facts_hide_secrets() -> None:
    """The page about a job shows neither token nor password."""
    record = JobRecord(
        "1a2b3c4d",
        "token" * 10,
        STAMP,
        STAMP,
        title="\x1b]0;title\a",
        instructions="first\nsecond",
        lease=Lease("me", STAMP),
        attention=True,
        broker={"password": "hunter2"},
        previous_tokens=("older" * 10,),
    )
    text = facts(record, NOW)
    assert "tokentoken" not in text
    assert "olderolder" not in text
    assert "hunter2" not in text
    assert "\x1b" not in text
    assert "waits for you" in text
    assert list_row(record, NOW)[1] == "waits for you"
