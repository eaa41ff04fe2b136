"""The events beside the registry: gapless numbers, the lifecycle, and no crash that loses or doubles."""

import errno
import json
from pathlib import Path

import pytest

from jobwire.core.canonical import canonical_json
from jobwire.core.clock import utc_timestamp
from jobwire.core.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    StoppedError,
    StorageError,
    TransitionError,
)
from jobwire.core.override import override
from jobwire.core.signature import verify_bytes
from jobwire.delivery.signing import Draft
from jobwire.jobs import fold
from jobwire.jobs.record import JobRecord
from jobwire.registry.event_log import HomeEventLog
from jobwire.registry.layout import SERVE_FILE
from jobwire.registry.store import RecordStore
from jobwire.storage.files import StrPath, SystemFiles
from jobwire.testing import ManualClock
from jobwire.testing.broken_disks import Crash, PowerCutFiles

JOB = "0a1b2c3d"
STARTED, PROGRESS, COMPLETED = Draft("started"), Draft("progress", "x"), Draft("completed", "done")


def _change(store: RecordStore, new: JobRecord) -> None:
    with store.locked(JOB) as locked:
        locked.replace(new, cause="the test")


def test_events_are_numbered_signed_kept_and_applied(events: HomeEventLog, store: RecordStore) -> None:
    """Each event gets the next seq and a signature, stands in the outbox and moves the record."""
    entries = [events.append(draft) for draft in (STARTED, PROGRESS, COMPLETED)]
    assert [entry.seq for entry in entries] == [1, 2, 3]
    assert [entry.retain for entry in entries] == [False, False, True]
    assert events.outbox.entries() == entries
    record = store.get(JOB)
    assert (record.status, record.last_seq) == ("completed", 3)
    for entry in entries:
        body = json.loads(entry.payload)
        signature = body["data"].pop("hmac_sig")
        assert verify_bytes(canonical_json(body), signature, record.auth_token)
    history = [line["seq"] for line in store.audit(JOB).lines() if line["kind"] == "event"]
    assert history == [1, 2, 3]


def test_what_does_not_fit_keeps_nothing(events: HomeEventLog, store: RecordStore) -> None:
    """An event that the lifecycle forbids, or that is no event, leaves no trace."""
    with pytest.raises(TransitionError):
        events.append(PROGRESS)
    events.append(STARTED)
    for draft, error in (
        (STARTED, TransitionError),
        (Draft("shout"), InvalidInputError),
        (Draft("progress", "x" * 1025), InvalidInputError),
        (Draft("progress", "", {"hmac_sig": "0"}), InvalidInputError),
        (Draft("progress", "", {"bulk": "x" * 65536}), InvalidInputError),
        (Draft("progress", "\ud800"), InvalidInputError),
    ):
        with pytest.raises(error):
            events.append(draft)
    assert store.get(JOB).last_seq == events.outbox.last_seq == 1


def test_a_finished_job_is_a_conflict(events: HomeEventLog) -> None:
    """A second terminal event, or any after it, is refused as a conflict."""
    events.append(STARTED)
    events.append(COMPLETED)
    for draft in (COMPLETED, PROGRESS, Draft("error")):
        with pytest.raises(ConflictError):
            events.append(draft)


def test_a_cancelled_job_stops_its_worker(
    events: HomeEventLog, store: RecordStore, clock: ManualClock
) -> None:
    """The worker of a cancelled job learns of it when it speaks."""
    events.append(STARTED)
    _change(store, fold.cancel(store.get(JOB), clock.now(), "not needed"))
    with pytest.raises(StoppedError):
        events.append(PROGRESS)


def test_another_attempt_stops_the_earlier_one(
    events: HomeEventLog, store: RecordStore, clock: ManualClock
) -> None:
    """A worker that is pinned to an attempt stops when the job is claimed again; the next one goes on."""
    events.append(STARTED)
    _change(store, fold.next_attempt(store.get(JOB), "n" * 43, clock.now(), "lease ran out"))
    for draft in (PROGRESS, COMPLETED):
        with pytest.raises(StoppedError) as stopped:
            events.append(draft)
    assert stopped.value.facts["attempt"] == 2
    assert HomeEventLog(store, JOB, attempt=2).append(STARTED).seq == 2
    with pytest.raises(StoppedError):
        events.recover()


