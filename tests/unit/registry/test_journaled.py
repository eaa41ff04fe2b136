"""The fold of journaled events: once in effect, confirmed without gaps, crossings refused."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.core.clock import utc_timestamp
from jobwire.core.lease import Lease, LeaseGrant
from jobwire.core.topics import Topics
from jobwire.jobs.admission import Parsed, parse
from jobwire.jobs.event import compose, encode_signed
from jobwire.jobs.fold import cancel, claim, next_attempt
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import JobRecord
from jobwire.registry.journaled import AHEAD, Journaled, fold_journaled, is_journaled

NOW = 1_767_225_600.0
STAMP = utc_timestamp(NOW)
TOPICS = Topics()
JOB = JobRecord("1a2b3c4d", "t" * 43, STAMP, STAMP)


def _entry(seq: int, kind: str, *, token: str = JOB.auth_token, verdict: str = "accepted") -> Journaled:
    event = compose(seq=seq, job_id=JOB.job_id, event=kind, timestamp=STAMP, detail=f"{seq}", data={})
    payload = encode_signed(event, token)
    parsed = parse(TOPICS, TOPICS.events(JOB.job_id), payload)
    assert isinstance(parsed, Parsed)
    return Journaled(seq, NOW + seq, verdict, payload, parsed)


STORY = [
    _entry(1, "started"),
    _entry(2, "progress"),
    _entry(3, "permission_required"),
    _entry(4, "completed"),
]


def _fold(record: JobRecord, entries: Sequence[Journaled]) -> tuple[JobRecord, list[str]]:
    folded = fold_journaled(record, entries, held=frozenset)
    return folded.record, [str(line["verdict"]) for _, line in folded.lines]


def test_story() -> None:
    """Events from the wire move the record, are confirmed, and stand in the history."""
    record, verdicts = _fold(JOB, STORY)
    assert (record.status, record.last_seq, record.confirmed_seq) == (Status.COMPLETED, 4, 4)
    assert verdicts == ["accepted"] * 4
    assert AHEAD not in record.extra


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12))
def test_once_in_effect(order: list[int]) -> None:
    """Entries that come again, in any split, change nothing and add no line."""
    record, verdicts = JOB, list[str]()
    for number in [*range(4), *order]:
        record, more = _fold(record, [STORY[number]])
        verdicts += more
    assert (record, verdicts) == _fold(JOB, STORY)


def test_event_from_the_wire_extends_by_what_was_granted() -> None:
    """A worker elsewhere keeps its job for as long after each event as its lease was granted for."""
    record, _ = _fold(claim(JOB, LeaseGrant("me", 3600), NOW), STORY[:2])
    assert record.lease == Lease("me", utc_timestamp(NOW + 2 + 3600), 3600)
    assert record.idle_since == utc_timestamp(NOW + 2)


def test_locally_applied_events_are_only_confirmed() -> None:
    """What the publisher on this disk applied gets no second line."""
    local = JOB._replace(status=Status.RUNNING, last_seq=2, started_at=STAMP)
    record, verdicts = _fold(local, STORY[:2])
    assert verdicts == []
    assert record == local._replace(confirmed_seq=2)


def test_gap_is_not_confirmed() -> None:
    """Beyond a gap nothing is confirmed until it is filled; then all of it is."""
    record, _ = _fold(JOB, [STORY[0], _entry(3, "progress"), _entry(4, "progress")])
    assert (record.last_seq, record.confirmed_seq) == (4, 1)
    assert record.extra[AHEAD] == [[3, 4]]
    assert is_journaled(record, 4)
    assert not is_journaled(record, 2)
    record, verdicts = _fold(record, [_entry(2, "progress", verdict="late")])
    assert (record.last_seq, record.confirmed_seq, record.detail) == (4, 4, "4")
    assert verdicts == ["late"]
    assert AHEAD not in record.extra


def test_event_that_crossed_with_a_cancellation() -> None:
    """An event journaled while the job was being cancelled is confirmed, stands refused, changes nothing."""
    running, _ = _fold(JOB, STORY[:1])
    cancelled = cancel(running, NOW, "no need")
    record, verdicts = _fold(cancelled, [STORY[1]])
    assert (record.status, record.detail, record.last_seq) == (Status.CANCELLED, "no need", 1)
    assert record.confirmed_seq == 2
    assert verdicts == ["after_terminal"]


def test_event_that_crossed_with_a_claim() -> None:
    """An event of the old attempt that was journaled before the claim was known does not move the new one."""
    running, _ = _fold(claim(JOB, LeaseGrant("me"), NOW), STORY[:1])
    again = next_attempt(running, "n" * 43, NOW, "lease")
    record, verdicts = _fold(again, [STORY[1]])
    assert (record.status, record.last_seq, record.attempt) == (Status.PENDING, 1, 2)
    assert verdicts == ["replayed"]


@pytest.mark.parametrize(("held", "confirmed"), [(frozenset(), 4), (frozenset({2}), 1)])
def test_gap_of_an_earlier_attempt(held: frozenset[int], confirmed: int) -> None:
    """A gap that only the fenced worker could fill is passed over, unless the history holds the event."""
    record = JOB._replace(
        status=Status.RUNNING,
        attempt=2,
        attempt_seq=3,
        last_seq=3,
        confirmed_seq=1,
        started_at=STAMP,
        extra={AHEAD: [[3, 3]]},
    )
    folded = fold_journaled(record, [_entry(4, "started")], held=lambda: held)
    assert folded.record.confirmed_seq == confirmed


def test_refused_messages_are_in_the_history() -> None:
    """Refusals get their line with the reason; a mere redelivery gets none."""
    garbage = Journaled(9, NOW, "malformed", b"\xff{", None)
    forged = _entry(1, "started", token="f" * 43, verdict="bad_signature")
    again = _entry(1, "started", verdict="duplicate")
    record, verdicts = _fold(JOB, [garbage, forged, again])
    assert record == JOB
    assert verdicts == ["malformed", "bad_signature"]
