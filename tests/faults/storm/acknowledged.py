"""What workers were told is theirs no more: the events that must not be lost."""

import threading
from collections import defaultdict


class Acknowledged:
    """Every event whose JSON line was printed, or for which `Publisher` returned. Thread-safe.

    Also those that were kept but not delivered: from the outbox on, the event is the job's.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._seqs: dict[str, set[int]] = defaultdict(set)
        self._count = 0
        self._over = False

    def add(self, job_id: str, seq: int) -> None:
        """Note one event."""
        with self._changed:
            if seq not in self._seqs[job_id]:
                self._seqs[job_id].add(seq)
                self._count += 1
                self._changed.notify_all()

    def finish(self) -> None:
        """Say that nothing more comes."""
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def wait_for(self, count: int) -> bool:
        """Wait until so many events are acknowledged; False where that will not happen any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._count >= count or self._over)
            return self._count >= count

    @property
    def count(self) -> int:
        """Return how many there are."""
        with self._changed:
            return self._count

    def by_job(self) -> dict[str, set[int]]:
        """Return a copy of the seqs of each job."""
        with self._changed:
            return {job_id: set(seqs) for job_id, seqs in self._seqs.items()}
