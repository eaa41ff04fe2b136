"""The queue: register, pick, claim, renew, release, cancel, dismiss, update, list.

Every operation that chooses among jobs holds the queue's lock, every change the record's as well (in
that order). Nothing here needs a running process.
"""

import secrets
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from jobwire.core import lease
from jobwire.core.clock import utc_timestamp
from jobwire.core.errors import ConflictError, NotFoundError
from jobwire.core.lease import LeaseGrant
from jobwire.core.signature import new_token
from jobwire.jobs import fold
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import DISMISSED, JobRecord, dismissed_at
from jobwire.registry.claiming import Unclaimed, check_names, check_pending, held_grant, no_work
from jobwire.registry.deadlines import ready_at
from jobwire.registry.health import is_running
from jobwire.registry.layout import TOUCHED
from jobwire.registry.listing import Listing
from jobwire.registry.pending import POSITION, PendingIndex, Warn
from jobwire.registry.quarantine import QuarantinedRecordError, UnreadableRecordError
from jobwire.registry.reaper import Reaped, reap_due
from jobwire.registry.spec import (
    Change,
    Expectation,
    JobSpec,
    changed,
    check_change,
    check_expected,
    check_reason,
    check_spec,
    new_record,
)
from jobwire.registry.store import RecordStore
from jobwire.storage import file_lock

# A rebuild of the index over 100,000 records takes seconds, and everybody waits for it.
QUEUE_DEADLINE_SECONDS = 30.0
# Overdue jobs looked at by one pick: enough that no registry process is needed, few enough to stay quick.
_REAPED_BY_PICK = 20
# So long a pick waits for locks of jobs, all in all.
_BUSY_SECONDS = 1.0
_DISMISS_PAGE = 200
_POLL_SECONDS = 0.05
_LOOK_AGAIN_SECONDS = 1.0


class Registered(NamedTuple):
    """The job, and whether this call made it (False: it existed under the key or for the session)."""

    record: JobRecord
    created: bool

    @property
    def job_id(self) -> str:
        """Return the job's id."""
        return self.record.job_id


