"""The index of the jobs: which is next, which is due, which has that key. A cache of the records.

Kept in SQLite without flushes, because the records are the truth. Whoever changes a record leaves an
empty file of its name in `queue/touched/` before and after the change; the next user of the index
reads those records again. So `publish_event` need not know of the index, and a crash between record
and index leaves the mark. Where no mark can be trusted (another boot of the machine, another version,
a damaged file) the index is made again from all records.

All methods are called under the queue's lock.
"""

import contextlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import TypeGuard

from jobwire.core.clock import epoch
from jobwire.core.errors import JobwireError, NotFoundError, StorageError
from jobwire.jobs.lifecycle import TERMINAL_STATUSES, Status
from jobwire.jobs.record import DISMISSED, RECORD_VERSION, JobRecord, Priority, dismissed_at
from jobwire.registry.deadlines import next_due, ready_at
from jobwire.registry.layout import TOUCHED
from jobwire.registry.pending_tables import BARE_TABLES, FILE, TABLES, record_version, set_made
from jobwire.registry.quarantine import QuarantinedRecordError
from jobwire.registry.store import RecordStore
from jobwire.storage.failures import storage_failure
from jobwire.storage.sqlite.failures import DamagedDatabaseError, DatabaseVersionError
from jobwire.storage.sqlite.schema import Schema
from jobwire.storage.sqlite.sqlite_file import SqliteFile, remove_database

_SEEN = ".seen"
# The status of a row whose record cannot be read: it is nobody's to pick, and reported.
UNREADABLE = "unreadable"
_LOOK_AGAIN_SECONDS = 10.0
_RANK = {Priority.HIGH: 0, Priority.NORMAL: 1, Priority.LOW: 2}
_PAGE = 200
# Greater than every position: records hold no larger integers.
_END = 1 << 53
# The record's own field (it survives as an unknown one) that keeps the order of registration over rebuilds.
POSITION = "queue_position"
# Likewise: the job's retained messages were cleared at the broker.
CLEARED = "retained_cleared"

Warn = Callable[[str], None]


