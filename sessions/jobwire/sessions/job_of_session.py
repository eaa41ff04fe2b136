"""What the sessions do to jobs: end them with a reason, keep their leases, tell what became of them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

from jobwire.core.errors import ConflictError, JobwireError, NotFoundError
from jobwire.core.lease import LeaseGrant
from jobwire.jobs import fold
from jobwire.jobs.lifecycle import Status
from jobwire.registry.store import RecordStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobwire.jobs.record import JobRecord

# Who holds the lease of a job in a session: while its pane lives, the registry process renews it.
OWNER = "session:"


class JobSeen(NamedTuple):
    """A session's job as `reconcile` sees it. `heard`: its agent has said something."""

    status: str
    terminal: bool
    attention: bool
    heard: bool


def owner_of(session: str) -> str:
    """Return the name under which a session holds its job's lease."""
    return f"{OWNER}{session}"


def see_job(home: str, job_id: str) -> JobSeen | None:
    """Return the job; None where there is none. Raises StorageError where it cannot be read."""
    try:
        record = RecordStore(home).get(job_id)
    except NotFoundError:
        return None
    # The first event of an attempt is ours: `started`, before the instructions are handed over.
    heard = record.last_seq > record.attempt_seq + 1
    return JobSeen(str(record.status), record.terminal, record.attention, heard)


def cancel_job(home: str, job_id: str, cause: str) -> bool:
    """Cancel the job; False where it has ended, or is gone."""
    return _changed(home, job_id, lambda record, now: fold.cancel(record, now, cause), cause)


def fail_job(home: str, job_id: str, cause: str) -> bool:
    """End the job in error; False where it has ended, or is gone."""
    return _changed(home, job_id, lambda record, now: fold.fail(record, now, cause), cause)


def renew_lease(home: str, job_id: str, session: str) -> None:
    """Renew what the session holds, where it still does and it is time for it."""
    store = RecordStore(home)
    owner = owner_of(session)
    record = store.get(job_id)
    lease = record.lease
    if record.status is not Status.RUNNING or lease is None or lease.owner != owner:
        return
    with contextlib.suppress(JobwireError), store.locked(job_id) as locked:
        renewed = fold.renew(locked.record, LeaseGrant(owner, lease.seconds), store.clock.now())
        locked.replace(renewed, cause="its pane lives")


def _changed(home: str, job_id: str, change: Callable[[JobRecord, float], JobRecord], cause: str) -> bool:
    store = RecordStore(home)
    try:
        with store.locked(job_id) as locked:
            if locked.record.terminal:
                return False
            locked.replace(change(locked.record, store.clock.now()), cause=cause)
    except (NotFoundError, ConflictError):
        return False
    return True
