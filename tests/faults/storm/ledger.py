"""What the journal holds, read as any consumer reads it."""

import json
from collections import Counter, defaultdict
from collections.abc import Container
from pathlib import Path
from typing import NamedTuple

from jobwire.jobs.admission import ACCEPTED, Reason
from jobwire.journal.entry import Stored
from jobwire.journal.reader import JournalReader

_MICROSECONDS = 1_000_000


class Arrival(NamedTuple):
    """One accepted event: when it was received, in epoch seconds, and whether its content is its own."""

    job_id: str
    seq: int
    at: float
    intact: bool


class Ledger:
    """The accepted events of these jobs in a journal and a count of everything else; `update` reads on."""

    def __init__(self, directory: Path, jobs: Container[str]) -> None:
        self._directory = directory
        self._jobs = jobs
        self._next = 0
        self.arrivals: list[Arrival] = []
        self.accepted: dict[str, Counter[int]] = defaultdict(Counter)
        # Genuine events that came after a later one, and after the end of a cancelled job.
        self.late: dict[str, set[int]] = defaultdict(set)
        self.after_end: dict[str, set[int]] = defaultdict(set)
        self.verdicts: Counter[str] = Counter()

    def update(self) -> None:
        """Read what is new."""
        with JournalReader(self._directory) as reader:
            while rows := reader.read(self._next):
                for row in rows:
                    self._take(row)
                self._next = rows[-1].offset + 1

    def held(self, job_id: str) -> set[int]:
        """Return the seqs of the job that are in the journal as genuine events."""
        return set(self.accepted[job_id]) | self.late[job_id]

    def _take(self, row: Stored) -> None:
        self.verdicts[row.verdict] += 1
        if row.verdict not in {ACCEPTED, Reason.LATE, Reason.AFTER_TERMINAL}:
            return
        body = json.loads(row.payload)
        job_id, seq = body["job_id"], body["seq"]
        if job_id not in self._jobs:
            return
        if row.verdict == ACCEPTED:
            self.accepted[job_id][seq] += 1
            intact = body["data"].get("step") == seq
            self.arrivals.append(Arrival(job_id, seq, row.received_at_us / _MICROSECONDS, intact))
        else:
            (self.late if row.verdict == Reason.LATE else self.after_end)[job_id].add(seq)
