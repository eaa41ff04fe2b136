"""A home directory, a clock that is moved by hand, and signed events."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from jobwire.core.clock import utc_timestamp
from jobwire.core.ports import Message
from jobwire.core.topics import Topics
from jobwire.jobs.event import Event, compose, encode_signed
from jobwire.jobs.record import JobRecord
from jobwire.journal.admission import Judged
from jobwire.journal.consumers import Consumers
from jobwire.journal.entry import Entry, Stored
from jobwire.journal.reader import JournalReader
from jobwire.journal.writer import JournalWriter
from jobwire.registry.folding import Folder
from jobwire.registry.queue import JobQueue
from jobwire.registry.store import RecordStore
from jobwire.registry.views import Views
from jobwire.registry.wire import GapRepair, WireAdmission
from jobwire.testing import ManualClock

Say = Callable[..., tuple[Event, bytes]]


@pytest.fixture
def clock() -> ManualClock:
    """Give the clock that store and queue share."""
    return ManualClock()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Give a place for a home."""
    return tmp_path / "home"


@pytest.fixture
def store(home: Path, clock: ManualClock) -> RecordStore:
    """Give an empty home."""
    return RecordStore(home, clock=clock)


@pytest.fixture
def warnings() -> list[str]:
    """Collect what the queue warns of."""
    return []


@pytest.fixture
def queue(store: RecordStore, warnings: list[str]) -> JobQueue:
    """Give the queue of that home."""
    return JobQueue(store, warn=warnings.append)


@pytest.fixture
def job(store: RecordStore) -> JobRecord:
    """Give one pending job."""
    stamp = utc_timestamp(store.clock.now())
    record = JobRecord("1a2b3c4d", "t" * 43, stamp, stamp, title="a job")
    store.create(record)
    return record


@pytest.fixture
def say(store: RecordStore) -> Say:
    """Give a worker: `say(record, seq, kind)` returns the event and its signed bytes."""

    def speak(
        record: JobRecord, seq: int, kind: str, detail: str = "", **data: object
    ) -> tuple[Event, bytes]:
        event = compose(
            seq=seq,
            job_id=record.job_id,
            event=kind,
            timestamp=utc_timestamp(store.clock.now()),
            detail=detail,
            data=data,
        )
        return event, encode_signed(event, record.auth_token)

    return speak


TOPICS = Topics()


class Registry(NamedTuple):
    """Admission, journal, gap repair and fold of one home, driven by hand."""

    store: RecordStore
    views: Views
    admit: WireAdmission
    repair: GapRepair
    writer: JournalWriter
    folder: Folder

    def hear(self, event: Event, payload: bytes, *, retain: bool = False) -> Judged:
        """Judge, journal and repair, as the recorder does."""
        topic = TOPICS.events(event.job_id)
        judged = self.admit(Message(topic, payload, retain, 1, 1))
        if judged.keep:
            now_us = int(self.store.clock.now() * 1_000_000)
            self.writer.append([Entry(now_us, topic, payload, retain, judged.verdict)])
        if judged.missing:
            self.repair(event.job_id, judged.missing)
        return judged

    def fold(self) -> None:
        """Fold everything that is journaled, but for the jobs set aside."""
        while not self.folder.caught_up():
            self.folder.step(hurry=True)
        self.folder.step(hurry=True)

    def journaled(self) -> list[Stored]:
        """Return what the journal holds."""
        with JournalReader(self.writer.directory) as reader:
            return reader.read(0)

    def again(self, store: RecordStore | None = None) -> "Registry":
        """Start anew on the same journal, as after a kill; perhaps on other files."""
        return start(store or self.store, self.writer)


def start(store: RecordStore, writer: JournalWriter) -> Registry:
    """Return a registry without threads on a home and a journal."""
    views = Views(store)
    folder = Folder(
        store=store,
        views=views,
        topics=TOPICS,
        reader=JournalReader(writer.directory),
        durable_offset=lambda: writer.next_offset,
        consumers=Consumers(writer.directory, clock=store.clock, files=store.files),
        journal=writer.append,
        on_folded=lambda *_: None,
    )
    repair = GapRepair(store=store, views=views, topics=TOPICS, writer=writer, on_journaled=lambda: None)
    return Registry(store, views, WireAdmission(topics=TOPICS, views=views), repair, writer, folder)


@pytest.fixture
def registry(store: RecordStore, clock: ManualClock, home: Path) -> Iterator[Registry]:
    """Give a registry without threads."""
    with JournalWriter(home.parent / "journal", clock=clock) as writer:
        yield start(store, writer)