class JobQueue:
    """The operations on all jobs of one store. Safe for any number of processes and threads.

    All of them may raise LockTimeoutError and StorageError besides what they name.
    """

    def __init__(self, store: RecordStore, *, warn: Warn) -> None:
        self.store = store
        self._warn = warn
        self._index = PendingIndex(store, warn=warn)
        self._listing = Listing(store, warn=warn, index=self.index)
        self.unread = self._listing.unread

    def register(self, spec: JobSpec, claimed: LeaseGrant | None = None) -> Registered:
        """Create a job, or return the one that its key or its session already has.

        It is pending, or with `claimed` runs already, so that nobody else can pick it in between. Raises
        InvalidInputError naming the field of `spec` that is not acceptable.
        """
        check_spec(spec)
        with self.index() as index:
            existing = self._existing(spec, index)
            if existing is not None:
                self.store.flush_names()
                return Registered(existing, created=False)
            record = self._compose(spec, index)
            cause = "registered"
            if claimed is not None:
                record = fold.claim(record, claimed, self.store.clock.now())
                cause = f"registered and claimed by {claimed.owner}"
            self.store.create(record, cause=cause)
            return Registered(record, created=True)

    def pick(
        self,
        grant: LeaseGrant,
        *,
        agent_session: str | None = None,
        any_session: bool = False,
        wait_seconds: float = 0.0,
    ) -> JobRecord:
        """Claim the oldest job of the highest priority that matches, for exactly one caller.

        A session matches jobs addressed to it or to nobody; None those addressed to nobody, or all
        with `any_session`. Blocks up to `wait_seconds`, then raises NoWorkError.
        """
        clock = self.store.clock
        lease.grant(grant, clock.now())  # before anything is looked at: whether it can be granted at all
        check_names(agent_session=agent_session)
        give_up = clock.monotonic() + wait_seconds
        self.store.make_layout()
        while True:
            seen = self._changes()
            with self.index() as index:
                # A registry process knows of events that are not in the records yet: it reaps itself.
                limit = 0 if is_running(self.store) else _REAPED_BY_PICK
                reap_due(self.store, index, new_token=new_token, warn=self._warn, limit=limit)
                record, busy = self._claim_next(grant, agent_session, index, any_session=any_session)
                rest = Unclaimed(index.waiting_elsewhere(), index.resting(), busy, len(index.unreadable()))
            if record is not None:
                return record
            if not self._wait_for_change(seen, give_up):
                raise no_work(agent_session, rest)

    def claim(self, job_id: str, grant: LeaseGrant, *, cause: str = "") -> JobRecord:
        """Claim this very job, whatever else is pending, for exactly one caller.

        Raises ConflictError for a job that is not pending or rests: facts status, owner.
        """
        with self.store.locked(job_id) as locked:
            now = self.store.clock.now()
            check_pending(locked.record, now)
            return locked.replace(
                fold.claim(locked.record, grant, now), cause=cause or f"claimed by {grant.owner}"
            )

    def renew(
        self,
        job_id: str,
        *,
        seconds: float | None = None,
        owner: str | None = None,
        attempt: int | None = None,
    ) -> JobRecord:
        """Extend the lease of its holder, named by owner or by attempt; raises StoppedError for others.

        By the seconds granted before, or by `seconds`, which are then the new grant.
        """
        check_names(owner=owner)
        with self.store.locked(job_id) as locked:
            grant = held_grant(locked.record, owner, attempt)
            if seconds is not None:
                grant = grant._replace(seconds=seconds)
            renewed = fold.renew(locked.record, grant, self.store.clock.now())
            return locked.replace(renewed, cause=f"renewed by {grant.owner}")

    def release(
        self, job_id: str, *, owner: str | None = None, attempt: int | None = None, reason: str = ""
    ) -> JobRecord:
        """Give the job back: pending as the next attempt, or error after the last one allowed.

        Raises StoppedError for anybody but the lease's holder, InvalidInputError for the reason.
        """
        check_names(owner=owner)
        check_reason(reason)
        with self.store.locked(job_id) as locked:
            grant = held_grant(locked.record, owner, attempt)
            now = self.store.clock.now()
            fold.renew(locked.record, grant, now)
            cause = f"released by {grant.owner}" + (f": {reason}" if reason else "")
            after = fold.next_attempt(locked.record, new_token(), now, cause)
            return locked.replace(after, cause=after.detail, by=grant.owner)

    def cancel(self, job_id: str, *, reason: str = "", by: str = "") -> tuple[JobRecord, bool]:
        """Cancel, durably; return the record and whether this call did it.

        In the name of `by`, else of this process's user.

        Raises ConflictError where the job ended otherwise, InvalidInputError for the reason.
        """
        check_reason(reason)
        check_names(author=by or None)
        cause = reason or "cancelled"
        with self.store.locked(job_id) as locked:
            before = locked.record
            after = fold.cancel(before, self.store.clock.now(), cause)
            return locked.replace(after, cause=cause, by=by), after is not before

    def dismiss(self, job_id: str) -> tuple[JobRecord, bool]:
        """Mark a failed job as seen by a person, durably; return the record and whether this call did it.

        It no longer counts as a failure anywhere (`core.record.dismissed_at`). Raises ConflictError for
        a job that did not end in error.
        """
        with self.store.locked(job_id) as locked:
            before = locked.record
            if before.status is not Status.ERROR:
                raise ConflictError(
                    f"job {job_id} is {before.status}: only a job that ended in error can be dismissed",
                    status=str(before.status),
                )
            if dismissed_at(before) is not None:
                return before, False
            extra = {**before.extra, DISMISSED: utc_timestamp(self.store.clock.now())}
            return locked.replace(before._replace(extra=extra), cause="dismissed"), True

    def dismiss_failed(self) -> list[JobRecord]:
        """Dismiss every failed job that is not dismissed, and return those; unreadable ones are reported."""
        dismissed: list[JobRecord] = []
        page = self._failures("")
        while page:
            for job_id in page:
                try:
                    record, changed = self.dismiss(job_id)
                except (NotFoundError, QuarantinedRecordError) as error:
                    self._warn(str(error))
                    continue
                dismissed += [record] if changed else []
            page = self._failures(page[-1])
        return dismissed

    def update(
        self,
        job_id: str,
        change: Change,
        *,
        status: Status | None = None,
        reason: str = "",
        expect: Expectation = Expectation(),  # noqa: B008 - immutable
    ) -> JobRecord:
        """Compare and set: change fields, and the status where `status` is given.

        `status` may be cancelled, error or pending (`fold.retry`); the other two belong to workers.
        Raises InvalidInputError for a field that registration would refuse, ConflictError with the
        present state in `facts["present"]` where it is not as expected, TransitionError where the
        lifecycle forbids it.
        """
        check_change(change)
        check_reason(reason)
        with self.store.locked(job_id) as locked:
            check_expected(locked.record, expect)
            now = self.store.clock.now()
            after = changed(locked.record, change, now)
            if status is not None:
                after = self._moved(after, status, now, reason or f"set to {status} by update")
            return locked.replace(after, cause=reason or "update")

    def reap(self, *, until: float | None = None, skip: Container[str] = frozenset()) -> list[Reaped]:
        """Move on and return every job whose lease or timeout ran out by `until`: epoch seconds, else now.

        Leaves out those in `skip`.
        """
        with self.index() as index:
            return reap_due(self.store, index, new_token=new_token, warn=self._warn, until=until, skip=skip)

    def list(
        self, *, statuses: Iterable[Status] = (), agent_session: str | None = None, limit: int = 50
    ) -> list[JobRecord]:
        """Return up to `limit` matching records, newest first; unreadable ones are reported and left out.

        `unread` then names those that the operating system kept from us.
        """
        check_names(agent_session=agent_session)
        return self._listing.records(frozenset(statuses), agent_session, limit)

    def counts(self) -> dict[str, int]:
        """Return the number of jobs by status."""
        if not self.store.has_jobs():
            return {}
        with self.index() as index:
            return index.counts()

    def reindex(self) -> int:
        """Make the index again from all records and return their number."""
        with self._lock():
            return self._index.rebuild(repair=True)

    def close(self) -> None:
        """Close the index; the next operation opens it again."""
        self._index.close()

    @contextmanager
    def index(self) -> Iterator[PendingIndex]:
        """Hold the queue's lock for the block and yield the refreshed index."""
        with self._lock():
            self._index.refresh()
            yield self._index

    @contextmanager
    def _lock(self) -> Iterator[None]:
        self.store.make_layout()
        with file_lock.held(
            self.store.lock_path("queue"),
            clock=self.store.clock,
            deadline_seconds=QUEUE_DEADLINE_SECONDS,
            what="the queue",
        ):
            yield

    def _changes(self) -> int:
        """Return what differs after a record was marked: the directory's time stamp."""
        return Path(self.store.queue_path(TOUCHED)).stat().st_mtime_ns

    def _wait_for_change(self, seen: int, give_up: float) -> bool:
        """Block until there may be something to pick; False at `give_up` (monotonic seconds).

        Looks at one time stamp and takes no lock, so many may wait. A lease that runs out leaves no
        mark: hence the end of the wait after a while.
        """
        clock = self.store.clock
        until = min(give_up, clock.monotonic() + _LOOK_AGAIN_SECONDS)
        if clock.monotonic() >= give_up:
            return False
        while self._changes() == seen and (left := until - clock.monotonic()) > 0:
            clock.sleep(min(_POLL_SECONDS, left))
        return True

    def _failures(self, after: str) -> Sequence[str]:
        if not self.store.has_jobs():
            return []
        with self.index() as index:
            return index.failures(after=after, limit=_DISMISS_PAGE)

    def _existing(self, spec: JobSpec, index: PendingIndex) -> JobRecord | None:
        if spec.idempotency_key is not None:
            job_id = index.by_key(spec.idempotency_key)
            if job_id is not None:
                return self.store.get(job_id)
        if spec.unique_session and spec.agent_session is not None:
            for job_id in index.open_of_session(spec.agent_session):
                record = self.store.get(job_id)
                if not record.terminal:
                    return record
        return None

    def _compose(self, spec: JobSpec, index: PendingIndex) -> JobRecord:
        now = self.store.clock.now()
        job_id = secrets.token_hex(4)
        while self.store.exists(job_id):
            job_id = secrets.token_hex(4)
        record = new_record(spec, job_id, new_token(), now)
        return record._replace(extra={**record.extra, POSITION: index.next_position(now)})

    def _claim_next(
        self, grant: LeaseGrant, session: str | None, index: PendingIndex, *, any_session: bool
    ) -> tuple[JobRecord | None, set[str]]:
        """Claim, and return the record, and the jobs that were passed over because their locks are held.

        Everybody waits for the queue's lock meanwhile, so nobody's lock is waited for long.
        """
        clock = self.store.clock
        give_up = clock.monotonic() + _BUSY_SECONDS
        busy: set[str] = set()
        while True:
            job_id = index.next_pending(session, any_session=any_session, now=clock.now(), skip=busy)
            left = give_up - clock.monotonic()
            if job_id is None:
                if not busy or left <= 0:
                    return None, busy
                busy = set()  # perhaps one of them was held for a moment only
            elif left <= 0 and file_lock.is_held(self.store.lock_path(job_id)):
                busy.add(job_id)
            else:
                try:
                    record = self._claim(job_id, grant, index, max(0.0, min(left, _BUSY_SECONDS / 4)))
                except file_lock.LockTimeoutError:
                    busy.add(job_id)
                else:
                    if record is not None:
                        return record, busy

    def _claim(
        self, job_id: str, grant: LeaseGrant, index: PendingIndex, deadline_seconds: float
    ) -> JobRecord | None:
        """Claim the job; None, with its row corrected, where it cannot be. Raises LockTimeoutError."""
        now = self.store.clock.now()
        try:
            with self.store.locked(job_id, deadline_seconds=deadline_seconds) as locked:
                if locked.record.status is Status.PENDING and (ready_at(locked.record) or now) <= now:
                    claimed = fold.claim(locked.record, grant, self.store.clock.now())
                    return locked.replace(claimed, cause=f"picked by {grant.owner}")
                # The row was behind the record, which is the truth.
                index.put(locked.record)
        except (NotFoundError, QuarantinedRecordError) as error:
            self._warn(str(error))
            index.remove(job_id)
        except UnreadableRecordError as error:
            self._warn(str(error))
            index.set_unreadable(job_id)
        return None

    def _moved(self, record: JobRecord, status: Status, now: float, cause: str) -> JobRecord:
        if status is Status.CANCELLED:
            return fold.cancel(record, now, cause)
        if status is Status.ERROR:
            return fold.fail(record, now, cause)
        return fold.retry(record, new_token(), now, cause)
