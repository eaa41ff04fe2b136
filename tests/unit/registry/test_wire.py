"""Admission by the registry process: what came by the disk and what comes by the wire are one story."""

import errno
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from jobwire.core.lease import LeaseGrant
from jobwire.core.override import override
from jobwire.core.ports import Message
from jobwire.core.topics import Topics
from jobwire.jobs.event import Event
from jobwire.jobs.fold import cancel, claim, next_attempt
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import JobRecord
from jobwire.journal.admission import Judged
from jobwire.journal.head import SLOT_BYTES
from jobwire.journal.reader import JournalReader
from jobwire.journal.writer import JournalWriter
from jobwire.registry.audit import event_line
from jobwire.registry.store import RecordStore, payload_digest
from jobwire.registry.views import Views
from jobwire.registry.wire import GapRepair, WireAdmission
from jobwire.storage.durable import append_durably
from jobwire.storage.files import SystemFiles
from jobwire.testing import ManualClock

Say = Callable[..., tuple[Event, bytes]]


class Wire(NamedTuple):
    """The registry's side of the wire."""

    admit: WireAdmission
    views: Views
    repair: GapRepair
    journal: Path

    def hear(self, event: Event, payload: bytes, *, retain: bool = False) -> Judged:
        """Let a message come in."""
        return self.admit(Message(Topics().events(event.job_id), payload, retain, 1, 1))

    def journaled(self) -> list[bytes]:
        """Return the payloads that were journaled from the history."""
        with JournalReader(self.journal) as reader:
            return [row.payload for row in reader.read(0)]


@pytest.fixture
def wire(store: RecordStore, clock: ManualClock, home: Path) -> Iterator[Wire]:
    """Give admission over the test's home."""
    views = Views(store)
    with JournalWriter(home.parent / "journal", clock=clock) as writer:
        repair = GapRepair(
            store=store, views=views, topics=Topics(), writer=writer, on_journaled=lambda: None
        )
        yield Wire(WireAdmission(topics=Topics(), views=views), views, repair, writer.directory)


def _verdicts(wire: Wire, said: list[tuple[Event, bytes]]) -> list[str]:
    return [str(wire.hear(*one).verdict) for one in said]


def test_remote_worker(wire: Wire, job: JobRecord, say: Say) -> None:
    """A worker without our disk is judged by the one rule; what comes again is a duplicate."""
    said = [say(job, 1, "started"), say(job, 2, "progress"), say(job, 3, "completed")]
    assert _verdicts(wire, [*said, *said]) == ["accepted"] * 3 + ["duplicate"] * 3
    assert _verdicts(wire, [say(job, 4, "progress")]) == ["after_terminal"]


def test_local_worker(wire: Wire, store: RecordStore, job: JobRecord, say: Say) -> None:
    """What the publisher applied to the record before is accepted from the wire, once."""
    said = [say(job, 1, "started"), say(job, 2, "progress"), say(job, 3, "completed")]
    for event, payload in said:
        store.apply(job.job_id, event, payload, source="publisher")
    assert _verdicts(wire, said) == ["accepted"] * 3
    assert _verdicts(wire, said) == ["duplicate"] * 3
    assert [wire.views.is_local(job.job_id, seq) for seq in (1, 2, 3, 4)] == [True, True, True, False]


def test_record_that_changes_under_way(wire: Wire, store: RecordStore, job: JobRecord, say: Say) -> None:
    """Local and remote events may alternate; each is known at once."""
    assert _verdicts(wire, [say(job, 1, "started")]) == ["accepted"]
    store.apply(job.job_id, *say(job, 1, "started"), source="wire")
    local = say(job, 2, "progress", "local")
    store.apply(job.job_id, *local, source="publisher")
    assert _verdicts(wire, [local, say(job, 3, "progress")]) == ["accepted", "accepted"]


def test_other_bytes_under_a_known_seq(wire: Wire, store: RecordStore, job: JobRecord, say: Say) -> None:
    """A second event of the same seq is a replay, though genuinely signed."""
    store.apply(job.job_id, *say(job, 1, "started"), source="publisher")
    assert _verdicts(wire, [say(job, 1, "started", "another")]) == ["replayed"]


