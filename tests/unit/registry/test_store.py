"""Records on disk: read, changed, folded, set aside."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from jobwire.core.errors import ConflictError, InvalidInputError, NotFoundError, StorageError, TransitionError
from jobwire.core.lease import LeaseGrant
from jobwire.core.override import override
from jobwire.jobs.event import Event
from jobwire.jobs.fold import cancel, claim
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import JobRecord
from jobwire.registry.quarantine import QuarantinedRecordError, UnreadableRecordError, find
from jobwire.registry.queue import JobQueue
from jobwire.registry.spec import JobSpec
from jobwire.registry.store import RecordStore
from jobwire.storage.files import StrPath, SystemFiles
from jobwire.testing import ManualClock

Say = Callable[..., tuple[Event, bytes]]


def test_jobs_that_cannot_be_listed_are_an_error_of_storage(
    store: RecordStore, job: JobRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fails names the folder; no job is silently taken as absent."""
    assert list(store.job_ids()) == [job.job_id]

    def fails(path: str) -> None:
        raise OSError(errno.EIO, "input/output error", path)

    monkeypatch.setattr(os, "scandir", fails)
    with pytest.raises(StorageError, match="jobs"):
        list(store.job_ids())


def test_reading_creates_nothing(tmp_path: Path) -> None:
    """A look at an empty home is NotFoundError and leaves no directory behind."""
    store = RecordStore(tmp_path / "home")
    with pytest.raises(NotFoundError) as caught:
        store.get("00000000")
    assert "--home" in caught.value.hint
    assert not (tmp_path / "home").exists()
    assert list(store.job_ids()) == []


def test_only_the_owner_may_read(store: RecordStore, job: JobRecord) -> None:
    """Directories are 0700 and files 0600."""
    for path in Path(store.home).rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_round_trip(store: RecordStore, job: JobRecord) -> None:
    """What was created is what is read."""
    assert store.get(job.job_id) == job
    assert list(store.job_ids()) == [job.job_id]


def test_an_id_is_taken_once(store: RecordStore, job: JobRecord) -> None:
    """Creating an existing id is a conflict, and the first job stays."""
    with pytest.raises(ConflictError):
        store.create(job._replace(title="another"))
    assert store.get(job.job_id).title == "a job"


@pytest.mark.parametrize("name", ["../escape", "1A2B3C4D", "", "1a2b3c4d5", "1a2b3c4\n"])
def test_bad_ids(store: RecordStore, name: str) -> None:
    """What is no job id never becomes a path."""
    with pytest.raises(InvalidInputError):
        store.get(name)


def test_events_move_the_record(store: RecordStore, job: JobRecord, say: Say) -> None:
    """Accepted events are folded in, once each, and stand in the history with their signature."""
    for seq, kind in enumerate(("started", "progress", "completed"), 1):
        event, payload = say(job, seq, kind, detail=f"step {seq}")
        store.apply(job.job_id, event, payload, source="publisher")
        store.apply(job.job_id, event, payload, source="wire")
    record = store.get(job.job_id)
    assert (record.status, record.last_seq, record.detail) == (Status.COMPLETED, 3, "step 3")
    lines = list(store.audit(job.job_id).lines())
    assert [line["kind"] for line in lines] == ["status", "event", "event", "event"]
    assert [line.get("after") for line in lines] == ["pending", "running", None, "completed"]
    assert lines[3]["event"] == json.loads(payload)


def test_illegal_events_change_nothing(store: RecordStore, job: JobRecord, say: Say) -> None:
    """An event that the lifecycle forbids is refused before anything is written."""
    event, payload = say(job, 1, "completed")
    before = len(list(store.audit(job.job_id).lines()))
    with pytest.raises(TransitionError, match="pending"):
        store.apply(job.job_id, event, payload, source="publisher")
    assert store.get(job.job_id) == job
    assert len(list(store.audit(job.job_id).lines())) == before


def test_unknown_fields_survive(store: RecordStore, job: JobRecord) -> None:
    """A field that a later version wrote is still there after our rewrite."""
    path = Path(store.record_path(job.job_id))
    path.write_text(json.dumps({**json.loads(path.read_text()), "colour": ["green"]}))
    with store.locked(job.job_id) as locked:
        locked.replace(cancel(locked.record, store.clock.now(), "no"), cause="no")
    assert json.loads(path.read_text())["colour"] == ["green"]


def test_status_changes_are_in_the_history(store: RecordStore, job: JobRecord, clock: ManualClock) -> None:
    """Every change of status has its line with the cause; status.json follows."""
    with store.locked(job.job_id) as locked:
        locked.replace(claim(locked.record, LeaseGrant("me"), clock.now()), cause="picked by me")
    line = store.audit(job.job_id).last()
    assert line is not None
    assert (line["before"], line["after"], line["cause"]) == ("pending", "running", "picked by me")
    status = json.loads((Path(store.log_dir(job.job_id)) / "status.json").read_text())
    assert status["status"] == "running"


