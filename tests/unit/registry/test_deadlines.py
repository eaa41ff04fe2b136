"""When a job is due and what becomes of it."""

import pytest

from jobwire.core.clock import utc_timestamp
from jobwire.core.fold import LeaseGrant, cancel, claim, next_attempt
from jobwire.core.lifecycle import Status
from jobwire.core.record import JobRecord, Timeouts
from jobwire.registry.deadlines import epoch, next_due, overdue

NOW = 1_767_225_600.0
TOKEN = "n" * 43


def _job(**limits: float) -> JobRecord:
    stamp = utc_timestamp(NOW)
    return JobRecord("1a2b3c4d", "t" * 43, stamp, stamp, timeouts=Timeouts(**limits))


def _after(record: JobRecord, seconds: float) -> tuple[JobRecord, str] | None:
    return overdue(record, NOW + seconds, until=NOW + seconds, new_token=lambda: TOKEN)


def test_epoch_reads_our_stamps() -> None:
    """Stamps come back as the seconds that they were made from."""
    assert epoch(utc_timestamp(NOW + 0.125)) == NOW + 0.125


def test_nothing_is_due_without_limits() -> None:
    """A pending job without a limit waits for ever; so does a running one without a lease."""
    assert next_due(_job()) is None
    assert next_due(_job()._replace(status=Status.RUNNING)) is None


def test_pending_timeout_cancels() -> None:
    """A job nobody picked is cancelled at its limit, not before."""
    job = _job(pending_seconds=60)
    assert next_due(job) == NOW + 60
    assert _after(job, 59.9) is None
    moved = _after(job, 60)
    assert moved is not None
    assert moved[0].status is Status.CANCELLED
    assert "pending timeout" in moved[1]


def test_pending_timeout_starts_again_with_the_attempt() -> None:
    """A job that came back waits its full time again."""
    job = claim(_job(pending_seconds=60), LeaseGrant("me", 10), NOW)
    again = next_attempt(job, TOKEN, NOW + 50, "lease")
    assert next_due(again) == NOW + 110


def test_lease_end_makes_the_next_attempt() -> None:
    """A claim without a sign of life ends: new attempt, new token, pending."""
    job = claim(_job(), LeaseGrant("me", 10), NOW)
    assert next_due(job) == NOW + 10
    assert _after(job, 9.9) is None
    moved = _after(job, 10)
    assert moved is not None
    assert (moved[0].status, moved[0].attempt, moved[0].auth_token) == (Status.PENDING, 2, TOKEN)
    assert moved[0].previous_tokens == ("t" * 43,)


def test_last_attempt_ends_in_error() -> None:
    """The lease of the last allowed attempt ends the job with the reason."""
    job = claim(_job()._replace(max_attempts=1), LeaseGrant("me", 10), NOW)
    moved = _after(job, 10)
    assert moved is not None
    assert moved[0].status is Status.ERROR
    assert "1 attempts are the limit" in moved[1]


def test_wall_timeout_is_an_error() -> None:
    """A job that runs past its wall limit ends in error, whatever its lease says."""
    job = claim(_job(wall_seconds=100), LeaseGrant("me", 1000), NOW)
    assert next_due(job) == NOW + 100
    moved = _after(job, 100)
    assert moved is not None
    assert moved[0].status is Status.ERROR
    assert "wall timeout" in moved[1]


def test_finished_jobs_are_never_due() -> None:
    """A finished job has no limit left."""
    job = cancel(_job(pending_seconds=1, wall_seconds=1), NOW, "no")
    assert next_due(job) is None
    assert _after(job, 1e9) is None


@pytest.mark.parametrize("stamp", ["2026-02-30T00:00:00Z", "2026-13-01T00:00:00.000Z"])
def test_impossible_dates_are_never_due(stamp: str) -> None:
    """A date that the calendar does not have stops nobody."""
    assert next_due(_job(pending_seconds=1)._replace(created_at=stamp)) is None
