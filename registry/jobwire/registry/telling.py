"""Tells the journal what the registry decided: every decision in a job's history becomes one fact.

Whoever changes a record writes its history first and leaves a mark; so a command that runs without this
process is told of when the process takes the mark, or at its next start. A job that is removed leaves its
facts in `queue/purged.ndjson`.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from jobwire.core.bounds import MAX_REASON
from jobwire.core.clock import utc_timestamp
from jobwire.core.errors import NotFoundError, StorageError
from jobwire.jobs.fact import FACT, Fact, decode_fact, encode_fact
from jobwire.journal.entry import Entry
from jobwire.registry.decisions import decided, purged
from jobwire.registry.told import ToldUpTo
from jobwire.storage import file_lock
from jobwire.storage.durable import change_durably
from jobwire.storage.failures import storage_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    from jobwire.core.redaction import Redactor
    from jobwire.core.topics import Topics
    from jobwire.jobs.record import JobRecord
    from jobwire.registry.store import RecordStore
    from jobwire.registry.told import Told

# Below `queue/`, and the lock of whoever writes or takes it.
SPOOL = "purged.ndjson"
_TAKEN = f"{SPOOL}.taken"
_LOCK = "purged"
# One flush of the journal for so many jobs; a job has some three facts.
_JOBS = 500
_MICROSECONDS = 1_000_000
_log = logging.getLogger("jobwire.registry")


def last_facts(store: RecordStore, record: JobRecord, *, by: str) -> list[Fact]:
    """Return the facts of a job that is about to be removed, with that one."""
    with contextlib.closing(lines_from(store.audit(record.job_id).events_path, 0)) as lines:
        found = decided(lines, record)
    at = utc_timestamp(store.clock.now())
    return [*found.facts, purged(record, found.line + 1, at=at, by=by)]


def leave_facts(store: RecordStore, facts: Iterable[Fact]) -> None:
    """Keep the facts of a job that is removed now where the registry process finds them, durably."""
    lines_out = b"".join(encode_fact(fact) + b"\n" for fact in facts)
    with _spool_lock(store):
        change_durably(append=[(store.queue_path(SPOOL), lines_out)], replace=[], files=store.files)


class Teller:
    """Journals facts. `changed` from any thread, `run` from one; `append` is the journal's."""

    def __init__(
        self,
        *,
        store: RecordStore,
        told: Told,
        topics: Topics,
        append: Callable[[Sequence[Entry]], object],
        redactor: Redactor,
        on_journaled: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._told = told
        self._topics = topics
        self._append = append
        self._redactor = redactor
        self._on_journaled = on_journaled
        self._guard = threading.Lock()
        # In the order of the marks.
        self._waiting: dict[str, None] = {}
        self._unseen: Iterator[str] | None = self._histories()
        self.told = 0

    def changed(self, job_id: str) -> None:
        """Look at this job's history soon."""
        with self._guard:
            self._waiting[job_id] = None

    def run(self, stop: Callable[[], bool] = lambda: False) -> int:
        """Journal what is to be told; return the number of facts. Raises StorageError: then tried again."""
        before = self.told
        self._tell_purged()
        while not stop() and (jobs := self._next_jobs()):
            try:
                self._tell(jobs)
            except BaseException:
                with self._guard:
                    self._waiting = dict.fromkeys(jobs) | self._waiting
                raise
        return self.told - before

    def _next_jobs(self) -> list[str]:
        with self._guard:
            jobs = list(islice(self._waiting, _JOBS))
            for job_id in jobs:
                del self._waiting[job_id]
        if not jobs and self._unseen is not None:
            # What changed while nobody was here, once a start.
            jobs = list(islice(self._unseen, _JOBS))
            self._unseen = self._unseen if jobs else None
        return jobs

    def _tell(self, jobs: Iterable[str]) -> None:
        facts: list[Fact] = []
        reached: dict[str, ToldUpTo] = {}
        for job_id in jobs:
            with contextlib.suppress(NotFoundError):  # removed, or never written whole
                try:
                    reached[job_id] = self._look(job_id, facts)
                except StorageError as error:
                    _log.warning("job %s: its facts wait: %s", job_id, error)
        self._journal(facts)
        for job_id, place in reached.items():
            self._told.keep(job_id, place)

    def _look(self, job_id: str, facts: list[Fact]) -> ToldUpTo:
        # First: what it says is in the history that is read after it.
        record = self._store.get(job_id)
        before = self._told.up_to(job_id, record.created_at)
        history = self._store.audit(job_id).events_path
        if before.offset > _size(history):
            before = before._replace(line=0, offset=0)  # changed by hand; its place tells what is told
        with contextlib.closing(lines_from(history, before.offset)) as lines:
            found = decided(
                lines, record, line=before.line, offset=before.offset, redact=self._redactor.redact
            )
        new = [fact for fact in found.facts if fact.place > before.place]
        facts += new
        place = new[-1].place if new else before.place
        return ToldUpTo(record.created_at, place, found.line, found.offset)

    def _journal(self, facts: Sequence[Fact]) -> None:
        if not facts:
            return
        now_us = int(self._store.clock.now() * _MICROSECONDS)
        topic = self._topics.facts
        self._append([Entry(now_us, topic(fact.job_id), encode_fact(fact), False, FACT) for fact in facts])
        for fact in facts:
            self._told.note(fact)
        self.told += len(facts)
        self._on_journaled()

    def _tell_purged(self) -> None:
        """Journal what removed jobs left; a kill at any step repeats it, and nothing is told twice."""
        taken = Path(self._store.queue_path(_TAKEN))
        try:
            if not taken.exists() and not self._take(taken):
                self._told.forget_purged()
                return
            with contextlib.closing(lines_from(str(taken), 0)) as lines:
                while batch := list(islice(lines, _JOBS)):
                    self._journal(list(self._untold(batch)))
            self._told.flush()
            self._store.files.unlink(taken)
            self._store.files.sync_directory(self._store.queue_path())
        except OSError as error:
            raise storage_failure("take", taken, error) from error

    def _take(self, taken: Path) -> bool:
        spool = Path(self._store.queue_path(SPOOL))
        if not spool.exists():
            return False
        with _spool_lock(self._store):
            spool.rename(taken)
        self._store.files.sync_directory(self._store.queue_path())
        return True

    def _untold(self, lines: Iterable[bytes]) -> Iterator[Fact]:
        places: dict[tuple[str, str], int] = {}
        for raw in lines:
            # Its own id is the one that it is asked for: this file is ours.
            fact = decode_fact(raw[:-1], job_id=_job_in(raw))
            if fact is None:
                continue
            job = fact.job_id, fact.created_at
            if fact.place > places.get(job, self._told.up_to(*job).place):
                places[job] = fact.place
                yield fact._replace(cause=self._redactor.redact(fact.cause)[:MAX_REASON])

    def _histories(self) -> Iterator[str]:
        """Yield the jobs whose history is longer, or shorter, than what was told of it."""
        for job_id in self._store.job_ids():
            with contextlib.suppress(StorageError):
                if _size(self._store.audit(job_id).events_path) != self._told.offset(job_id):
                    yield job_id


def _spool_lock(store: RecordStore) -> contextlib.AbstractContextManager[None]:
    return file_lock.held(
        store.lock_path(_LOCK),
        clock=store.clock,
        deadline_seconds=file_lock.DEFAULT_DEADLINE_SECONDS,
        what="the file of removed jobs' facts",
    )


def _size(path: str) -> int:
    """Return the file's size, 0 where there is none. Raises StorageError."""
    try:
        return Path(path).stat().st_size
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise storage_failure("look for", path, error) from error


def lines_from(path: str, offset: int) -> Generator[bytes, None, None]:
    """Yield the whole lines from byte `offset` on; none where there is no file. Raises StorageError."""
    try:
        with Path(path).open("rb") as file:
            file.seek(offset)
            for raw in file:
                if raw.endswith(b"\n"):
                    yield raw
    except FileNotFoundError:
        return
    except OSError as error:
        raise storage_failure("read", path, error) from error


def _job_in(raw: bytes) -> str:
    _, _, rest = raw.partition(b'"job_id":"')
    return rest[:8].decode(errors="replace")