def test_a_copy_that_cannot_be_written_denies_nothing(
    store: RecordStore, job: JobRecord, caplog: pytest.LogCaptureFixture
) -> None:
    """A change is promised by its record: where only status.json fails, that is logged; no old one stays."""

    class NoCopies(SystemFiles):
        @override
        def create(self, path: StrPath, mode: int) -> int:
            if "status.json" in str(path):
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().create(path, mode)

    copy = Path(store.log_dir(job.job_id)) / "status.json"
    assert copy.exists()
    queue = JobQueue(RecordStore(store.home, clock=store.clock, files=NoCopies()), warn=pytest.fail)
    assert queue.cancel(job.job_id)[1]
    assert store.get(job.job_id).status is Status.CANCELLED
    assert "status.json" in caplog.text
    assert not copy.exists()
    assert queue.register(JobSpec()).created


def test_no_secret_in_the_logs(store: RecordStore, job: JobRecord, say: Say) -> None:
    """The token stands in the record alone."""
    store.apply(job.job_id, *say(job, 1, "started"), source="publisher")
    for path in Path(store.log_dir(job.job_id)).iterdir():
        assert job.auth_token not in path.read_text()


def test_equal_replacement_writes_nothing(store: RecordStore, job: JobRecord) -> None:
    """Replacing a record by itself leaves the file alone."""
    inode = Path(store.record_path(job.job_id)).stat().st_ino
    with store.locked(job.job_id) as locked:
        locked.replace(locked.record, cause="nothing")
    assert Path(store.record_path(job.job_id)).stat().st_ino == inode


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not JSON"),
        (b'{"schema_version": 1, "job_id": "1a2b', "not JSON"),
        (b"[]", "not a JSON object"),
        (b"\xff\xfe", "not JSON"),
        (b'{"schema_version": "1"}', "schema_version"),
        (b'{"schema_version": 0}', "schema_version"),
        (b'{"schema_version": 1}', "missing"),
    ],
)
def test_unreadable_records_are_set_aside(
    store: RecordStore, job: JobRecord, content: bytes, reason: str
) -> None:
    """A torn record is reported, moved to quarantine with its reason by who may write, and never absent."""
    path = Path(store.record_path(job.job_id))
    path.write_bytes(content)
    with pytest.raises(UnreadableRecordError, match=reason):
        store.get(job.job_id)
    assert path.read_bytes() == content
    for _ in range(2):
        with pytest.raises(QuarantinedRecordError, match=reason), store.locked(job.job_id):
            pass
    with pytest.raises(QuarantinedRecordError, match=reason):
        store.get(job.job_id)
    (item,) = find(store.jobs_path())
    assert item.job_id == job.job_id
    assert Path(item.path).read_bytes() == content
    assert list(store.job_ids()) == []


def test_a_later_version_is_left_alone(store: RecordStore, job: JobRecord) -> None:
    """A record that a later jobwire wrote is refused with its version, by everybody, and never moved."""
    path = Path(store.record_path(job.job_id))
    later = path.read_bytes().replace(b'"schema_version": 1', b'"schema_version": 2')
    path.write_bytes(later)
    for attempt in (store.get, store.repair):
        with pytest.raises(UnreadableRecordError, match="schema version 2") as caught:
            attempt(job.job_id)
        assert caught.value.facts["version"] == 2
        assert "later" in caught.value.hint
    assert path.read_bytes() == later
    assert find(store.jobs_path()) == []


def test_a_record_of_another_job_is_set_aside(store: RecordStore, job: JobRecord) -> None:
    """A record copied under another id is not taken for that job."""
    source, copy = Path(store.record_path(job.job_id)), Path(store.record_path("ffffffff"))
    copy.write_bytes(source.read_bytes())
    with pytest.raises(QuarantinedRecordError, match="1a2b3c4d"):
        store.repair("ffffffff")


def test_restored_record_is_used_again(store: RecordStore, job: JobRecord) -> None:
    """A record that was corrected and moved back is found."""
    path = Path(store.record_path(job.job_id))
    good = path.read_bytes()
    path.write_bytes(b"{")
    with pytest.raises(QuarantinedRecordError):
        store.repair(job.job_id)
    path.write_bytes(good)
    assert store.get(job.job_id) == job


def test_repeating_an_interrupted_change_writes_one_line(store: RecordStore, job: JobRecord) -> None:
    """A change whose line was written before a crash is finished without a second line."""
    with store.locked(job.job_id) as locked:
        cancelled = cancel(locked.record, store.clock.now(), "no")
        locked.replace(cancelled, cause="no")
        # As after a crash between the two: the history knows it, the record does not.
        locked.record = job
        locked.replace(cancelled, cause="no")
    assert [line["after"] for line in store.audit(job.job_id).lines()] == ["pending", "cancelled"]