def test_cancelled_while_on_its_way(wire: Wire, store: RecordStore, job: JobRecord, say: Say) -> None:
    """An event that was applied before the cancellation is journaled after it; later ones are refused."""
    said = [say(job, 1, "started"), say(job, 2, "progress")]
    for event, payload in said:
        store.apply(job.job_id, event, payload, source="publisher")
    with store.locked(job.job_id) as locked:
        locked.replace(cancel(locked.record, 0.0, "no need"), cause="no need")
    assert _verdicts(wire, said) == ["accepted", "accepted"]
    assert _verdicts(wire, [say(job, 3, "progress")]) == ["after_terminal"]


def test_claimed_again_while_on_its_way(wire: Wire, store: RecordStore, job: JobRecord, say: Say) -> None:
    """Events of the old attempt that were applied before the claim are journaled; its later ones are not."""
    with store.locked(job.job_id) as locked:
        old = locked.replace(claim(locked.record, LeaseGrant("me"), 0.0), cause="picked")
    first = say(old, 1, "started")
    store.apply(job.job_id, *first, source="publisher")
    with store.locked(job.job_id) as locked:
        new = locked.replace(next_attempt(locked.record, "n" * 43, 0.0, "lease"), cause="lease")
    assert _verdicts(wire, [first]) == ["accepted"]
    assert _verdicts(wire, [say(old, 2, "progress")]) == ["bad_signature"]
    assert _verdicts(wire, [say(new, 2, "started"), say(new, 3, "progress")]) == ["accepted", "accepted"]


def test_an_id_that_comes_back(wire: Wire, store: RecordStore, job: JobRecord, say: Say) -> None:
    """A job that was removed leaves nothing behind: the next one of its id begins with seq 1."""
    said = [say(job, 1, "started"), say(job, 2, "progress")]
    for event, payload in said:
        store.apply(job.job_id, event, payload, source="publisher")
    assert _verdicts(wire, said) == ["accepted", "accepted"]
    shutil.rmtree(store.log_dir(job.job_id))
    Path(store.record_path(job.job_id)).unlink()
    back = job._replace(auth_token="n" * 43)
    store.create(back)
    assert _verdicts(wire, [say(back, 1, "started"), *said]) == ["accepted", "bad_signature", "bad_signature"]
    assert not wire.views.is_local(job.job_id, 1)


def test_a_damaged_digest_ends_nothing(wire: Wire, store: RecordStore, job: JobRecord, say: Say) -> None:
    """A line of the history that the disk or a hand changed is passed over; later events are judged."""
    store.apply(job.job_id, *say(job, 1, "started"), source="publisher")
    path = Path(store.audit(job.job_id).events_path)
    path.write_bytes(re.sub(rb'"digest":"..', b'"digest":"zz', path.read_bytes()))
    assert _verdicts(wire, [say(job, 2, "progress")]) == ["accepted"]


def test_after_a_restart(wire: Wire, store: RecordStore, job: JobRecord, say: Say) -> None:
    """A fresh process knows from record and history what is journaled and what is not."""
    said = [say(job, 1, "started"), say(job, 2, "progress")]
    for event, payload in said:
        store.apply(job.job_id, event, payload, source="publisher")
    with store.locked(job.job_id) as locked:
        locked.replace(locked.record._replace(confirmed_seq=1), cause="folded")
    assert _verdicts(wire, said) == ["duplicate", "accepted"]


def test_gap_is_repaired_from_the_history(wire: Wire, store: RecordStore, job: JobRecord, say: Say) -> None:
    """Events that the wire skipped are journaled from the history, byte for byte."""
    said = [say(job, 1, "started"), say(job, 2, "progress"), say(job, 3, "progress")]
    for event, payload in said:
        store.apply(job.job_id, event, payload, source="publisher")
    judged = wire.hear(*said[2])
    assert (judged.verdict, list(judged.missing)) == ("accepted", [1, 2])
    wire.repair(job.job_id, judged.missing)
    assert wire.journaled() == [said[0][1], said[1][1]]
    assert _verdicts(wire, said) == ["duplicate"] * 3


