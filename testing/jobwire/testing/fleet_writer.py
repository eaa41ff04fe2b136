"""Jobs and their events on disk, without a broker: what the registry and the publisher leave behind."""

import time
from collections.abc import Sequence
from pathlib import Path

from jobwire.core.clock import Clock, SystemClock, utc_timestamp
from jobwire.core.override import override
from jobwire.core.topics import Topics
from jobwire.jobs.event import Event, compose, encode_signed
from jobwire.jobs.record import JobRecord
from jobwire.journal.entry import Entry
from jobwire.journal.writer import JournalWriter
from jobwire.registry.queue import JobQueue
from jobwire.registry.spec import JobSpec
from jobwire.registry.store import RecordStore
from jobwire.storage.files import StrPath, SystemFiles


class _Unflushed(SystemFiles):
    @override
    def sync_all(self, descriptors: Sequence[int]) -> None:
        """Leave it to the system."""

    @override
    def sync_directory(self, path: StrPath) -> None:
        """Leave it to the system."""


class FleetWriter:
    """Registers jobs below `home` and speaks for them as real commands do.

    `durable` False leaves out the flushes: for filling a registry with thousands of jobs.
    """

    def __init__(self, home: Path, *, clock: Clock | None = None, durable: bool = True) -> None:
        self.home = home
        self.clock = clock if clock is not None else SystemClock()
        self._files = SystemFiles() if durable else _Unflushed()
        self.store = RecordStore(home, clock=self.clock, files=self._files)
        self.store.make_layout()
        self.queue = JobQueue(self.store, warn=print)
        self._journal: JournalWriter | None = None

    def register(self, title: str = "", **fields: object) -> str:
        """Register a job; `fields` are those of JobSpec. Return its id."""
        return self.queue.register(JobSpec(title=title, **fields)).record.job_id  # type: ignore[arg-type]  # a test's own

    def start(self, title: str = "", **fields: object) -> str:
        """Register a job and let its worker say `started`."""
        job_id = self.register(title, **fields)
        self.say(job_id, "started", "started")
        return job_id

    def next_event(self, job_id: str, event: str, detail: str, **data: object) -> tuple[Event, bytes]:
        """Return the job's next event and its signed payload, not yet said."""
        record = self.store.get(job_id)
        stamp = utc_timestamp(self.clock.now())
        spoken = compose(
            seq=record.last_seq + 1, job_id=job_id, event=event, timestamp=stamp, detail=detail, data=data
        )
        return spoken, encode_signed(spoken, record.auth_token)

    def say(self, job_id: str, event: str, detail: str = "", **data: object) -> JobRecord:
        """Apply the job's next event to its record and history."""
        spoken, payload = self.next_event(job_id, event, detail, **data)
        return self.store.apply(job_id, spoken, payload, source="test")

    def journal(self, job_id: str, payload: bytes, *, verdict: str = "accepted") -> int:
        """Append a message to the home's journal only; return the journal's new end."""
        return self.append([Entry(time.time_ns() // 1000, Topics().events(job_id), payload, False, verdict)])

    def append(self, entries: Sequence[Entry]) -> int:
        """Append a batch to the home's journal; return the journal's new end."""
        if self._journal is None:
            self._journal = JournalWriter(self.home / "journal", clock=self.clock, files=self._files)
        return self._journal.append(entries)

    def close(self) -> None:
        """Close what is open."""
        self.queue.close()
        if self._journal is not None:
            self._journal.close()