class PendingIndex:
    """One connection to the index, opened at first use and again after a fork or a rebuild by others.

    `warn` is told of records that could not be read. Raises StorageError for the disk.
    """

    def __init__(self, store: RecordStore, *, warn: Warn) -> None:
        self._store = store
        self._warn = warn
        self._path = Path(store.queue_path(FILE))
        self._file: SqliteFile | None = None

    def refresh(self) -> None:
        """Bring the index up to the records: reads those that were marked since, or all if need be."""
        try:
            if self._open():
                self._drain()
                return
        except (DamagedDatabaseError, DatabaseVersionError):
            # A power loss, or another version of the program. What it held stands in the records.
            pass
        self.rebuild()

    def rebuild(self, *, repair: bool = False) -> int:
        """Make the index again from all records and return their number. Cost: some 50 us a job.

        With `repair` damaged records go to quarantine.
        """
        try:
            self.close()
            remove_database(self._path)
            self._connect(BARE_TABLES)
            # Marks that are set from here on are read after the scan: they stay for the next refresh.
            for mark in self._marks():
                mark.unlink(missing_ok=True)
            self._store.sweep_all()
            with self._use().writing():
                count = self._use().execute_many("put", self._rows_of_all(repair=repair))
            set_made(self._connect(), RECORD_VERSION)
        except BaseException as error:
            # Half an index, still open, would pass for a whole one.
            self.close()
            if isinstance(error, OSError):
                raise storage_failure("make", self._path, error) from error
            raise
        return count

    def put(self, record: JobRecord) -> None:
        """Correct one job's row."""
        self._use().execute("put", _row(record))

    def remove(self, job_id: str) -> None:
        """Forget one job."""
        self._use().execute("remove", {"job_id": job_id})

    def postpone(self, job_id: str, until: float) -> None:
        """Do not report the job as due before the epoch second `until`."""
        self._use().execute("postpone", {"job_id": job_id, "until": until})

    def set_unreadable(self, job_id: str) -> None:
        """Keep what is known of a job whose record cannot be read now; the reaper looks at it again."""
        again = self._store.clock.now() + _LOOK_AGAIN_SECONDS
        self._use().execute("put_unreadable", {"job_id": job_id, "due": again})

    def next_pending(
        self, session: str | None, *, any_session: bool, now: float, skip: Collection[str] = ()
    ) -> str | None:
        """Return the job to pick next at `now`, in epoch seconds: the oldest of the highest priority.

        None of `skip` is returned. For `session` that is a job addressed to it or to nobody; for None a job
        addressed to nobody, or any job with `any_session`.
        """
        file = self._use()
        file.execute("end_rests", {"now": now})
        limit = len(skip) + 1
        if any_session:
            rows = file.rows("next_of_any", {"limit": limit})
        else:
            rows = [
                row
                for wanted in {session, None}
                for row in file.rows("next_of_session", {"session": wanted, "limit": limit})
            ]
        free = [row for row in rows if row[2] not in skip]
        return str(min(free)[2]) if free else None

    def by_key(self, key: str) -> str | None:
        """Return the job registered under this idempotency key."""
        return next(iter(self._ids("with_key", key=key)), None)

    def open_of_session(self, session: str) -> list[str]:
        """Return the unfinished jobs addressed to `session`, oldest first."""
        return self._ids("open_of_session", session=session)

    def due(self, now: float, limit: int) -> list[str]:
        """Return up to `limit` jobs that may have reached a limit by `now`, the longest overdue first."""
        return self._ids("due", now=now, limit=limit)

    def finished_before(self, stamp: str, *, after: str, limit: int, cleared: bool) -> list[str]:
        """Return up to `limit` jobs above the id `after`, in order, that finished before `stamp`.

        `stamp` is ISO 8601; without `cleared` those that are marked as cleared are left out.
        """
        return self._ids("finished_before", stamp=stamp, after=after, limit=limit, cleared=int(cleared))

    def failures(self, *, after: str, limit: int) -> list[str]:
        """Return up to `limit` jobs above the id `after`, in order, that failed and are not dismissed."""
        return self._ids("failures", after=after, limit=limit)

    def unreadable(self) -> list[str]:
        """Return all jobs whose records could not be read."""
        return self._ids("of_status", status=UNREADABLE)

    def unfinished(self) -> list[str]:
        """Return all pending and running jobs."""
        return self._ids("of_status", status="pending") + self._ids("of_status", status="running")

    def finished_since(self, stamp: str) -> list[str]:
        """Return the jobs that finished at the ISO 8601 time `stamp` or later. Cost: a walk over an index."""
        return self._ids("finished_since", stamp=stamp)

    def listing(
        self, *, statuses: Iterable[str], session: str | None, below: int | None
    ) -> list[tuple[str, int]]:
        """Return a page of (job id, position), newest first, that match; `below` continues a listing."""
        query = "page_of_status" if session is None else "page_of_session"
        values = {"session": session, "below": _END if below is None else below, "limit": _PAGE}
        found = [
            (row[0], row[1])
            for status in list(statuses) or [str(one) for one in Status]
            for row in self._use().rows(query, {**values, "status": status})
        ]
        return sorted(found, key=lambda row: row[1], reverse=True)[:_PAGE]

    def counts(self) -> dict[str, int]:
        """Return the number of jobs by status."""
        return dict(self._use().rows("counts"))

    def waiting_elsewhere(self) -> int:
        """Return how many pending jobs are addressed to some session."""
        return int(self._use().rows("waiting_elsewhere")[0][0])

    def resting(self) -> int:
        """Return how many pending jobs rest after a lost lease."""
        return int(self._use().rows("resting")[0][0])

    def next_position(self, now: float) -> int:
        """Return a place behind every job: microseconds since the epoch, or one more than the last.

        So a clock that was set back does not put new jobs before old ones.
        """
        last = self._use().rows("last_position")[0][0]
        return max(int(now * 1_000_000), (last or 0) + 1)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        if self._file is not None:
            self._file.close()
        self._file = None

    def _open(self) -> bool:
        """Open the index where it exists and can be trusted."""
        if self._file is not None and self._file.is_current():
            return True
        return record_version(self._connect()) == RECORD_VERSION

    def _connect(self, tables: Schema = TABLES) -> SqliteFile:
        self.close()
        # Nothing is flushed: what a power cut takes is made again, as the boot id tells. The queue's lock
        # lets one thread in at a time.
        self._file = SqliteFile(self._path, tables, cache=True, guarded=True)
        return self._file

    def _use(self) -> SqliteFile:
        if self._file is None:
            raise StorageError("the pending index was used before `refresh`")
        return self._file

    def _ids(self, query: str, **values: object) -> list[str]:
        return [row[0] for row in self._use().rows(query, values)]

    def _drain(self) -> None:
        """Read every marked record again."""
        marks = self._marks()
        if not marks:
            return
        with self._use().writing():
            for mark in marks:
                # Renamed before the record is read: a change after the reading sets a new mark. Removed
                # only after the commit: a crash in between leaves it.
                with contextlib.suppress(FileNotFoundError):
                    mark.rename(mark.with_suffix(_SEEN))
                self._reload(mark.stem)
        for mark in marks:
            mark.with_suffix(_SEEN).unlink(missing_ok=True)

    def _reload(self, job_id: str) -> None:
        self._store.sweep(job_id)
        try:
            record = self._store.get(job_id)
        except NotFoundError:
            self.remove(job_id)
        except QuarantinedRecordError as error:
            self._warn(str(error))
            self.remove(job_id)
        except JobwireError as error:
            self._warn(str(error))
            self.set_unreadable(job_id)
        else:
            self.put(record)

    def _rows_of_all(self, *, repair: bool) -> Iterator[dict[str, object]]:
        for job_id in self._store.job_ids():
            row = _row_of_file(self._store.record_path(job_id), job_id)
            try:
                # Else a record that has a limit, or is not as it should be.
                yield row or _row(self._store.repair(job_id) if repair else self._store.get(job_id))
            except (NotFoundError, QuarantinedRecordError) as error:
                self._warn(str(error))
            except JobwireError as error:
                self._warn(str(error))
                self.set_unreadable(job_id)

    def _marks(self) -> list[Path]:
        folder = Path(self._store.queue_path(TOUCHED))
        try:
            return list(folder.iterdir())
        except OSError as error:
            raise storage_failure("list", folder, error) from error


