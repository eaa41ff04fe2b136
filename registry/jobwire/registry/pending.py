"""The index of the jobs: which is next, which is due, which has that key. A cache of the records.

Kept in SQLite without flushes, because the records are the truth. Whoever changes a record leaves an
empty file of its name in `queue/touched/` before and after the change; the next user of the index
reads those records again. So `publish_event` need not know of the index, and a crash between record
and index leaves the mark. Where no mark can be trusted (another boot of the machine, another version,
a damaged file) the index is made again from all records.

All methods are called under the queue's lock.
"""

import contextlib
import errno
import json
import os
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from jobwire.core.clock import epoch
from jobwire.core.errors import JobwireError, NotFoundError, StorageError
from jobwire.jobs.lifecycle import TERMINAL_STATUSES
from jobwire.jobs.record import DISMISSED, RECORD_VERSION, JobRecord, Priority, dismissed_at
from jobwire.registry.deadlines import next_due, ready_at
from jobwire.registry.layout import TOUCHED
from jobwire.registry.quarantine import QuarantinedRecordError
from jobwire.registry.store import RecordStore
from jobwire.storage.failures import storage_failure

FILE = "pending.sqlite"
# The form of the table, and that of the records it was made from.
_VERSION = f"5.{RECORD_VERSION}"
_SEEN = ".seen"
# No such table or column, not a database, malformed. The low byte of an extended code is its kind.
_DAMAGED = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT})
# The status of a row whose record cannot be read: it is nobody's to pick, and reported.
UNREADABLE = "unreadable"
_UNKNOWN = "INSERT OR IGNORE INTO jobs VALUES (?, ?, NULL, 0, 0, NULL, NULL, NULL, 0, 0, NULL)"
_LOOK_AGAIN_SECONDS = 10.0
_RANK = {Priority.HIGH: 0, Priority.NORMAL: 1, Priority.LOW: 2}
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
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
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] = (0, 0)

    def refresh(self) -> None:
        """Bring the index up to the records: reads those that were marked since, or all if need be."""
        try:
            if self._open():
                self._drain()
            else:
                self.rebuild()
        except sqlite3.Error as error:
            if error.sqlite_errorcode & 0xFF not in _DAMAGED:
                raise _failure("update", self._path, error) from error
            # For instance by a power loss. What it held stands in the records.
            self.rebuild()

    def rebuild(self, *, repair: bool = False) -> int:
        """Make the index again from all records and return their number. Cost: some 50 us a job.

        With `repair` damaged records go to quarantine.
        """
        whole = False
        self.close()
        try:
            for path in (self._path, self._path.with_name(FILE + "-journal")):
                path.unlink(missing_ok=True)
            connection = self._connect()
            tables, indexes = _schema().split("-- indexes")
            connection.executescript(tables)
            # Marks that are set from here on are read after the scan: they stay for the next refresh.
            self._clear_marks()
            self._store.sweep_all()
            with self._transaction(connection):
                count = self._load_all(connection, repair=repair)
                about = [("version", _VERSION), ("boot", _boot_id())]
                connection.executemany("INSERT INTO about VALUES (?, ?)", about)
                # After the rows: sorting once is cheaper than keeping nine trees in order.
                for statement in indexes.split(";"):
                    connection.execute(statement)
            whole = True
        except (OSError, sqlite3.Error) as error:
            raise _failure("make", self._path, error) from error
        finally:
            if not whole:
                # Half an index, still open, would pass for a whole one.
                self.close()
        return count

    def put(self, record: JobRecord) -> None:
        """Correct one job's row."""
        self._use().execute(_UPSERT, _row(record))

    def remove(self, job_id: str) -> None:
        """Forget one job."""
        self._use().execute("DELETE FROM jobs WHERE job_id = ?", (job_id,))

    def postpone(self, job_id: str, until: float) -> None:
        """Do not report the job as due before the epoch second `until`."""
        self._use().execute("UPDATE jobs SET due = ? WHERE job_id = ?", (until, job_id))

    def next_pending(
        self, session: str | None, *, any_session: bool, now: float, skip: Collection[str] = ()
    ) -> str | None:
        """Return the job to pick next at `now`, in epoch seconds: the oldest of the highest priority.

        None of `skip` is returned. For `session` that is a job addressed to it or to nobody; for None a job
        addressed to nobody, or any job with `any_session`.
        """
        self._use().execute("UPDATE jobs SET ready = NULL WHERE ready <= ?", (now,))
        if any_session:
            query = (
                "SELECT rank, position, job_id FROM jobs INDEXED BY jobs_to_pick_any "
                "WHERE status = 'pending' AND ready IS NULL ORDER BY rank, position LIMIT ?"
            )
            rows = self._rows(query, (len(skip) + 1,))
        else:
            query = (
                "SELECT rank, position, job_id FROM jobs INDEXED BY jobs_to_pick "
                "WHERE status = 'pending' AND ready IS NULL AND session IS ? ORDER BY rank, position LIMIT ?"
            )
            limit = len(skip) + 1
            rows = [row for wanted in {session, None} for row in self._rows(query, (wanted, limit))]
        free = [row for row in rows if row[2] not in skip]
        return str(min(free)[2]) if free else None

    def by_key(self, key: str) -> str | None:
        """Return the job registered under this idempotency key."""
        rows = self._rows("SELECT job_id FROM jobs WHERE idempotency_key = ? LIMIT 1", (key,))
        return str(rows[0][0]) if rows else None

    def open_of_session(self, session: str) -> list[str]:
        """Return the unfinished jobs addressed to `session`, oldest first."""
        query = (
            "SELECT job_id FROM jobs INDEXED BY jobs_open "
            "WHERE session = ? AND status IN ('pending', 'running', 'unreadable') ORDER BY position"
        )
        return [row[0] for row in self._rows(query, (session,))]

    def due(self, now: float, limit: int) -> list[str]:
        """Return up to `limit` jobs that may have reached a limit by `now`, the longest overdue first."""
        query = "SELECT job_id FROM jobs WHERE due <= ? ORDER BY due LIMIT ?"
        return [row[0] for row in self._rows(query, (now, limit))]

    def finished_before(self, stamp: str, *, after: str, limit: int, cleared: bool) -> list[str]:
        """Return up to `limit` jobs above the id `after`, in order, that finished before `stamp`.

        `stamp` is ISO 8601; without `cleared` those that are marked as cleared are left out.
        """
        query = (
            "SELECT job_id FROM jobs INDEXED BY jobs_finished WHERE finished_at IS NOT NULL "
            "AND job_id > ? AND finished_at < ? AND cleared <= ? ORDER BY job_id LIMIT ?"
        )
        return [row[0] for row in self._rows(query, (after, stamp, int(cleared), limit))]

    def failures(self, *, after: str, limit: int) -> list[str]:
        """Return up to `limit` jobs above the id `after`, in order, that failed and are not dismissed."""
        query = (
            "SELECT job_id FROM jobs WHERE status = 'error' AND dismissed = 0 AND job_id > ? "
            "ORDER BY job_id LIMIT ?"
        )
        return [row[0] for row in self._rows(query, (after, limit))]

    def unreadable(self) -> list[str]:
        """Return all jobs whose records could not be read."""
        return [row[0] for row in self._rows("SELECT job_id FROM jobs WHERE status = ?", (UNREADABLE,))]

    def unfinished(self) -> list[str]:
        """Return all pending and running jobs."""
        query = "SELECT job_id FROM jobs WHERE status IN ('pending', 'running')"
        return [row[0] for row in self._rows(query, ())]

    def finished_since(self, stamp: str) -> list[str]:
        """Return the jobs that finished at the ISO 8601 time `stamp` or later. Cost: a walk over an index."""
        query = "SELECT job_id FROM jobs WHERE finished_at >= ?"
        return [row[0] for row in self._rows(query, (stamp,))]

    def listing(
        self, *, statuses: Iterable[str], session: str | None, below: int | None
    ) -> list[tuple[str, int]]:
        """Return a page of (job id, position), newest first, that match; `below` continues a listing."""
        wanted = list(statuses)
        clauses = ["status != 'unreadable'"] + (["position < ?"] if below is not None else [])
        values: list[object] = [below] if below is not None else []
        if wanted:
            clauses.append(f"status IN ({', '.join('?' * len(wanted))})")
            values += wanted
        if session is not None:
            clauses.append("session = ?")
            values.append(session)
        where = f" WHERE {' AND '.join(clauses)}" if clauses else ""
        query = f"SELECT job_id, position FROM jobs{where} ORDER BY position DESC LIMIT 200"  # noqa: S608 - only placeholders vary
        return [(row[0], row[1]) for row in self._rows(query, values)]

    def counts(self) -> dict[str, int]:
        """Return the number of jobs by status."""
        return dict(self._rows("SELECT status, count(*) FROM jobs GROUP BY status ORDER BY status", ()))

    def waiting_elsewhere(self) -> int:
        """Return how many pending jobs are addressed to some session."""
        query = "SELECT count(*) FROM jobs WHERE status = 'pending' AND ready IS NULL AND session IS NOT NULL"
        return int(self._rows(query, ())[0][0])

    def resting(self) -> int:
        """Return how many pending jobs rest after a lost lease."""
        return int(self._rows("SELECT count(*) FROM jobs WHERE ready IS NOT NULL", ())[0][0])

    def next_position(self, now: float) -> int:
        """Return a place behind every job: microseconds since the epoch, or one more than the last.

        So a clock that was set back does not put new jobs before old ones.
        """
        rows = self._rows("SELECT max(position) FROM jobs", ())
        return max(int(now * 1_000_000), (rows[0][0] or 0) + 1)

    def close(self) -> None:
        """Close the connection; the next use opens it again."""
        if self._connection is not None and self._identity[0] == os.getpid():
            self._connection.close()
        self._connection = None

    def _open(self) -> bool:
        """Open the index where it exists and can be trusted."""
        try:
            present = (os.getpid(), self._path.stat().st_ino)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise _failure("open", self._path, error) from error
        if self._connection is not None and self._identity == present:
            return True
        self.close()
        about = dict(self._connect().execute("SELECT name, value FROM about").fetchall())
        return about.get("version") == _VERSION and about.get("boot") == _boot_id()

    def _connect(self) -> sqlite3.Connection:
        # The queue's lock serialises threads as well as processes.
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=10.0)
        # Neither mode flushes; the rollback journal still protects from a kill in mid-write.
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA journal_mode = TRUNCATE")
        self._path.chmod(0o600)
        self._connection = connection
        self._identity = (os.getpid(), self._path.stat().st_ino)
        return connection

    def _use(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StorageError("the pending index was used before `refresh`")
        return self._connection

    def _rows(self, query: str, values: Iterable[object]) -> list[tuple[Any, ...]]:
        return self._use().execute(query, tuple(values)).fetchall()

    @contextlib.contextmanager
    def _transaction(self, connection: sqlite3.Connection) -> Iterator[None]:
        connection.execute("BEGIN")
        try:
            yield
        except BaseException:
            # SQLite has rolled back by itself where the disk is full.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    def _drain(self) -> None:
        """Read every marked record again."""
        marks = self._marks()
        if not marks:
            return
        connection = self._use()
        with self._transaction(connection):
            for mark in marks:
                # Renamed before the record is read: a change after the reading sets a new mark. Removed
                # only after the commit: a crash in between leaves it.
                _rename(mark, mark.with_suffix(_SEEN))
                self._reload(connection, mark.stem)
        for mark in marks:
            mark.with_suffix(_SEEN).unlink(missing_ok=True)

    def _reload(self, connection: sqlite3.Connection, job_id: str) -> None:
        self._store.sweep(job_id)
        try:
            record = self._store.get(job_id)
        except NotFoundError:
            connection.execute("DELETE FROM jobs WHERE job_id = ?", (job_id,))
        except QuarantinedRecordError as error:
            self._warn(str(error))
            connection.execute("DELETE FROM jobs WHERE job_id = ?", (job_id,))
        except JobwireError as error:
            self._warn(str(error))
            self.set_unreadable(job_id)
        else:
            connection.execute(_UPSERT, _row(record))

    def set_unreadable(self, job_id: str) -> None:
        """Keep what is known of a job whose record cannot be read now; the reaper looks at it again."""
        connection = self._use()
        again = self._store.clock.now() + _LOOK_AGAIN_SECONDS
        connection.execute(_UNKNOWN, (job_id, UNREADABLE))
        query = "UPDATE jobs SET status = ?, due = ? WHERE job_id = ?"
        connection.execute(query, (UNREADABLE, again, job_id))

    def _load_all(self, connection: sqlite3.Connection, *, repair: bool) -> int:
        count = 0
        for job_id in self._store.job_ids():
            row = _row_of_file(self._store.record_path(job_id), job_id)
            try:
                if row is None:
                    # A record that has a limit, or is not as it should be.
                    row = _row(self._store.repair(job_id) if repair else self._store.get(job_id))
                connection.execute(_UPSERT, row)
                count += 1
            except (NotFoundError, QuarantinedRecordError) as error:
                self._warn(str(error))
            except JobwireError as error:
                self._warn(str(error))
                self.set_unreadable(job_id)
        return count

    def _marks(self) -> list[Path]:
        try:
            return list(Path(self._store.queue_path(TOUCHED)).iterdir())
        except OSError as error:
            raise _failure("list", self._store.queue_path(TOUCHED), error) from error

    def _clear_marks(self) -> None:
        for mark in self._marks():
            mark.unlink(missing_ok=True)


_UPSERT = "INSERT OR REPLACE INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


def _row(record: JobRecord) -> tuple[object, ...]:
    return (
        record.job_id,
        str(record.status),
        record.agent_session,
        _RANK[record.priority],
        position_of(record),
        record.idempotency_key,
        next_due(record),
        record.finished_at,
        int(record.extra.get(CLEARED) is True),
        int(dismissed_at(record) is not None),
        ready_at(record),
    )


def _row_of_file(path: str, job_id: str) -> tuple[object, ...] | None:
    """Return the row of a finished job, read without checking all of its record: most jobs by far.

    None for any other: reading a whole record with all checks takes three times as long.
    """
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a rebuild opens every record
            body = json.loads(file.read())
        position = body.get(POSITION)
        row = (
            body["job_id"],
            body["status"],
            body["agent_session"],
            _RANK[body["priority"]],
            position,
            body["idempotency_key"],
            None,
            body["finished_at"],
            int(body.get(CLEARED) is True),
            int(isinstance(body.get(DISMISSED), str)),
            None,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    known = body.get("schema_version") == RECORD_VERSION
    sound = known and row[0] == job_id and row[1] in TERMINAL_STATUSES and type(position) is int
    return row if sound else None


def position_of(record: JobRecord) -> int:
    """Return the record's place; a record from elsewhere stands where its registration time puts it."""
    position = record.extra.get(POSITION)
    if type(position) is int:
        return position
    try:
        return int(epoch(record.created_at) * 1_000_000)
    except ValueError:
        return 0


def _schema() -> str:
    from importlib import resources  # noqa: PLC0415 - slow to import, and needed once a boot

    return resources.files("jobwire.registry").joinpath("pending.sql").read_text(encoding="utf-8")


def _boot_id() -> str:
    """Return what changes when the machine starts anew: only then can unflushed writes be lost."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return "unknown"


def _rename(source: Path, target: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        source.rename(target)


def _failure(action: str, path: Path | str, cause: OSError | sqlite3.Error) -> StorageError:
    if isinstance(cause, OSError):
        return storage_failure(action, path, cause)
    if getattr(cause, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL:
        return storage_failure(action, path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    if getattr(cause, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_READONLY:
        return storage_failure(action, path, OSError(errno.EROFS, os.strerror(errno.EROFS)))
    return StorageError(
        f"cannot {action} the pending index {path}: {cause}",
        hint="check space and permissions of queue/; `jobwire registry reindex` makes the index again",
        path=str(path),
    )
