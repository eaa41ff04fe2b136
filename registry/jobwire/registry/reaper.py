"""Reaping: jobs that reached a limit are moved on, under the queue's lock."""

from collections.abc import Callable, Container
from typing import NamedTuple

from jobwire.core.errors import JobwireError, NotFoundError
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import JobRecord
from jobwire.registry.deadlines import overdue
from jobwire.registry.pending import PendingIndex, Warn
from jobwire.registry.store import REAPER, RecordStore
from jobwire.storage.file_lock import LockTimeoutError

_PAGE = 100
# Everybody waits for the queue meanwhile.
_LOCK_SECONDS = 0.1
_AGAIN_SECONDS = 5.0
# A record that cannot be read now will most likely not be in five seconds either.
_UNREADABLE_SECONDS = 60.0


class Reaped(NamedTuple):
    """One job that was moved on, from which state, and why."""

    record: JobRecord
    before: Status
    cause: str


def reap_due(
    store: RecordStore,
    index: PendingIndex,
    *,
    new_token: Callable[[], str],
    warn: Warn,
    until: float | None = None,
    limit: int | None = None,
    skip: Container[str] = frozenset(),
) -> list[Reaped]:
    """Move on every job (up to `limit` of them looked at) whose lease or timeout ran out by `until`.

    But for those in `skip`, which are looked at again later. `until` is epoch seconds, now where it is left
    out: what was said later need not be in the records.
    The caller holds the queue's lock and refreshed `index`. Its rows are lower bounds: a job that shows
    a sign of life gets its new one instead.
    """
    until = store.clock.now() if until is None else until
    reaped: list[Reaped] = []
    looked_at = 0
    while limit is None or looked_at < limit:
        page = index.due(until, _PAGE if limit is None else min(_PAGE, limit - looked_at))
        if not page:
            break
        looked_at += len(page)
        for job_id in page:
            if job_id in skip:
                index.postpone(job_id, store.clock.now() + _AGAIN_SECONDS)
                continue
            done = _reap_one(store, index, job_id, until, new_token=new_token, warn=warn)
            if done is not None:
                reaped.append(done)
    return reaped


def _reap_one(
    store: RecordStore,
    index: PendingIndex,
    job_id: str,
    until: float,
    *,
    new_token: Callable[[], str],
    warn: Warn,
) -> Reaped | None:
    try:
        with store.locked(job_id, deadline_seconds=_LOCK_SECONDS) as locked:
            before = locked.record
            moved = overdue(before, store.clock.now(), until=until, new_token=new_token)
            if moved is not None:
                locked.replace(moved[0], cause=moved[1], source=REAPER)
    except NotFoundError:
        index.remove(job_id)
        return None
    except LockTimeoutError as error:
        # One locked or unreadable job must not keep the others waiting.
        warn(str(error))
        index.postpone(job_id, store.clock.now() + _AGAIN_SECONDS)
        return None
    except JobwireError as error:
        warn(str(error))
        index.postpone(job_id, store.clock.now() + _UNREADABLE_SECONDS)
        return None
    index.put(locked.record)
    return Reaped(locked.record, before.status, moved[1]) if moved is not None else None
