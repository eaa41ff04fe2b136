"""What of each job's history stands in the journal as facts: `queue/told.sqlite`.

A fold of the journal: the folder notes every fact that it reads here, and its offset is committed after
`flush`. So after a kill nothing is told twice: what is not here is read from the journal again first.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, NamedTuple

from jobwire.jobs.fact import Fact, FactKind, decode_fact
from jobwire.storage.sqlite.failures import DamagedDatabaseError
from jobwire.storage.sqlite.schema import Schema
from jobwire.storage.sqlite.sqlite_file import SqliteFile, remove_database

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobwire.storage.files import StrPath

# Below `queue/`.
FILE = "told.sqlite"
_log = logging.getLogger("jobwire.registry")
TABLES = Schema("jobwire.registry", "told_sql", application_id=0x4A57_544C, version=1)


class ToldUpTo(NamedTuple):
    """Facts up to `place` are in the journal, and `line` lines, `offset` bytes of the history are done."""

    created_at: str
    place: int = 0
    line: int = 0
    offset: int = 0
    purged: bool = False


class Told:
    """How far each job is told. Thread-safe; raises StorageError."""

    def __init__(self, path: StrPath) -> None:
        self._guard = threading.Lock()
        try:
            self._file = SqliteFile(path, TABLES, guarded=True)
        except DamagedDatabaseError as error:
            # Told again, every fact has the place that it had: whoever counts them knows it.
            _log.error("%s; it is made anew, and all histories are told again", error.message)
            remove_database(path)
            self._file = SqliteFile(path, TABLES, guarded=True)
        self._changed: dict[str, ToldUpTo] = {}
        self._any_purged = True

    def up_to(self, job_id: str, created_at: str) -> ToldUpTo:
        """Return how far the job of this id and time of creation is told."""
        with self._guard:
            known = self._known(job_id)
        return known if known is not None and known.created_at == created_at else ToldUpTo(created_at)

    def offset(self, job_id: str) -> int:
        """Return how many bytes of the history under this id need not be read."""
        with self._guard:
            known = self._known(job_id)
        return known.offset if known is not None else 0

    def read(self, job_id: str, payload: bytes) -> None:
        """Take in an entry of the journal with the verdict FACT; what is none of this job is passed over."""
        fact = decode_fact(payload, job_id=job_id)
        if fact is not None:
            self.note(fact)

    def note(self, fact: Fact) -> None:
        """Take in a fact that is in the journal."""
        self.keep(
            fact.job_id,
            ToldUpTo(fact.created_at, fact.place, purged=fact.kind == FactKind.PURGED),
        )

    def keep(self, job_id: str, reached: ToldUpTo) -> None:
        """Note that the job is told at least so far, and forget an older job of its id."""
        with self._guard:
            known = self._known(job_id)
            if known is not None and known.created_at > reached.created_at:
                return
            if known is not None and known.created_at == reached.created_at:
                reached = ToldUpTo(
                    known.created_at,
                    max(known.place, reached.place),
                    *max(known[2:4], reached[2:4]),
                    known.purged or reached.purged,
                )
            if reached != known:
                self._changed[job_id] = reached

    def flush(self) -> None:
        """Return when all that was noted is on the disk."""
        with self._guard:
            if not self._changed:
                return
            with self._file.writing():
                self._file.execute_many("put", map(_row, self._changed.items()))
            self._any_purged |= any(reached.purged for reached in self._changed.values())
            self._changed.clear()

    def forget_purged(self) -> None:
        """Drop jobs that are gone: nothing of them is left to be told."""
        with self._guard:
            if self._any_purged:
                self._file.execute("drop_purged")
                self._any_purged = False

    def close(self) -> None:
        """Close the file."""
        with self._guard:
            self._file.close()

    def _known(self, job_id: str) -> ToldUpTo | None:
        if job_id in self._changed:
            return self._changed[job_id]
        rows = self._file.rows("told", {"job_id": job_id})
        return ToldUpTo._make(rows[0])._replace(purged=bool(rows[0][4])) if rows else None


def _row(item: tuple[str, ToldUpTo]) -> Mapping[str, object]:
    job_id, reached = item
    return {"job_id": job_id, **reached._asdict()}
