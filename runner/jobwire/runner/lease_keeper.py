"""The worker's hold on its job: renews the lease, and notices when the job was taken away."""

from jobwire.core.clock import Clock, epoch
from jobwire.core.errors import NotFoundError, StorageError
from jobwire.core.lease import LeaseGrant
from jobwire.jobs.fold import renew
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import JobRecord, ended_by_event
from jobwire.registry.store import RecordStore
from jobwire.runner.job_end import cancel_job, fail_job

# A command may be silent for hours: its worker still shows that it lives.
CHECK_SECONDS = 1.0
# The watcher ends the job at its limits and says so; where there is no watcher, the worker does.
_MARGIN_SECONDS = 2.0


class LeaseKeeper:
    """Looks at the record once a second and renews the lease at a third of its length."""

    def __init__(
        self, store: RecordStore, *, job_id: str, attempt: int, grant: LeaseGrant, clock: Clock
    ) -> None:
        self._store = store
        self._job_id = job_id
        self._attempt = attempt
        self._grant = grant
        self._clock = clock
        self._began = clock.monotonic()
        self._next_check = self._began
        self._next_renewal = self._began + grant.seconds / 3

    def holds(self) -> bool:
        """Tell whether the command may go on; True while the disk cannot tell.

        It may where the job has ended by its own word: then its command ends when it is done.
        """
        now = self._clock.monotonic()
        if now < self._next_check:
            return True
        self._next_check = now + CHECK_SECONDS
        try:
            record = self._store.get(self._job_id)
            if not self._ours(record) or self._expired(record, now):
                return False
            if record.status is Status.RUNNING and now >= self._next_renewal:
                self._renew(now)
        except NotFoundError:
            return False
        except StorageError:
            return True
        return True

    def waiting(self) -> bool:
        """Tell whether the job waits for a permission; raises StorageError and NotFoundError."""
        return self._store.get(self._job_id).attention

    def give_up(self, cause: str) -> None:
        """Cancel the job, durably; does nothing to one that has ended. Raises StorageError."""
        cancel_job(self._store, self._job_id, cause, source="worker")

    def _ours(self, record: JobRecord) -> bool:
        if record.attempt != self._attempt:
            return False
        return not record.terminal or ended_by_event(record)

    def _expired(self, record: JobRecord, now: float) -> bool:
        limit, idle = record.timeouts.wall_seconds, record.timeouts.idle_seconds
        if limit is not None and now >= self._began + limit + _MARGIN_SECONDS:
            self._end(f"wall timeout: not finished within {limit:g} s", "wall")
            return True
        if idle is None or record.status is not Status.RUNNING or record.attention:
            return False
        silent = self._clock.now() - epoch(record.idle_since or record.updated_at)
        if silent < idle + _MARGIN_SECONDS:
            return False
        self._end(f"idle timeout: no event for {idle:g} s", "idle")
        return True

    def _end(self, cause: str, limit: str) -> None:
        fail_job(self._store, self._job_id, cause, timeout=limit, source="worker")

    def _renew(self, now: float) -> None:
        with self._store.locked(self._job_id) as locked:
            if locked.record.lease is not None and locked.record.lease.owner == self._grant.owner:
                locked.replace(
                    renew(locked.record, self._grant, self._store.clock.now()), cause="the worker lives"
                )
        self._next_renewal = now + self._grant.seconds / 3
