"""Lists the jobs, newest first: by the index, and where the disk refuses that, by reading every record."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager

from jobwire.core.errors import JobwireError, NotFoundError, StorageError
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import JobRecord
from jobwire.registry.pending import PendingIndex, Warn, position_of
from jobwire.registry.store import RecordStore


class Listing:
    """The records of one store as a list. `index` holds the queue's lock and yields the refreshed index.

    Records that cannot be read are reported to `warn` and left out; `unread` names those of the last list
    that the operating system kept from us.
    """

    def __init__(
        self, store: RecordStore, *, warn: Warn, index: Callable[[], AbstractContextManager[PendingIndex]]
    ) -> None:
        self._store = store
        self._warn = warn
        self._index = index
        self.unread: set[str] = set()

    def records(self, statuses: frozenset[Status], session: str | None, limit: int) -> list[JobRecord]:
        """Return up to `limit` matching records, newest first."""
        self.unread.clear()
        found: list[JobRecord] = []
        if limit <= 0 or not self._store.has_jobs():
            return found
        self._look_at_unreadable()
        for record in self._scan(statuses, session):
            if (not statuses or record.status in statuses) and session in {None, record.agent_session}:
                found.append(record)
                if len(found) == limit:
                    break
        return found

    def _look_at_unreadable(self) -> None:
        """Report the jobs whose records cannot be read, or have the index take up those that can again."""
        try:
            with self._index() as index:
                unreadable = index.unreadable()
            for job_id in unreadable:
                for _ in self._read([job_id]):
                    self._store.touch(job_id)
        except StorageError as error:
            # Where the index cannot be used every record is read, and reported.
            if "errno" not in error.facts:
                raise

    def _scan(self, statuses: frozenset[Status], session: str | None) -> Iterator[JobRecord]:
        try:
            yield from self._scan_index(statuses, session)
        except StorageError as error:
            # Reading needs no index, and a disk that is full or read-only can still be read.
            if "errno" not in error.facts:
                raise
            self._warn(f"{error.message}; reading all records instead")
            yield from sorted(self._read(self._store.job_ids()), key=position_of, reverse=True)

    def _scan_index(self, statuses: frozenset[Status], session: str | None) -> Iterator[JobRecord]:
        below: int | None = None
        while True:
            with self._index() as index:
                page = index.listing(statuses=sorted(statuses), session=session, below=below)
            if not page:
                return
            below = page[-1][1]
            yield from self._read(job_id for job_id, _ in page)

    def _read(self, job_ids: Iterable[str]) -> Iterator[JobRecord]:
        for job_id in job_ids:
            try:
                yield self._store.get(job_id)
            except NotFoundError:
                continue  # purged since
            except JobwireError as error:
                self._warn(str(error))
                if "errno" in error.facts:
                    self.unread.add(job_id)
