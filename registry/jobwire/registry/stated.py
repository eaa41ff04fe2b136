"""What was decided about each job, for its states: read from its history, from where the last state ended."""

import contextlib
import threading
from collections import OrderedDict
from typing import NamedTuple

from jobwire.core.errors import StorageError
from jobwire.core.redaction import Redactor
from jobwire.jobs.fact import Fact
from jobwire.jobs.record import JobRecord
from jobwire.jobs.stated_facts import kept_facts
from jobwire.registry.decisions import decided
from jobwire.registry.store import RecordStore
from jobwire.registry.telling import history_path, lines_from

# Of the jobs that changed last, so that a state does not cost a whole history.
_REMEMBERED = 4096


class _Known(NamedTuple):
    created_at: str
    line: int = 0
    offset: int = 0
    facts: tuple[Fact, ...] = ()


class StatedFacts:
    """Gives the facts of jobs. Thread-safe, for different jobs at a time."""

    def __init__(self, store: RecordStore, redactor: Redactor) -> None:
        self._store = store
        self._redactor = redactor
        self._guard = threading.Lock()
        self._known: OrderedDict[str, _Known] = OrderedDict()

    def of(self, record: JobRecord) -> list[Fact]:
        """Return what was decided about the job up to this record; what is known where a disk fails."""
        with self._guard:
            known = self._known.get(record.job_id)
        if known is None or known.created_at != record.created_at:
            known = _Known(record.created_at)
        with contextlib.suppress(StorageError):
            known = self._read(record, known)
        with self._guard:
            self._known[record.job_id] = known
            self._known.move_to_end(record.job_id)
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return list(known.facts)

    def _read(self, record: JobRecord, known: _Known) -> _Known:
        lines = lines_from(history_path(self._store, record.job_id), known.offset)
        with contextlib.closing(lines):
            found = decided(lines, record, line=known.line, offset=known.offset, redact=self._redactor.redact)
        facts = kept_facts([*known.facts, *found.facts])
        return _Known(record.created_at, found.line, found.offset, tuple(facts))
