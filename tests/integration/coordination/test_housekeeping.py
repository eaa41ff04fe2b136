"""The registry process keeps threads and blobs in order, and says whom it does not serve."""

import logging
import os
import threading
from pathlib import Path

import pytest

from jobwire.coordination import reading
from jobwire.coordination.blobs import BlobFolder
from jobwire.coordination.boards.boards import Boards
from jobwire.coordination.boards.statements import NewBoard
from jobwire.coordination.companions import Housekeeping, Unserved, companions
from jobwire.coordination.home_key import home_key
from jobwire.coordination.marks import behind
from jobwire.coordination.message import NewMessage, check_message
from jobwire.coordination.remote_keys import AgentKeys
from jobwire.coordination.sending import Bulk, send, write
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.stored import InboxMessage
from jobwire.coordination.work import ThreadWork
from jobwire.core.settings import BrokerSettings
from jobwire.jobs import fold
from jobwire.journal.writer import JournalWriter
from jobwire.registry import health
from jobwire.registry.duties import Duties
from jobwire.testing.clock import ManualClock

LARGE = NewMessage("lead", ("builder",), kind="task", subject="read it", body="b" * 100_000)


@pytest.fixture
def clock() -> ManualClock:
    """Give a clock that stands still."""
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> CoordinationStore:
    """Give an empty store."""
    return CoordinationStore(str(tmp_path), clock=clock)


@pytest.fixture
def house(store: CoordinationStore, clock: ManualClock) -> Housekeeping:
    """Give what keeps it."""
    return Housekeeping(store.home, clock)


def _age(store: CoordinationStore) -> list[str]:
    """Make all blobs old; return their names."""
    folder = Path(store.home, "blobs")
    for path in folder.iterdir():
        os.utime(path, (0, 0))
    return sorted(path.name for path in folder.iterdir())


def test_a_board_goes_on_with_nobody_looking(
    store: CoordinationStore, house: Housekeeping, clock: ManualClock
) -> None:
    """At each deadline the members are asked for the next phase, and in the end told the decision."""
    boards = Boards(store, key=home_key(store.home))
    boards.open(NewBoard("lead", "PLAN", "do it", ("CA", "CSO"), deadline_seconds=60.0))
    for _ in range(3):
        house.step()
        clock.advance(61)
    house.step()
    said = [InboxMessage(*row) for row in store.rows("messages_after", {"after": 0, "limit": 100})]
    asked = ["BOARD_OPEN", "BOARD_ASSESS", "BOARD_DISCUSS", "BOARD_VOTE", "BOARD_RESOLVE"]
    assert [one.type for one in said] == asked


def test_threads_follow_their_jobs_without_any_command(store: CoordinationStore, house: Housekeeping) -> None:
    """A job that was cancelled outside of the inbox ends its thread, with nobody looking."""
    thread = send(store, LARGE).thread_id
    work = ThreadWork(store, "builder", environ={})
    job = work.claim(thread).token.job_id
    with work.records.locked(job) as locked:
        locked.replace(fold.cancel(locked.record, store.clock.now(), "stop"), cause="stop")
    assert behind(store)
    house.step()
    assert not behind(store)
    assert reading.thread_of(store, thread).status == "cancelled"


def test_an_unreadable_record_is_told_once_a_minute(
    store: CoordinationStore,
    house: Housekeeping,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is looked at each time, keeps no other thread behind and does not fill the log."""
    threads = [send(store, LARGE).thread_id for _ in range(2)]
    work = ThreadWork(store, "builder", environ={})
    bad, good = (work.claim(one).token.job_id for one in threads)
    for job in (bad, good):
        with work.records.locked(job) as locked:
            locked.replace(fold.cancel(locked.record, store.clock.now(), "stop"), cause="stop")
    path = Path(work.records.record_path(bad))
    kept = path.read_bytes()
    path.unlink()
    path.mkdir()
    for _ in range(3):
        house.step()
    assert len([one for one in caplog.records if bad in one.getMessage()]) == 1
    assert reading.thread_of(store, threads[1]).status == "cancelled"
    path.rmdir()
    path.write_bytes(kept)
    house.step()
    assert reading.thread_of(store, threads[0]).status == "cancelled"


def test_blobs_that_nothing_refers_to_are_removed_once_an_hour(
    store: CoordinationStore, house: Housekeeping, clock: ManualClock
) -> None:
    """Old ones alone: a message's own stays, and a young one, whose message may be about to come."""
    blobs = BlobFolder(store.home)
    sent = send(store, LARGE)
    left = blobs.put(b"left")
    _age(store)
    young = blobs.put(b"young")
    house.step()
    assert house.facts() == {"blobs_removed": 1}
    assert not Path(blobs.path(left)).exists()
    assert Path(blobs.path(young)).exists()
    assert reading.message_of(store, sent.message_id).full_body(blobs) == LARGE.body
    _age(store)
    house.step()
    assert Path(blobs.path(young)).exists()
    clock.advance(3600)
    house.step()
    assert not Path(blobs.path(young)).exists()


def test_a_blob_that_is_collected_before_its_row_is_written_again(
    store: CoordinationStore, house: Housekeeping
) -> None:
    """Whoever stopped between blob and row for longer than the limit still sends a whole message."""
    store.latest_event()
    new = check_message(LARGE)
    large = Bulk.of(new, BlobFolder(store.home))
    _age(store)
    house.step()
    assert house.facts() == {"blobs_removed": 1}
    with store.changing() as change:
        sent = write(change, new, large)
    assert reading.message_of(store, sent.message_id).full_body(large.blobs) == LARGE.body


def test_a_home_without_a_store_stays_without(tmp_path: Path, clock: ManualClock) -> None:
    """Looking makes nothing."""
    Housekeeping(str(tmp_path), clock).step()
    assert list(tmp_path.iterdir()) == []


def test_a_registry_process_with_a_certificate_says_that_agents_are_not_served(
    tmp_path: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """In its log and its health, as soon as an agent elsewhere has a key; before that it says nothing."""
    with JournalWriter(tmp_path / "journal", clock=clock) as writer:
        found = companions(tmp_path, BrokerSettings(certfile="registry.crt"), writer)
    (unserved,) = [one for one in found if isinstance(one, Unserved)]
    assert health.warnings_of({"agents": unserved.facts()}) == []
    AgentKeys(str(tmp_path)).renew("elsewhere")
    stop = threading.Event()
    stop.set()
    with caplog.at_level(logging.WARNING):
        unserved.run(Duties(clock).begin("agents"), stop)
    (text,) = health.warnings_of({"agents": unserved.facts()})
    assert "not served" in text
    assert text in caplog.text
