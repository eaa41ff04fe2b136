"""The events beside the registry: gapless numbers, the lifecycle, and no crash that loses or doubles."""

import errno
import json
from collections.abc import Callable
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
from jobwire.delivery.outbox import SentMark, due_entries, is_settled, mark_after
from jobwire.delivery.outbox_file import OutboxFile
from jobwire.delivery.signing import Draft, sign_next
from jobwire.jobs import fold
from jobwire.jobs.record import JobRecord
from jobwire.registry.event_log import HomeEventLog, HomeOutboxes
from jobwire.registry.layout import SERVE_FILE
from jobwire.registry.store import RecordStore
from jobwire.storage.files import StrPath, SystemFiles
from jobwire.testing import ManualClock
from jobwire.testing.broken_disks import Crash, PowerCutFiles, StoppingFiles

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
    assert list(events.outbox.entries()) == entries
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


def test_an_event_is_three_flushes(home: Path, store: RecordStore, clock: ManualClock) -> None:
    """The history's line, the record, and the record's name: nothing else is waited for."""
    files = StoppingFiles()
    events = HomeEventLog(RecordStore(home, clock=clock, files=files), JOB, attempt=1)
    for draft in (STARTED, PROGRESS, PROGRESS, COMPLETED):
        files.calls.clear()
        events.append(draft)
        flushes = [call for call in files.calls if call.startswith("sync")]
        assert flushes == ["sync events.ndjson", f"sync .{JOB}.json.tmp", "sync_directory jobs"]


@pytest.mark.parametrize("refused", ["write", "rename"])
def test_a_refused_event_is_no_promise(
    events: HomeEventLog, store: RecordStore, clock: ManualClock, refused: str
) -> None:
    """An event whose record the disk refused is cut from the history again, also behind a torn line."""
    events.append(STARTED)
    with Path(events.outbox.path).open("ab") as file:
        file.write(b'{"at":"2026' + b" " * 2000)

    class Full(SystemFiles):
        @override
        def create(self, path: StrPath, mode: int) -> int:
            if refused == "write" and "0a1b2c3d.json" in str(path):
                raise OSError(errno.ENOSPC, "refused")
            return super().create(path, mode)

        @override
        def rename(self, source: StrPath, target: StrPath) -> None:
            if refused == "rename" and "0a1b2c3d.json" in str(target):
                raise OSError(errno.EIO, "refused")
            super().rename(source, target)

    full = HomeEventLog(RecordStore(store.home, clock=clock, files=Full()), JOB, attempt=1)
    with pytest.raises(StorageError):
        full.append(COMPLETED)
    assert events.recover().last_seq == events.outbox.last_seq == 1
    assert events.append(PROGRESS).seq == 2


Holder = Callable[[RecordStore], object]


@pytest.mark.parametrize(
    "holder",
    [
        lambda store: HomeEventLog(store, JOB, attempt=1).recover(),
        lambda store: store.repair(JOB),
        lambda store: HomeEventLog(store, JOB, attempt=1).append(PROGRESS),
    ],
)
def test_the_next_holder_of_the_lock_brings_the_record_up(
    events: HomeEventLog, store: RecordStore, clock: ManualClock, holder: Holder
) -> None:
    """An event that a crash kept from the record is the job's: whoever takes the lock next applies it."""
    events.append(STARTED)
    _crash_before_record(store, clock)
    assert (store.get(JOB).last_seq, events.outbox.last_seq) == (1, 2)
    holder(store)
    record = store.get(JOB)
    assert record.last_seq == events.outbox.last_seq >= 2
    assert [line["seq"] for line in store.audit(JOB).lines() if line["kind"] == "event"] == list(
        range(1, record.last_seq + 1)
    )
    assert record.detail == "x"


def test_a_half_done_event_comes_before_what_ends_the_attempt(
    events: HomeEventLog, store: RecordStore, clock: ManualClock
) -> None:
    """A cancellation or a new claim finds it in the record; its number is not used again."""
    events.append(STARTED)
    _crash_before_record(store, clock)
    with store.locked(JOB) as locked:
        locked.replace(
            fold.next_attempt(locked.record, "n" * 43, clock.now(), "lease ran out"), cause="the test"
        )
    assert store.get(JOB).attempt_seq == 2
    assert HomeEventLog(store, JOB, attempt=2).append(STARTED).seq == 3


# Before it: open the history, write the line, create and write the new record, flush both.
_RENAME = 6


