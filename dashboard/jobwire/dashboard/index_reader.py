"""What the registry's index says right now, read without the queue's lock and without changing what it says.

`jobwire status --line` runs every few seconds in a status bar: it must neither wait for the queue's
lock nor grow with the number of finished jobs. The index is a cache of the records
(jobwire.registry.pending); jobs that changed since it was brought up to date have a mark in
`queue/touched/`, and whoever looks reads those records as well. Imports stay light here.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING, NamedTuple

from jobwire.core.errors import JobwireError, StorageError
from jobwire.registry.pending_tables import FILE, TABLES, record_version
from jobwire.storage.home_paths import HomePaths
from jobwire.storage.sqlite.sqlite_file import SqliteFile

if TYPE_CHECKING:
    from collections.abc import Callable

_TOUCHED = "queue/touched"
_BUSY_SECONDS = 0.25
# Above this many marks the index is brought up to date once, instead of reading them at every look.
_MANY_MARKS = 500
# `core.record.DISMISSED`, without loading all of the record for one name.
_DISMISSED = "dismissed_at"


class IndexView(NamedTuple):
    """Job ids by what the index says of them, and those whose records must be read to know.

    `recent` and `failed` are bounded by the caller's limit; `counts` is by status. `touched` names the
    status that each of them has in the index ("" where it is not in it).
    """

    open: frozenset[str]
    recent: tuple[str, ...]
    failed: frozenset[str]
    running: frozenset[str]
    touched: dict[str, str]
    counts: dict[str, int]


class Flags(NamedTuple):
    """The few fields of a record that a status line needs."""

    status: str
    attention: bool
    finished_at: str
    dismissed: bool

    def failed_since(self, stamp: str) -> bool:
        """Tell whether it counts as a failure: ended in error at `stamp` or later, and not dismissed."""
        return self.status == "error" and self.finished_at >= stamp and not self.dismissed


def read_index(home: str, *, failed_since: str, limit: int = 1000) -> IndexView | None:
    """Return what the index says, or None where it is missing, outdated or busy.

    `failed_since` is ISO 8601 UTC. Never blocks for more than a quarter of a second. Raises StorageError, as
    all functions here do, for what is there and cannot be read.
    """
    path = os.path.join(home, "queue", FILE)  # noqa: PTH118 - pathlib costs a tenth of the time allowed
    # Marks first: one that is taken away after this was put into the index before that.
    touched = _touched(home)
    try:
        index = SqliteFile(path, TABLES, deadline_seconds=_BUSY_SECONDS, read_only=True)
        with contextlib.closing(index), index.reading():
            # Of another boot: marks may have been lost with the power.
            known = record_version(index) is not None
            return _read(index, touched, failed_since, limit) if known else None
    except StorageError:
        return None


def current_index(
    home: str, *, failed_since: str, warn: Callable[[str], None], limit: int = 1000
) -> IndexView | None:
    """Return what the index says; where that is not to be trusted, its owner mends it first: slow, once.

    None where there is no index and none can be made (no jobs yet, or a read-only disk). `warn` is told why.
    """
    found = read_index(home, failed_since=failed_since, limit=limit)
    if found is not None and len(found.touched) <= _MANY_MARKS:
        return found
    from jobwire.registry.queue import JobQueue  # noqa: PLC0415 - only where the index must be made again
    from jobwire.registry.store import RecordStore  # noqa: PLC0415 - as above

    store = RecordStore(home)
    if not store.has_jobs():
        return found
    with contextlib.closing(JobQueue(store, warn=warn)) as queue:
        try:
            queue.counts()
        except JobwireError as error:
            warn(str(error))
    return read_index(home, failed_since=failed_since, limit=limit)


def _read(index: SqliteFile, touched: frozenset[str], since: str, limit: int) -> IndexView:
    def ids(status: str) -> frozenset[str]:
        return frozenset(row[0] for row in index.rows("of_status", {"status": status}))

    def newest(status: str) -> list[tuple[str, str, int]]:
        # By registration, not by end: that is what the index is sorted by, so nothing else is read.
        return index.rows("newest", {"status": status, "limit": limit})

    def status_of(job_id: str) -> str:
        return "".join(row[0] for row in index.rows("status_of", {"job_id": job_id}))

    running, errors = ids("running"), newest("error")
    ended = [*newest("completed"), *newest("cancelled"), *errors]
    # Whoever brought the index up to date could not read these; we may, or say that we cannot either.
    touched |= ids("unreadable")
    return IndexView(
        open=running | ids("pending"),
        recent=tuple(job_id for job_id, _, _ in ended),
        failed=frozenset(job_id for job_id, at, dismissed in errors if at >= since and not dismissed),
        running=running,
        touched={job_id: status_of(job_id) for job_id in touched},
        counts=dict(index.rows("counts")),
    )


def read_flags(home: str, job_id: str) -> Flags | None:
    """Return a record's flags, or None where it cannot be read."""
    path = HomePaths(home).record_path(job_id)
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - as above
            body = json.loads(file.read())
        return Flags(
            status=str(body.get("status")),
            attention=body.get("attention") is True,
            finished_at=str(body.get("finished_at") or ""),
            dismissed=isinstance(body.get(_DISMISSED), str),
        )
    except (FileNotFoundError, ValueError, AttributeError, RecursionError):
        # Purged meanwhile, or no record.
        return None
    except OSError as error:
        raise _unreadable(path, error) from error


def counts_now(home: str, found: IndexView) -> dict[str, int]:
    """Return the number of jobs by status, with what changed since the index was brought up to date."""
    counts = dict(found.counts)
    for job_id, indexed in found.touched.items():
        flags = read_flags(home, job_id)
        for status, change in ((indexed, -1), (flags.status if flags else "", 1)):
            if status:
                counts[status] = counts.get(status, 0) + change
    return counts


def _unreadable(path: str, error: OSError) -> StorageError:
    """Return the error for what may not be read: left out, it would make a false all-clear."""
    return StorageError(
        f"cannot read {path}: {error.strerror}",
        hint="who may read it? See its owner, mode and disk",
        path=path,
    )


def _touched(home: str) -> frozenset[str]:
    folder = os.path.join(home, _TOUCHED)  # noqa: PTH118 - as above
    try:
        names = os.listdir(folder)  # noqa: PTH208 - as above
    except FileNotFoundError:
        return frozenset()
    except OSError as error:
        raise _unreadable(folder, error) from error
    return frozenset(name.removesuffix(".seen") for name in names)
