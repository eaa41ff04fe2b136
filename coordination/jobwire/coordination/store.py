"""The store of one home: its connections, its one way to commit, and what a commit tells.

Every change goes through `changing`: one transaction that holds the right to write, and after it the names
whose waiters may want to look. Safe for any number of processes and threads; a thread has its own connection.
"""

from __future__ import annotations

import contextlib
import json
import os
from _thread import _local as ThreadLocal  # noqa: N812 - the name that threading gives it
from typing import TYPE_CHECKING, Any

from jobwire.coordination.tables import FILE, TABLES
from jobwire.core.clock import SystemClock, utc_timestamp
from jobwire.core.override import override
from jobwire.storage import wake
from jobwire.storage.sqlite.failures import DatabaseVersionError
from jobwire.storage.sqlite.sqlite_file import SqliteFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jobwire.core.clock import Clock

BUSY_SECONDS = 5.0
_KNOWN_VERSION = 1


class Transaction:
    """One transaction on the store: what it reads and writes, and what it will have changed."""

    def __init__(self, file: SqliteFile, now: float, home: str) -> None:
        self._file = file
        self.home = home
        self.now = now
        self.now_ms = int(now * 1000)
        self.at = utc_timestamp(now)
        self.agents: set[str] = set()
        self.threads: set[str] = set()
        self.resources: set[str] = set()
        self.rows = file.rows
        self.execute = file.execute
        self.execute_many = file.execute_many

    def row(self, query: str, values: Mapping[str, object] | None = None) -> tuple[Any, ...] | None:
        """Return the first row of the named query."""
        return next(iter(self.rows(query, values)), None)

    def event(
        self,
        event_type: str,
        *,
        source: str,
        thread_id: str = "",
        run_id: str = "default",
        task_id: str = "",
        message_id: str | None = None,
        summary: str = "",
        payload: Mapping[str, object] | None = None,
    ) -> int:
        """Write down a change that is no message, and return its number."""
        (inserted,) = self.rows(
            "insert_event",
            {
                "run_id": run_id,
                "task_id": task_id,
                "thread_id": thread_id,
                "source": source,
                "event_type": event_type,
                "message_id": message_id,
                "summary": summary,
                "payload_json": json.dumps(payload, ensure_ascii=False) if payload else "{}",
                "created_at": self.at,
            },
        )
        if thread_id:
            self.threads.add(thread_id)
        return int(inserted[0])

    def latest_event(self) -> int:
        """Return the number of the last change."""
        return int(self.rows("latest_event")[0][0])

    def wakes(self) -> list[str]:
        """Return whose waiters may want to look: `agent:NAME`, `thread:ID`, `resource:NAME`, and `events`."""
        return [
            "events",
            *(f"agent:{name}" for name in self.agents),
            *(f"thread:{name}" for name in self.threads),
            *(f"resource:{name}" for name in self.resources),
        ]


class CoordinationStore:
    """The coordination store of the home at `home`, in `path` or its own file there.

    Made where missing. `read_only` neither makes nor changes it; `frozen` reads it on a disk on which nothing
    can be written. Methods raise the errors of `storage.sqlite.failures`.
    """

    # Whether all that is done with it belongs to one transaction.
    joined = False

    def __init__(
        self,
        home: str,
        *,
        path: str | None = None,
        clock: Clock | None = None,
        deadline_seconds: float = BUSY_SECONDS,
        read_only: bool = False,
        frozen: bool = False,
    ) -> None:
        self.home = home
        self.path = path or os.path.join(home, FILE)
        self.clock: Clock = clock or SystemClock()
        self._deadline_seconds = deadline_seconds
        self._read_only = read_only
        self._frozen = frozen
        self._of_thread = ThreadLocal()

    @property
    def file(self) -> SqliteFile:
        """Return this thread's connection, opened where needed."""
        file: SqliteFile | None = getattr(self._of_thread, "file", None)
        if file is None or not file.is_current():
            if file is not None:
                file.close()
            file = SqliteFile(
                self.path,
                TABLES,
                deadline_seconds=self._deadline_seconds,
                read_only=self._read_only,
                frozen=self._frozen,
            )
            try:
                _check_version(file)
            except BaseException:
                file.close()
                raise
            self._of_thread.file = file
        return file

    @property
    def now_ms(self) -> int:
        """Return the time by its clock, in ms since 1970."""
        return int(self.clock.now() * 1000)

    def rows(self, query: str, values: Mapping[str, object] | None = None) -> list[tuple[Any, ...]]:
        """Return all rows of the named query."""
        return self.file.rows(query, values)

    @contextlib.contextmanager
    def changing(self) -> Iterator[Transaction]:
        """Run the block in one transaction; on any exception nothing of it is done. Does not nest."""
        file = self.file
        with file.writing():
            change = Transaction(file, self.clock.now(), self.home)
            yield change
        wake.touch(self.home, change.wakes())

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Run the block on one state of the store. Does not nest."""
        with self.file.reading():
            yield

    def latest_event(self) -> int:
        """Return the number of the last change."""
        return int(self.rows("latest_event")[0][0])

    def close(self) -> None:
        """Close this thread's connection; the next call opens it again."""
        file: SqliteFile | None = getattr(self._of_thread, "file", None)
        if file is not None:
            file.close()
            self._of_thread.file = None


class JoinedStore(CoordinationStore):
    """The store from within one transaction: whatever is done with it is part of that, or undone with it."""

    joined = True

    def __init__(self, store: CoordinationStore, change: Transaction) -> None:
        vars(self).update(vars(store))
        self._change = change

    @override
    @contextlib.contextmanager
    def changing(self) -> Iterator[Transaction]:
        """Run the block in the transaction that is there."""
        yield self._change

    @override
    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Run the block in the transaction that is there."""
        yield


def _check_version(file: SqliteFile) -> None:
    found = next((row[0] for row in file.rows("schema_version")), "1")
    if str(found).isdigit() and int(found) > _KNOWN_VERSION:
        raise DatabaseVersionError(
            f"{file.path} has schema version {found}, and this program knows {_KNOWN_VERSION}",
            hint="update this program; the database is left as it is",
            path=file.path,
            found=int(found),
            known=_KNOWN_VERSION,
        )
