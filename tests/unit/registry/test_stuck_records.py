"""One record that is locked for ever, or cannot be read: everybody else goes on."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from jobwire.core.errors import NoWorkError, StorageError
from jobwire.core.lease import LeaseGrant
from jobwire.core.override import override
from jobwire.registry import quarantine
from jobwire.registry.queue import JobQueue
from jobwire.registry.spec import JobSpec
from jobwire.registry.store import RecordStore
from jobwire.storage import file_lock
from jobwire.testing import ManualClock


@contextmanager
def _held(store: RecordStore, *job_ids: str) -> Iterator[None]:
    """Hold the jobs' locks, as a publisher does that was stopped (SIGSTOP) at the wrong moment."""
    with ExitStack() as stack:
        for job_id in job_ids:
            stack.callback(file_lock.release, file_lock.try_acquire(store.lock_path(job_id)) or 0)
        yield


def _register(queue: JobQueue, **fields: str) -> str:
    return queue.register(JobSpec(**fields)).record.job_id  # type: ignore[arg-type]  # only texts are given


def _write(store: RecordStore, job_id: str, before: bytes, after: bytes) -> None:
    path = Path(store.record_path(job_id))
    path.write_bytes(path.read_bytes().replace(before, after))
    store.touch(job_id)


def test_a_locked_job_is_passed_over(queue: JobQueue, clock: ManualClock) -> None:
    """A pick takes the next job instead, soon; the locked one is picked when it is free."""
    first, second = _register(queue), _register(queue)
    with _held(queue.store, first):
        assert queue.pick(LeaseGrant("me")).job_id == second
    assert sum(clock.slept) <= 0.3
    assert queue.pick(LeaseGrant("me")).job_id == first


def test_only_locked_jobs(queue: JobQueue, clock: ManualClock) -> None:
    """Where every job is locked there is no work, which is said within a second, with the reason."""
    jobs = [_register(queue) for _ in range(10)]
    with _held(queue.store, *jobs), pytest.raises(NoWorkError) as caught:
        queue.pick(LeaseGrant("me"))
    assert sum(clock.slept) <= 1.1
    assert caught.value.facts["locked"] == 10
    assert "locked" in caught.value.hint


def test_a_job_that_is_locked_for_a_moment(store: RecordStore, warnings: list[str]) -> None:
    """The only job is not missed because somebody was just writing it."""

    class Releasing(ManualClock):
        descriptor: int | None = None

        @override
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            if self.descriptor is not None and self.monotonic() > 1000.5:
                file_lock.release(self.descriptor)
                self.descriptor = None

    clock = Releasing()
    queue = JobQueue(RecordStore(store.home, clock=clock), warn=warnings.append)
    job = _register(queue)
    clock.descriptor = file_lock.try_acquire(store.lock_path(job))
    assert queue.pick(LeaseGrant("me")).job_id == job


def test_waiting_for_a_locked_job(queue: JobQueue, clock: ManualClock) -> None:
    """A pick that waits looks again and again until the time is up."""
    with _held(queue.store, _register(queue)), pytest.raises(NoWorkError):
        queue.pick(LeaseGrant("me"), wait_seconds=2)
    assert 2 <= sum(clock.slept) <= 4


def test_register_beside_a_locked_job(queue: JobQueue, clock: ManualClock) -> None:
    """Neither a key nor a session is looked up under anybody's lock."""
    job = _register(queue, idempotency_key="k", agent_session="s")
    with _held(queue.store, job):
        assert _register(queue, idempotency_key="k") == job
        assert queue.register(JobSpec(agent_session="s", unique_session=True)).record.job_id == job
        assert _register(queue) != job
    assert clock.slept == []


def test_a_later_version_beside_others(queue: JobQueue, warnings: list[str]) -> None:
    """A record of a later version is reported by each look at the jobs, left in place, and stops nobody."""
    later, other = _register(queue, idempotency_key="k", agent_session="s"), _register(queue)
    _write(queue.store, later, b'"schema_version": 1', b'"schema_version": 7')
    for _ in range(2):
        warnings.clear()
        assert [record.job_id for record in queue.list()] == [other]
        assert any("schema version 7" in warning for warning in warnings)
    assert queue.pick(LeaseGrant("me"), any_session=True).job_id == other
    with pytest.raises(NoWorkError, match="no pending") as caught:
        queue.pick(LeaseGrant("me"), any_session=True)
    assert "cannot be read" in caught.value.hint
    for spec in (JobSpec(idempotency_key="k"), JobSpec(agent_session="s", unique_session=True)):
        with pytest.raises(StorageError, match="schema version 7"):
            queue.register(spec)
    assert queue.counts() == {"running": 1, "unreadable": 1}
    queue.reindex()
    assert quarantine.find(queue.store.jobs_path()) == []
    _write(queue.store, later, b'"schema_version": 7', b'"schema_version": 1')
    assert queue.pick(LeaseGrant("me"), any_session=True).job_id == later


def test_a_record_that_can_be_read_again(queue: JobQueue, clock: ManualClock) -> None:
    """What was put right by hand is picked without anybody being told: the reaper looks at it again."""
    job = _register(queue)
    path = Path(queue.store.record_path(job))
    good = path.read_bytes()
    _write(queue.store, job, b"{", b"[")
    with pytest.raises(NoWorkError):
        queue.pick(LeaseGrant("me"))
    path.write_bytes(good)
    clock.advance(11)
    assert queue.pick(LeaseGrant("me")).job_id == job


def test_looking_moves_nothing(queue: JobQueue, warnings: list[str]) -> None:
    """A damaged record is reported by `list` and stays; who would change it moves it to quarantine."""
    job = _register(queue)
    _write(queue.store, job, b"{", b"[")
    assert queue.list() == []
    assert any(job in warning for warning in warnings)
    assert quarantine.find(queue.store.jobs_path()) == []
    with pytest.raises(quarantine.QuarantinedRecordError):
        queue.cancel(job)
    assert [item.job_id for item in quarantine.find(queue.store.jobs_path())] == [job]


def test_reindex_sets_damaged_records_aside(queue: JobQueue) -> None:
    """Making the index again is the occasion to move what nobody can read."""
    job, other = _register(queue), _register(queue)
    _write(queue.store, job, b"{", b"[")
    assert queue.reindex() == 1
    assert [item.job_id for item in quarantine.find(queue.store.jobs_path())] == [job]
    assert [record.job_id for record in queue.list()] == [other]