def _crash_before_record(store: RecordStore, clock: ManualClock) -> None:
    """Die between the history and the record."""
    files = StoppingFiles(stop_at=_RENAME)
    events = HomeEventLog(RecordStore(store.home, clock=clock, files=files), JOB, attempt=1)
    with pytest.raises(Crash):
        events.append(PROGRESS)
    assert files.calls[-1] == f"rename {JOB}.json"


class TestOfAnEarlierVersion:
    """An outbox file that an earlier version left in the home."""

    @pytest.fixture
    def old(self, store: RecordStore) -> OutboxFile:
        """Give the file, with its mark."""
        return OutboxFile(store.outbox_path(JOB))

    @pytest.mark.parametrize("half_done", [False, True])
    def test_its_events_are_still_sent(
        self, events: HomeEventLog, old: OutboxFile, store: RecordStore, *, half_done: bool
    ) -> None:
        """What it held is due as before, also what a crash had kept from the record; the file goes."""
        said = [events.append(STARTED)]
        old.append(said[0])
        event, signed = sign_next(store.get(JOB), PROGRESS, seq=2, now=store.clock.now())
        old.append(signed)
        if not half_done:
            store.apply(JOB, event, signed.payload, source="publisher")
        Path(store.sent_path(JOB)).unlink()
        outboxes = HomeOutboxes(store)
        assert outboxes.job_ids() == [JOB]
        again = outboxes.open(JOB)
        due = due_entries(again.outbox, again.outbox.mark.read(), again.position(), now=0.0)
        assert list(due) == [said[0], signed]
        assert not Path(old.path).exists()
        assert outboxes.job_ids() == [JOB]
        assert events.append(PROGRESS).seq == 3

    def test_what_does_not_fit_any_more_is_dropped(
        self, events: HomeEventLog, old: OutboxFile, store: RecordStore, clock: ManualClock
    ) -> None:
        """A half-done event of an earlier attempt goes: its number is the next attempt's."""
        old.append(events.append(STARTED))
        _, signed = sign_next(store.get(JOB), PROGRESS, seq=2, now=clock.now())
        with store.locked(JOB) as locked:
            locked.replace(
                fold.next_attempt(locked.record, "n" * 43, clock.now(), "lease ran out"), cause="the test"
            )
        old.append(signed)
        assert HomeEventLog(store, JOB, attempt=2).append(STARTED).seq == 2

    def test_damage_in_it_is_set_aside(self, events: HomeEventLog, old: OutboxFile) -> None:
        """What cannot be read of it stays as evidence."""
        old.append(events.append(STARTED))
        with Path(old.path).open("ab") as file:
            file.write(b"garbage\n")
        events.recover()
        assert Path(f"{old.path}.damaged").read_bytes() == b"garbage\n"


class TestWhoHasSomethingToSend:
    """The jobs of a home that may have something to send."""

    def test_a_mark_that_went_with_the_power_is_made_again(
        self, events: HomeEventLog, store: RecordStore, home: Path
    ) -> None:
        """No writer flushes the mark, so the records are asked once after each start of the machine."""
        events.append(STARTED)
        assert HomeOutboxes(store).job_ids() == [JOB]
        Path(store.sent_path(JOB)).unlink()
        assert HomeOutboxes(store).job_ids() == []
        (home / "outbox" / ".boot").write_bytes(b"an earlier start")
        assert HomeOutboxes(store).job_ids() == [JOB]

    def test_nobody_looks_where_nothing_is_left(
        self, events: HomeEventLog, store: RecordStore, clock: ManualClock
    ) -> None:
        """A job that is settled is looked at again when its worker speaks, and not before."""
        outboxes = HomeOutboxes(store)
        events.append(STARTED)
        clock.advance(1e9)
        assert outboxes.waiting() == [JOB]
        outboxes.settle(JOB)
        assert outboxes.waiting() == []
        events.append(PROGRESS)
        assert outboxes.waiting() == [JOB]

    def test_a_job_that_ended_without_a_registry_process_is_left_alone(
        self, events: HomeEventLog, store: RecordStore
    ) -> None:
        """Its PUBACK was its end: a registry process that comes later sends nothing of it again."""
        for draft in (STARTED, COMPLETED):
            events.append(draft)
        position = events.position()
        events.outbox.mark.write(mark_after(SentMark(), position, first_seq=1, acked_seq=2, now=0.0))
        Path(store.home, SERVE_FILE).write_text("{}")
        assert is_settled(events.position(), events.outbox.mark.read())
        outboxes = HomeOutboxes(store)
        outboxes.waiting()
        outboxes.settle(JOB)
        assert outboxes.waiting() == []
        (Path(store.home) / "outbox" / ".boot").unlink()
        assert is_settled(HomeOutboxes(store).open(JOB).position(), events.outbox.mark.read())