def test_an_unknown_job_is_not_found(store: RecordStore) -> None:
    """A job without a record is not found, and what is no id is refused."""
    with pytest.raises(NotFoundError):
        HomeEventLog(store, "ffffffff", attempt=None).append(STARTED)
    with pytest.raises(InvalidInputError):
        HomeEventLog(store, "../../x", attempt=None)


def test_confirmation_counts_only_where_a_registry_process_is(
    events: HomeEventLog, store: RecordStore
) -> None:
    """Without serve.json nobody confirms; with it the record says how far."""
    assert events.position().confirmed_seq is None
    Path(store.home, SERVE_FILE).write_text("{}")
    assert events.position().confirmed_seq == 0


def test_a_power_cut_keeps_what_was_taken(clock: ManualClock, home: Path) -> None:
    """After `take` returned, outbox and record are on the disk, whatever else is lost."""
    files = PowerCutFiles()
    store = RecordStore(home, clock=clock, files=files)
    now = utc_timestamp(clock.now())
    store.create(JobRecord(JOB, "t" * 43, now, now))
    files.sync_directory(str(home.parent))
    events = HomeEventLog(store, JOB, attempt=1)
    for seq, draft in enumerate((STARTED, PROGRESS, COMPLETED), 1):
        events.append(draft)
        after = home.with_name(f"after-{seq}")
        files.materialise(home, after)
        (after / "locks").mkdir(exist_ok=True)
        left = HomeEventLog(RecordStore(after, clock=clock), JOB, attempt=1)
        assert left.outbox.last_seq == left.position().last_seq == seq


def test_a_refused_event_is_taken_back_also_behind_a_torn_line(
    events: HomeEventLog, store: RecordStore, clock: ManualClock
) -> None:
    """An event that was refused is not said later, whatever a crash had left at the outbox's end."""
    events.append(STARTED)
    with Path(events.outbox.path).open("ab") as file:
        file.write(b'{"seq":2,"attempt":1' + b" " * 2000)

    class Full(SystemFiles):
        @override
        def open_append(self, path: StrPath, mode: int) -> int:
            if str(path).endswith("events.ndjson"):
                raise OSError(errno.ENOSPC, "refused")
            return super().open_append(path, mode)

    full = HomeEventLog(RecordStore(store.home, clock=clock, files=Full()), JOB, attempt=1)
    with pytest.raises(StorageError):
        full.append(COMPLETED)
    assert events.recover().last_seq == events.outbox.last_seq == 1


def test_a_half_done_event_of_a_cancelled_job_is_dropped(
    events: HomeEventLog, store: RecordStore, clock: ManualClock
) -> None:
    """An event that a crash kept from the record goes when the job was cancelled before it came back."""
    events.append(STARTED)
    _crash_after_outbox(store, clock)
    assert events.outbox.last_seq == 2
    _change(store, fold.cancel(store.get(JOB), clock.now(), "not needed"))
    with pytest.raises(StoppedError):
        events.append(PROGRESS)
    assert events.outbox.last_seq == 1


def test_a_half_done_event_of_an_earlier_attempt_is_dropped(
    events: HomeEventLog, store: RecordStore, clock: ManualClock
) -> None:
    """Its number, which nobody has seen, goes to the next attempt's first event."""
    events.append(STARTED)
    _crash_after_outbox(store, clock)
    _change(store, fold.next_attempt(store.get(JOB), "n" * 43, clock.now(), "lease ran out"))
    assert HomeEventLog(store, JOB, attempt=2).append(STARTED).seq == 2


def _crash_after_outbox(store: RecordStore, clock: ManualClock) -> None:
    """Die between the outbox and the history."""

    class Dying(SystemFiles):
        @override
        def open_append(self, path: StrPath, mode: int) -> int:
            if str(path).endswith("events.ndjson"):
                raise Crash
            return super().open_append(path, mode)

    events = HomeEventLog(RecordStore(store.home, clock=clock, files=Dying()), JOB, attempt=1)
    with pytest.raises(Crash):
        events.append(PROGRESS)
