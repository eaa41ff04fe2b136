"""What a job's own worker may send, at its limits: nothing of it costs other jobs time or memory."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jobwire.core.ports import Message
from jobwire.core.topics import Topics
from jobwire.jobs.admission import Parsed, parse
from jobwire.jobs.event import MAX_JUMP, Event
from jobwire.jobs.record import JobRecord
from jobwire.journal.entry import Entry
from jobwire.registry import seqs
from jobwire.registry.journaled import Journaled, fold_journaled
from jobwire.registry.store import RecordStore
from jobwire.registry.views import AdmissionState, admission_fields

if TYPE_CHECKING:
    Registry = Any  # conftest.Registry: test folders are no packages

Say = Callable[..., tuple[Event, bytes]]
TOPICS = Topics()
TOP = 2**53 - 1
# Of computing, and generous: what is tested here took minutes, or never ended.
_SECONDS = 8.0


@pytest.fixture
def cheap() -> Iterator[None]:
    """Fail a test that computes for long: what needs memory beyond measure does too."""
    began = time.process_time()
    yield
    assert time.process_time() - began < _SECONDS


@pytest.mark.usefixtures("cheap")
def test_far_seq(registry: "Registry", job: JobRecord, say: Say) -> None:
    """One genuine event with the highest seq there is changes nothing; the job goes on."""
    assert registry.hear(*say(job, 1, "started")).verdict == "accepted"
    for seq in (2 + MAX_JUMP, 10**12, TOP):
        assert registry.hear(*say(job, seq, "progress")).verdict == "invalid_field"
        assert registry.hear(*say(job, seq, "completed"), retain=True).verdict == "invalid_field"
    assert registry.hear(*say(job, 2, "completed"), retain=True).verdict == "accepted"
    registry.fold()
    assert registry.store.get(job.job_id).confirmed_seq == 2


@pytest.mark.usefixtures("cheap")
def test_far_first_seq(registry: "Registry", job: JobRecord, say: Say) -> None:
    """A job that begins with a far seq has not begun."""
    assert registry.hear(*say(job, TOP, "started")).verdict == "invalid_field"
    assert registry.hear(*say(job, 1, "started")).verdict == "accepted"


@pytest.mark.usefixtures("cheap")
def test_widest_jumps_in_a_row(registry: "Registry", job: JobRecord, say: Say) -> None:
    """Every event may leave the widest gap that is allowed, and come late into one: each costs little."""
    record = job
    registry.hear(*say(record, 1, "started"))
    for number in range(1, 120):
        assert registry.hear(*say(record, 1 + number * MAX_JUMP, "progress")).verdict == "accepted"
        late = registry.hear(*say(record, number * MAX_JUMP, "progress"))
        assert late.verdict == "late"
        if number % 40 == 0:
            registry.fold()
    registry.fold()
    record = registry.store.get(job.job_id)
    assert record.last_seq == 1 + 119 * MAX_JUMP
    assert len(Path(registry.store.record_path(job.job_id)).read_bytes()) < 8192


@pytest.mark.usefixtures("cheap")
def test_every_other_seq(
    registry: "Registry", job: JobRecord, say: Say, caplog: pytest.LogCaptureFixture
) -> None:
    """A worker that skips every other seq fills neither the record nor the log."""
    registry.hear(*say(job, 1, "started"))
    for seq in range(3, 303, 2):
        assert registry.hear(*say(job, seq, "progress")).verdict == "accepted"
    registry.fold()
    assert len(registry.store.get(job.job_id).extra["journaled_ahead"]) <= seqs.MAX_RANGES
    assert len(caplog.records) < 20
    assert "more since the last line" not in caplog.text


@pytest.mark.usefixtures("cheap")
def test_gaps_of_an_earlier_attempt(job: JobRecord, say: Say) -> None:
    """A gap that nobody can fill any more is passed over at once, however wide it is."""
    event, payload = say(job, TOP - 5, "started")
    record = job._replace(last_seq=TOP - 6, attempt_seq=TOP - 6, attempt=2)
    entry = Journaled(0, 0.0, "accepted", payload, None)
    assert fold_journaled(record, [entry], held=tuple).record == record
    parsed = parse(TOPICS, TOPICS.events(job.job_id), payload)
    assert isinstance(parsed, Parsed)
    folded = fold_journaled(record, [entry._replace(parsed=parsed)], held=lambda: {7})
    assert folded.record.confirmed_seq == 6
    folded = fold_journaled(record, [entry._replace(parsed=parsed)], held=frozenset)
    assert folded.record.confirmed_seq == event.seq


@pytest.mark.usefixtures("cheap")
def test_history_with_a_far_seq(registry: "Registry", job: JobRecord, say: Say) -> None:
    """A record that was set to a far seq by hand is gone on with; the gap costs nothing."""
    registry.store.apply(job.job_id, *say(job, 1, "started"), source="publisher")
    with registry.store.locked(job.job_id) as locked:
        locked.replace(locked.record._replace(last_seq=TOP - 9), cause="by hand")
    said = say(job, TOP - 8, "progress")
    registry.store.apply(job.job_id, *said, source="publisher")
    assert registry.hear(*said).verdict == "accepted"
    registry.fold()
    assert registry.store.get(job.job_id).last_seq == TOP - 8


@pytest.mark.usefixtures("cheap")
def test_many_unjournaled_events(job: JobRecord) -> None:
    """What a publisher said before there was a registry process costs each event the same, however many."""
    known = AdmissionState(admission_fields(job), (0, 0, 0))
    known.unjournaled.update(dict.fromkeys(range(1, 30_001), b""))
    for seq in range(1, 30_001):
        assert known.first_unjournaled == seq
        known.journal_local(seq)


def test_refused_messages_do_not_read_the_record(
    registry: "Registry", job: JobRecord, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flood of refused messages does not read record and history for each of them."""
    registry.hear(*say(job, 1, "started"))
    os.utime(registry.store.record_path(job.job_id), (1.0, 1.0))
    forged = say(job._replace(auth_token="f" * 43), 2, "progress")
    assert registry.hear(*forged).verdict == "bad_signature"
    monkeypatch.setattr(RecordStore, "get", lambda *_: pytest.fail("read again"))
    assert [registry.hear(*forged).verdict for _ in range(9)] == ["bad_signature"] * 9


def test_messages_for_no_job_take_nobodys_turn(registry: "Registry", job: JobRecord, say: Say) -> None:
    """Thousands of refused messages on topics of unknown jobs do not stand before a job's progress."""
    refused = [Entry(0, TOPICS.events(f"{number:08x}"), b"{", False, "malformed") for number in range(3000)]
    registry.writer.append(refused)
    registry.hear(*say(job, 1, "started"))
    registry.folder.step()
    registry.hear(*say(job, 2, "progress"))
    registry.folder.step()
    assert registry.store.get(job.job_id).last_seq == 2


def test_recorder_and_fold_at_once(registry: "Registry", job: JobRecord, say: Say) -> None:
    """A job may speak as fast as it can while what it said is folded."""
    said = [say(job, seq, "started" if seq == 1 else "progress") for seq in range(1, 401)]
    ended = threading.Event()
    errors: list[BaseException] = []

    def folding() -> None:
        try:
            while not ended.is_set():
                registry.views.folded(job)
        except RuntimeError as error:
            errors.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=folding)
    thread.start()
    try:
        verdicts = [
            registry.admit(Message(TOPICS.events(job.job_id), p, False, 1, 1)).verdict for _, p in said
        ]
    finally:
        sys.setswitchinterval(before)
        ended.set()
        thread.join()
    assert not errors
    assert verdicts == ["accepted"] * len(said)