def _row(record: JobRecord) -> dict[str, object]:
    return {
        "job_id": record.job_id,
        "status": str(record.status),
        "session": record.agent_session,
        "rank": _RANK[record.priority],
        "position": position_of(record),
        "idempotency_key": record.idempotency_key,
        "due": next_due(record),
        "finished_at": record.finished_at,
        "cleared": int(record.extra.get(CLEARED) is True),
        "dismissed": int(dismissed_at(record) is not None),
        "ready": ready_at(record),
    }


def _row_of_file(path: str, job_id: str) -> dict[str, object] | None:
    """Return the row of a finished job, read without checking all of its record: most jobs by far.

    None for any other: reading a whole record with all checks takes three times as long.
    """
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a rebuild opens every record
            body = json.loads(file.read())
        row = {
            "job_id": body["job_id"],
            "status": body["status"],
            "session": _text(body["agent_session"]),
            "rank": _RANK[body["priority"]],
            "position": body.get(POSITION),
            "idempotency_key": _text(body["idempotency_key"]),
            "due": None,
            "finished_at": _text(body["finished_at"]),
            "cleared": int(body.get(CLEARED) is True),
            "dismissed": int(isinstance(body.get(DISMISSED), str)),
            "ready": None,
        }
        known = (body["schema_version"], body["job_id"]) == (RECORD_VERSION, job_id)
        sound = known and body["status"] in TERMINAL_STATUSES and _is_position(row["position"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return row if sound else None


def _text(value: str | None) -> str | None:
    """Return what a database takes as text; ValueError, AttributeError for anything else."""
    if value is not None:
        value.encode()
    return value


def position_of(record: JobRecord) -> int:
    """Return the record's place; a record from elsewhere stands where its registration time puts it."""
    position = record.extra.get(POSITION)
    if _is_position(position):
        return position
    try:
        return int(epoch(record.created_at) * 1_000_000)
    except ValueError:
        return 0


def _is_position(value: object) -> TypeGuard[int]:
    # Bounded, because a database takes 64 bits.
    return type(value) is int and 0 <= value < _END
