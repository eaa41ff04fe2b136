"""Brings the journal up to records that are older than the registry process.

What a publisher on this disk said before a registry process was there stands in record and history,
and nobody will send it again: its outbox was emptied by the PUBACK.
"""

from jobwire.core.errors import JobwireError
from jobwire.core.record import JobRecord
from jobwire.registry.outbox import Outbox
from jobwire.registry.queue import JobQueue
from jobwire.registry.store import RecordStore
from jobwire.registry.views import Views
from jobwire.registry.wire import GapRepair


def backfill(queue: JobQueue, views: Views, repair: GapRepair) -> int:
    """Journal what unfinished jobs said and nobody will send; return the number of jobs. One look at each."""
    with queue.index() as index:
        unfinished = index.unfinished()
    count = 0
    for job_id in unfinished:
        try:
            record = queue.store.get(job_id)
        except JobwireError:
            continue  # gone, or reported by whoever works with it
        known = views.known(job_id) if record.last_seq > record.confirmed_seq else None
        if known is None:
            continue
        coming = _still_sent(queue.store, record)
        wanted = [seq for seq in known.unjournaled if seq not in coming]
        if wanted:
            repair.journal(job_id, known, wanted)
            count += 1
    return count


def _still_sent(store: RecordStore, record: JobRecord) -> set[int]:
    """Return the seqs that the outbox holds for the present attempt: no other is sent."""
    entries = Outbox(store.outbox_path(record.job_id), files=store.files).entries()
    return {entry.seq for entry in entries if entry.attempt == record.attempt}
