"""When a job is due and what becomes of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.core.clock import epoch, utc_timestamp
from jobwire.core.lease import LeaseGrant
from jobwire.jobs.event import Event
from jobwire.jobs.fold import apply_event, cancel, claim, next_attempt, renew
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import JobRecord, Timeouts
from jobwire.registry.deadlines import next_due, overdue

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
    assert moved[0].timed_out == "pending"


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
    assert moved[0].not_before == utc_timestamp(NOW + 15)


def test_the_pending_limit_begins_after_the_rest() -> None:
    """While a job may not be picked, nobody is late to pick it."""
    moved = _after(claim(_job(pending_seconds=3), LeaseGrant("me", 10), NOW), 10)
    assert moved is not None
    assert next_due(moved[0]) == NOW + 10 + 5 + 3


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
    assert moved[0].timed_out == "wall"


def test_finished_jobs_are_never_due() -> None:
    """A finished job has no limit left."""
    job = cancel(_job(pending_seconds=1, wall_seconds=1), NOW, "no")
    assert next_due(job) is None
    assert _after(job, 1e9) is None


def _running(lease: float = 1000, **limits: float) -> JobRecord:
    return claim(_job(**limits), LeaseGrant("me", lease), NOW)


def _says(record: JobRecord, kind: str, seconds: float) -> JobRecord:
    event = Event(record.last_seq + 1, record.job_id, kind, record.created_at, "", {})
    return apply_event(record, event, NOW + seconds)


def test_idle_timeout_is_an_error() -> None:
    """A running job of which nothing was heard for its idle limit ends in error, saying so."""
    job = _says(_running(idle_seconds=60), "started", 10)
    assert next_due(job) == NOW + 70
    assert _after(job, 69.9) is None
    moved = _after(job, 70)
    assert moved is not None
    assert (moved[0].status, moved[1]) == (Status.ERROR, "idle timeout: no event for 60 s")
    assert moved[0].timed_out == "idle"


def test_a_renewal_is_no_event() -> None:
    """A worker that renews its lease and says nothing is idle; one that never spoke is, from its claim on."""
    job = renew(_running(idle_seconds=60), LeaseGrant("me", 1000), NOW + 50)
    assert next_due(job) == NOW + 60


def test_a_question_pauses_the_idle_limit() -> None:
    """While a job asks for permission it is not idle; the answer starts the time again."""
    asking = _says(_says(_running(idle_seconds=60, lease=5000), "started", 0), "permission_required", 10)
    assert _after(asking, 4999) is None
    answered = _says(asking, "progress", 4000)
    assert next_due(answered) == NOW + 4060


def test_a_person_may_sleep_over_a_question() -> None:
    """The lease of a job that asks is believed for a day longer: its worker may be unable to do anything."""
    asking = _says(_says(_job(), "started", 0), "permission_required", 10)
    assert next_due(asking) == NOW + 10 + 3600 + 86400
    assert _after(asking, 86400) is None
    moved = _after(asking, 10 + 3600 + 86400)
    assert moved is not None
    assert moved[0].status is Status.PENDING


def test_the_first_limit_speaks() -> None:
    """Of several limits that were passed unseen, the one that was reached first decides."""
    lost = _says(_running(lease=30, idle_seconds=60, wall_seconds=90), "started", 0)
    moved = _after(lost, 500)
    assert moved is not None
    assert moved[0].status is Status.PENDING
    idle = _says(_running(lease=3000, idle_seconds=60, wall_seconds=90), "started", 0)
    moved = _after(idle, 500)
    assert moved is not None
    assert moved[0].timed_out == "idle"


def test_idle_speaks_before_an_unasked_lease() -> None:
    """A worker that started without a pick and fell silent ends by the job's idle limit, however long."""
    for idle in (3.0, 3600.0, 100_000.0):
        moved = _after(_says(_job(idle_seconds=idle), "started", 0), idle)
        assert moved is not None
        assert moved[0].timed_out == "idle"


_limit = st.none() | st.floats(0.001, 1e5)


@given(
    st.sampled_from(["started", "progress", "permission_required"]),
    st.integers(0, 100_000),
    _limit,
    st.builds(Timeouts, _limit, _limit, _limit),
)
def test_what_is_due_is_overdue(kind: str, at_ms: int, granted: float | None, limits: Timeouts) -> None:
    """At the time that `next_due` names, `overdue` has something to say, and never before."""
    job = _job()._replace(timeouts=limits)
    if granted is not None:
        job = claim(job, LeaseGrant("me", granted), NOW)
    if granted is not None or kind == "started":
        job = _says(job, "started", 0)
    if job.status is Status.RUNNING and kind != "started":
        job = _says(job, kind, at_ms / 1000)
    due = next_due(job)
    if due is None:
        assert _after(job, 1e9) is None
        return
    assert overdue(job, due, until=due, new_token=lambda: TOKEN) is not None
    assert overdue(job, due, until=due - 0.001, new_token=lambda: TOKEN) is None


@pytest.mark.parametrize("stamp", ["2026-02-30T00:00:00Z", "2026-13-01T00:00:00.000Z"])
def test_impossible_dates_are_never_due(stamp: str) -> None:
    """A date that the calendar does not have stops nobody."""
    assert next_due(_job(pending_seconds=1)._replace(created_at=stamp)) is None
