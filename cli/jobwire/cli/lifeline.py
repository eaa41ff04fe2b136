"""The worker's hold on its job: renews the lease, and notices when the job was taken away."""

from jobwire.core.clock import Clock
from jobwire.core.errors import NotFoundError, StorageError
from jobwire.core.fold import LeaseGrant, renew
from jobwire.core.lifecycle import Status
from jobwire.registry.store import RecordStore

# A command may be silent for hours: its worker still shows that it lives.
CHECK_SECONDS = 1.0


class Lifeline:
    """Looks at the record once a second and renews the lease at a third of its length."""

    def __init__(
        self, store: RecordStore, *, job_id: str, attempt: int, grant: LeaseGrant, clock: Clock
    ) -> None:
        self._store = store
        self._job_id = job_id
        self._attempt = attempt
        self._grant = grant
        self._clock = clock
        self._next_check = clock.monotonic()
        self._next_renewal = clock.monotonic() + grant.seconds / 3

    def holds(self) -> bool:
        """Tell whether the job is still this attempt's; True while the disk cannot tell."""
        now = self._clock.monotonic()
        if now < self._next_check:
            return True
        self._next_check = now + CHECK_SECONDS
        try:
            record = self._store.get(self._job_id)
            if record.status is not Status.RUNNING or record.attempt != self._attempt:
                return record.status is Status.PENDING and record.attempt == self._attempt
            if now >= self._next_renewal:
                self._renew(now)
        except NotFoundError:
            return False
        except StorageError:
            return True
        return True

    def _renew(self, now: float) -> None:
        with self._store.locked(self._job_id) as locked:
            if locked.record.lease is not None and locked.record.lease.owner == self._grant.owner:
                locked.replace(
                    renew(locked.record, self._grant, self._store.clock.now()), cause="the worker lives"
                )
        self._next_renewal = now + self._grant.seconds / 3
