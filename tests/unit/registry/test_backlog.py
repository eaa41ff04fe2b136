"""The backlog of the fold: whose turn it is, and that nothing is left out or handed over twice."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from jobwire.jobs.admission import ACCEPTED
from jobwire.registry.backlog import (
    CONFIRMATION_SECONDS,
    MOST_BYTES,
    MOST_WAITING,
    PROGRESS_RECORDS_PER_SECOND,
    PROGRESS_SECONDS,
    Backlog,
    Turn,
)
from jobwire.registry.journaled import Journaled

_AT_ONCE = PROGRESS_RECORDS_PER_SECOND


def _entry(offset: int) -> Journaled:
    return Journaled(offset, float(offset), ACCEPTED, b"", None)


def _say(backlog: Backlog, count: int, turn: Turn, now: float, *, first: int = 0) -> None:
    """Let `count` jobs say one thing each."""
    for number in range(first, first + count):
        backlog.add(f"{number:08x}", _entry(number), turn, now)


def _fold(backlog: Backlog, now: float) -> list[str]:
    """Fold whatever is due, and name the jobs."""
    jobs = [job_id for job_id, _ in backlog.take(now)]
    for job_id in jobs:
        backlog.done(job_id)
    return jobs


def _is_full(backlog: Backlog) -> bool:
    return backlog.full


def test_a_little_progress_is_folded_at_once() -> None:
    """After a quiet second a second's worth of records goes without waiting."""
    backlog = Backlog(0.0)
    _say(backlog, _AT_ONCE, Turn.PROGRESS, 0.0)
    assert len(_fold(backlog, 0.0)) == _AT_ONCE
    assert len(backlog) == 0
    assert backlog.first() is None


