"""When jobs waited for permission: folded from the journal, because the tables keep only each job's total."""

import json
from collections import deque
from collections.abc import Container
from pathlib import Path

from jobwire.core.errors import JobwireError
from jobwire.jobs.admission import ACCEPTED
from jobwire.journal.entry import Stored
from jobwire.journal.reader import JournalReader

# Rows folded by one call: the history of a busy day is caught up in the background, a piece at a time.
_ROWS_PER_CALL = 5000
_KEPT_INTERVALS = 20_000
_SETTLED_SECONDS = 5.0
_ASKED = "permission_required"


class WaitingHistory:
    """Intervals in which a job waited, over the last `seconds` of the journal and from then on."""

    def __init__(self, directory: Path, *, seconds: float) -> None:
        self._directory = directory
        self._seconds = seconds
        self._reader: JournalReader | None = None
        self._offset = 0
        self._since: dict[str, float] = {}
        self._ended: deque[tuple[float, float]] = deque(maxlen=_KEPT_INTERVALS)
        self.complete = False

    def advance(self, now: float) -> None:
        """Fold some more of the journal; call again until `complete`. Never raises for the journal."""
        try:
            if self._reader is None:
                self._reader = JournalReader(self._directory)
                self._offset = self._reader.offset_at(int((now - self._seconds) * 1e6))
            rows = self._reader.read(self._offset, max_rows=_ROWS_PER_CALL)
        except JobwireError:
            # No journal, or another one by now: begin again with what there is at the next call.
            self._begin_again()
            return
        for row in rows:
            self._take(row)
        if rows:
            self._offset = rows[-1].offset + 1
        self.complete = len(rows) < _ROWS_PER_CALL

    def intervals(self, still_waiting: Container[str], now: float) -> list[tuple[float, float]]:
        """Return (since, until) of every wait; until is infinite while it lasts.

        A wait that the fleet knows nothing of ended without an event, by a cancellation for instance.
        """
        # The fleet may be a moment behind the journal.
        old = [job_id for job_id, since in self._since.items() if since < now - _SETTLED_SECONDS]
        for job_id in old:
            if job_id not in still_waiting:
                self._ended.append((self._since.pop(job_id), now))
        return [*self._ended, *((since, float("inf")) for since in self._since.values())]

    def _take(self, row: Stored) -> None:
        if row.verdict != ACCEPTED:
            return
        parts = row.topic.rsplit("/", 2)
        if len(parts) < 3:  # noqa: PLR2004 - root, job, kind
            return
        job_id, at = parts[1], row.received_at_us / 1e6
        since = self._since.pop(job_id, None)
        if since is not None:
            self._ended.append((since, at))
        if _asks(row.payload):
            self._since[job_id] = at

    def _begin_again(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._reader, self.complete = None, False
        self._since.clear()
        self._ended.clear()


def _asks(payload: bytes) -> bool:
    """Tell whether the event asks for a permission; what does not name one, most by far, is not decoded."""
    if _ASKED.encode() not in payload:
        return False
    try:
        return bool(json.loads(payload).get("event") == _ASKED)
    except (ValueError, AttributeError, RecursionError):
        return False
