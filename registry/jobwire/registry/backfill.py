"""Brings the journal up to records that are older than the registry process.

What a publisher on this disk said before a registry process was there stands in record and history,
and nobody will send it again: its outbox was emptied by the PUBACK.
"""

import logging

from jobwire.core.errors import JobwireError
from jobwire.delivery.outbox import Outbox
from jobwire.jobs.record import JobRecord
from jobwire.registry.queue import JobQueue
from jobwire.registry.store import RecordStore
from jobwire.registry.views import Views
from jobwire.registry.wire import GapRepair

_log = logging.getLogger("jobwire.registry")


def backfill(queue: JobQueue, views: Views, repair: GapRepair) -> int:
    """Journal what unfinished jobs said and nobody will send; return the number of jobs. One look at each."""
    with queue.index() as index:
        unfinished = index.unfinished()
    count = 0
    for job_id in unfinished:
        try:
            count += _backfill(job_id, queue.store, views, repair)
        except JobwireError as error:
            # Gone, or not to be read now: the fold sets it aside as soon as there is something to fold.
            _log.warning("job %s is left for the next start: %s", job_id, error)
    return count


def _backfill(job_id: str, store: RecordStore, views: Views, repair: GapRepair) -> bool:
    record = store.get(job_id)
    state = views.get(job_id) if record.last_seq > record.confirmed_seq else None
    if state is None:
        return False
    coming = _still_sent(store, record)
    wanted = [seq for seq in state.unjournaled if seq not in coming]
    if wanted:
        repair.journal(job_id, state, wanted)
    return bool(wanted)


def _still_sent(store: RecordStore, record: JobRecord) -> set[int]:
    """Return the seqs that the outbox holds for the present attempt: no other is sent."""
    entries = Outbox(store.outbox_path(record.job_id), files=store.files).entries()
    return {entry.seq for entry in entries if entry.attempt == record.attempt}
