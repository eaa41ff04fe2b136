"""What sessions know of jobs, and do for them: what became of them, and their leases."""

from __future__ import annotations

import contextlib

from jobwire.coordination.sessions.reconcile import JobFact
from jobwire.core.errors import JobwireError, NotFoundError
from jobwire.core.lease import LeaseGrant
from jobwire.jobs import fold
from jobwire.jobs.lifecycle import Status
from jobwire.registry.store import RecordStore


def owner_of(session: str) -> str:
    """Return the name under which a session holds its job's lease.

    While its pane lives, the registry process renews it.
    """
    return f"session:{session}"


def see_job(home: str, job_id: str) -> JobFact | None:
    """Return the job; None where there is none. Raises StorageError where it cannot be read."""
    try:
        record = RecordStore(home).get(job_id)
    except NotFoundError:
        return None
    # The first event of an attempt is ours: `started`, before the instructions are handed over.
    heard = record.last_seq > record.attempt_seq + 1
    return JobFact(record.terminal, record.attention, heard, str(record.status))


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
