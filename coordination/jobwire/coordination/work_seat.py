"""Who works in threads: an agent in one of its lives, and by what it proves that it holds one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jobwire.coordination.lease_file import FOLDER, VARIABLE, LeaseFile, LeaseToken, lease_lost, token_for
from jobwire.coordination.reading import thread_of
from jobwire.coordination.thread import InboxThread, check_open_thread
from jobwire.core import lease
from jobwire.core.errors import ConflictError
from jobwire.registry.store import RecordStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobwire.coordination.store import CoordinationStore
    from jobwire.jobs.record import JobRecord


class WorkSeat:
    """An agent, under its name and incarnation, with the store and the records that it works on.

    `keeps_leases`: what it is granted is kept in the home, so that its next command need not name it.
    """

    def __init__(
        self,
        store: CoordinationStore,
        agent: str,
        *,
        incarnation: str = "",
        environ: Mapping[str, str] | None = None,
        keeps_leases: bool = True,
    ) -> None:
        self.store = store
        self.agent = agent
        self.incarnation = incarnation
        self.environ = dict(os.environ if environ is None else environ)
        self.records = RecordStore(store.home, clock=store.clock)
        self._keeps_leases = keeps_leases

    def working(self, thread_id: str) -> InboxThread:
        """Return a thread that has a job; raises ConflictError (lease_lost) where nobody holds it."""
        thread = thread_of(self.store, thread_id)
        if thread.job_id is None:
            check_open_thread(thread)
            raise lease_lost(thread_id, "nobody has claimed it")
        return thread

    def check_holder(self, thread: InboxThread, record: JobRecord, given: str | None) -> LeaseToken:
        """Return the token of the holder that we are; raises ConflictError for anybody else."""
        if record.terminal:
            raise over(thread, str(record.status))
        inherited = self.environ.get(VARIABLE)
        kept = self.lease_file(thread.thread_id)
        named = token_for(given, inherited, kept, record.job_id, thread.thread_id)
        if named != LeaseToken(record.job_id, record.attempt) or not lease.holds(record.lease, self.agent):
            holder = record.lease.owner if record.lease is not None else "nobody"
            raise lease_lost(thread.thread_id, f"it is attempt {record.attempt} now, held by {holder}")
        return named

    def is_mine(self, thread_id: str, record: JobRecord) -> bool:
        """Tell whether we hold the job, in this life of ours."""
        if not lease.holds(record.lease, self.agent):
            return False
        held = next(iter(self.store.rows("lease", {"thread_id": thread_id})), None)
        token = str(LeaseToken(record.job_id, record.attempt))
        return held is None or held[1] != token or held[5] == self.incarnation

    def lease_file(self, thread_id: str) -> LeaseFile | None:
        """Return where the lease of a thread is kept."""
        if not self._keeps_leases:
            return None
        return LeaseFile(f"{self.store.home}/{FOLDER}", self.agent, self.incarnation, thread_id)


def over(thread: InboxThread, status: str) -> ConflictError:
    """Return the error for work in a thread whose job has ended."""
    return ConflictError(
        f"thread {thread.thread_id} is over: its job is {status}",
        hint="send a new task into it, or begin another",
        code="already_terminal",
        status=status,
    )