def test_gap_on_a_full_disk_is_repaired_later(
    wire: Wire, store: RecordStore, clock: ManualClock, job: JobRecord, say: Say
) -> None:
    """Without room nothing of the gap counts as journaled: its events are taken when they come again."""

    class Full(SystemFiles):
        full = True

        @override
        def write_at(self, descriptor: int, data: bytes, position: int) -> None:
            if self.full and len(data) != SLOT_BYTES:
                raise OSError(errno.ENOSPC, "No space left on device")
            super().write_at(descriptor, data, position)

    said = [say(job, 1, "started"), say(job, 2, "progress")]
    for event, payload in said:
        store.apply(job.job_id, event, payload, source="publisher")
    assert _verdicts(wire, said[1:]) == ["accepted"]
    files = Full()
    files.full = False
    with JournalWriter(wire.journal.with_name("full"), clock=clock, files=files) as writer:
        repair = GapRepair(
            store=store, views=wire.views, topics=Topics(), writer=writer, on_journaled=pytest.fail
        )
        files.full = True
        repair(job.job_id, range(1, 2))
        assert writer.next_offset == 0
    assert _verdicts(wire, said) == ["accepted", "duplicate"]


def test_gap_of_a_remote_worker_is_reported(
    wire: Wire, job: JobRecord, say: Say, caplog: pytest.LogCaptureFixture
) -> None:
    """A gap that we cannot fill is reported; the late event is kept when it comes."""
    assert _verdicts(wire, [say(job, 1, "started")]) == ["accepted"]
    judged = wire.hear(*say(job, 3, "progress"))
    assert list(judged.missing) == [2]
    wire.repair(job.job_id, judged.missing)
    assert "did not arrive" in caplog.text
    late = wire.hear(*say(job, 2, "progress"))
    assert (late.verdict, late.keep) == ("late", True)


def test_unknown_job(wire: Wire, job: JobRecord, say: Say) -> None:
    """A job without a record is unknown, however well its event is signed."""
    assert _verdicts(wire, [say(job._replace(job_id="ffffffff"), 1, "started")]) == ["unknown_job"]


def test_retained_terminal_event_of_a_local_job(
    wire: Wire, store: RecordStore, job: JobRecord, say: Say
) -> None:
    """The broker's copy of a terminal event fills the journal where the first delivery was missed."""
    said = [say(job, 1, "started"), say(job, 2, "completed")]
    for event, payload in said:
        store.apply(job.job_id, event, payload, source="publisher")
    assert wire.hear(*said[1], retain=True).verdict == "accepted"


def test_memory_is_bounded(store: RecordStore, job: JobRecord, say: Say) -> None:
    """A job that speaks for ever, and many jobs, do not fill the memory; old replays stay refused."""
    views = Views(store, max_jobs=2)
    admit = WireAdmission(topics=Topics(), views=views)
    record = job
    first = say(record, 1, "started")
    for seq in range(1, 700):
        _, payload = say(record, seq, "started" if seq == 1 else "progress")
        assert admit(Message(Topics().events(job.job_id), payload, False, 1, 1)).verdict == "accepted"
        if seq % 100 == 0:
            with store.locked(job.job_id) as locked:
                record = locked.replace(
                    locked.record._replace(status=Status.RUNNING, last_seq=seq, confirmed_seq=seq),
                    cause="folded",
                )
            views.folded(record)
    known = views.get(job.job_id)
    assert known is not None
    assert len(known.view._digests) < 400
    assert admit(Message(Topics().events(job.job_id), first[1], False, 1, 1)).verdict == "replayed"
    for number in range(5):
        other = f"{number:08x}"
        store.create(job._replace(job_id=other))
        views.get(other)
    assert len(views) <= 3


def test_refused_events_do_not_count_as_seen(
    wire: Wire, store: RecordStore, job: JobRecord, say: Say
) -> None:
    """A lost `started` that comes after what it was to open is taken, also if the history tells of that."""
    started, progress = say(job, 1, "started"), say(job, 3, "progress")
    assert _verdicts(wire, [progress]) == ["illegal_transition"]
    line, _ = event_line(
        at=job.created_at,
        source="wire",
        verdict="illegal_transition",
        attempt=1,
        seq=3,
        digest=payload_digest(progress[1]),
        payload=progress[1],
    )
    append_durably(store.audit(job.job_id).events_path, line, files=SystemFiles())
    fresh = WireAdmission(topics=Topics(), views=Views(store))
    assert (
        _verdicts(wire._replace(admit=fresh), [started, say(job, 2, "progress"), progress])
        == ["accepted"] * 3
    )