def test_much_progress_waits_for_company() -> None:
    """Of more jobs than may go, the oldest go first, as many as share a flush well."""
    backlog = Backlog(0.0)
    _say(backlog, 3 * _AT_ONCE, Turn.PROGRESS, 0.0)
    assert _fold(backlog, 0.0) == [f"{number:08x}" for number in range(_AT_ONCE)]
    assert _fold(backlog, 0.1) == []
    assert _fold(backlog, 0.5) == [f"{number:08x}" for number in range(_AT_ONCE, _AT_ONCE + _AT_ONCE // 2)]


def test_a_full_backlog_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits is bounded in entries and in bytes; at the bound everything goes, whoever's turn it is."""
    most = 2 * MOST_BYTES // 65_536
    assert most < MOST_WAITING
    monkeypatch.setattr("jobwire.registry.backlog.MOST_WAITING", most)
    backlog = Backlog(0.0)
    large = bytes(65_536)
    for number in range(MOST_BYTES // len(large)):
        assert not _is_full(backlog)
        backlog.add("0" * 8, _entry(number)._replace(payload=large), Turn.CONFIRMATION, 0.0)
    assert _is_full(backlog)
    assert _fold(backlog, 0.0) == ["0" * 8]
    assert not _is_full(backlog)
    _say(backlog, most, Turn.CONFIRMATION, 0.0)
    assert _is_full(backlog)
    assert len(_fold(backlog, 0.0)) == most


def test_several_events_become_one_share() -> None:
    """What a job says while it waits goes with what it said before, in order."""
    backlog = Backlog(0.0)
    _say(backlog, 2 * _AT_ONCE, Turn.PROGRESS, 0.0)
    _fold(backlog, 0.0)
    _say(backlog, _AT_ONCE, Turn.PROGRESS, 0.5, first=_AT_ONCE)
    assert [len(entries) for _, entries in backlog.take(1.0)] == [2] * _AT_ONCE


def test_nobody_waits_longer_than_the_limit() -> None:
    """However many jobs speak, each is due PROGRESS_SECONDS after it spoke; an end comes between them."""
    backlog = Backlog(0.0)
    _say(backlog, 10 * _AT_ONCE, Turn.PROGRESS, 0.0)
    assert len(_fold(backlog, 0.0)) == _AT_ONCE
    for _ in range(8):
        assert len(_fold(backlog, PROGRESS_SECONDS)) == _AT_ONCE
    _say(backlog, 1, Turn.NOW, PROGRESS_SECONDS, first=10 * _AT_ONCE)
    assert _fold(backlog, PROGRESS_SECONDS)[0] == f"{10 * _AT_ONCE:08x}"
    assert backlog.first() is None


def test_an_end_does_not_wait_for_progress() -> None:
    """A job that has more to say than progress comes first, with what it said before."""
    backlog = Backlog(0.0)
    _say(backlog, 3 * _AT_ONCE, Turn.PROGRESS, 0.0)
    last = f"{3 * _AT_ONCE - 1:08x}"
    backlog.add(last, _entry(10_000), Turn.NOW, 0.0)
    taken = backlog.take(0.0)
    assert taken[0][0] == last
    assert [entry.offset for entry in taken[0][1]] == [3 * _AT_ONCE - 1, 10_000]


def test_what_is_in_its_record_waits_by_itself() -> None:
    """A mere confirmation waits CONFIRMATION_SECONDS and uses nothing of what progress may write."""
    backlog = Backlog(0.0)
    _say(backlog, 1, Turn.CONFIRMATION, 0.0)
    assert _fold(backlog, CONFIRMATION_SECONDS - 0.01) == []
    assert _fold(backlog, CONFIRMATION_SECONDS) == ["00000000"]


def test_put_off_until_then() -> None:
    """A job that could not be folded is tried again at its time, with what came meanwhile."""
    backlog = Backlog(0.0)
    _say(backlog, 2, Turn.NOW, 0.0)
    backlog.take(0.0)
    backlog.done("00000001")
    backlog.put_off("00000000", 1.0)
    backlog.add("00000000", _entry(7), Turn.NOW, 0.5)
    assert backlog.take(0.9) == []
    first = backlog.first()
    assert first is not None
    assert first.offset == 0
    assert [[entry.offset for entry in entries] for _, entries in backlog.take(1.0)] == [[0, 7]]


def test_hurry_takes_everything() -> None:
    """At the end of the process nothing waits for its turn."""
    backlog = Backlog(0.0)
    _say(backlog, 5 * _AT_ONCE, Turn.PROGRESS, 0.0)
    _say(backlog, 1, Turn.CONFIRMATION, 0.0, first=5 * _AT_ONCE)
    backlog.take(0.0)
    backlog.put_off("00000000", 100.0)
    assert len(backlog.take(0.0, everything=True)) == 4 * _AT_ONCE + 2


_STEPS = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 400), st.sampled_from(Turn)), max_size=30),
        st.floats(0.0, 3.0),
        st.integers(0, 5),
    ),
    max_size=20,
)


@given(_STEPS)
def test_every_entry_once_and_in_order(
    steps: list[tuple[list[tuple[int, Turn]], float, int]],
) -> None:
    """Whatever is said and put off: each job's entries come out once, in order; `first` is the oldest."""
    backlog = Backlog(0.0)
    said: dict[str, list[int]] = {}
    folded: dict[str, list[int]] = {}
    now, offset = 0.0, 0

    def settle(*, everything: bool, put_off: int) -> None:
        for number, (job_id, entries) in enumerate(backlog.take(now, everything=everything)):
            if number < put_off:
                backlog.put_off(job_id, now + 1.0)
                continue
            folded.setdefault(job_id, []).extend(entry.offset for entry in entries)
            backlog.done(job_id)
        left = {offset for offsets in said.values() for offset in offsets}
        left -= {offset for offsets in folded.values() for offset in offsets}
        first = backlog.first()
        assert len(backlog) == len(left)
        assert (first.offset if first else None) == min(left, default=None)

    for words, passed, put_off in steps:
        now += passed
        for number, turn in words:
            job_id = f"{number:08x}"
            backlog.add(job_id, _entry(offset), turn, now)
            said.setdefault(job_id, []).append(offset)
            offset += 1
        settle(everything=False, put_off=put_off)
    settle(everything=True, put_off=0)
    assert folded == said
