"""Journal, fold and outbox under a child that SIGKILL really ends before each of its system calls.

The registry's own changes are in test_registry_stopped.py, certificates in tests/integration/certs.
"""

import json
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jobwire.core.topics import Topics
from jobwire.delivery.event_log import EventLog
from jobwire.delivery.signing import Draft
from jobwire.delivery.ticket_log import TicketEventLog
from jobwire.jobs.event import compose, encode_signed
from jobwire.jobs.record import JobRecord
from jobwire.jobs.ticket import encode_ticket, ticket_for
from jobwire.journal.consumers import Consumers
from jobwire.journal.entry import Entry
from jobwire.journal.reader import JournalReader
from jobwire.journal.retention import Retention, RetentionPolicy
from jobwire.journal.verify import verify
from jobwire.journal.writer import JournalWriter
from jobwire.registry.event_log import HomeEventLog
from jobwire.registry.folding import Folder
from jobwire.registry.queue import JobQueue
from jobwire.registry.spec import JobSpec
from jobwire.registry.store import RecordStore
from jobwire.registry.views import Views
from jobwire.storage.files import FileSystem, SystemFiles
from jobwire.testing import ManualClock
from jobwire.testing.broken_disks import StoppingFiles
from jobwire.testing.memory import memory_directory

CLOCK = ManualClock()
TOPICS = Topics()
ROWS = [Entry(i, TOPICS.events("00000000"), b"%d" % i * 50, False, "accepted") for i in range(12)]
Prepare = Callable[[Path], None]
Work = Callable[[Path, FileSystem], None]


def _nothing(home: Path) -> None:
    """Prepare nothing."""


def _deaths(prepare: Prepare, work: Work) -> Iterator[Path]:
    """Yield a home for each call of `work`, after a child was killed there; the last child ends well."""
    step, killed = 0, True
    while killed:
        with tempfile.TemporaryDirectory(dir=memory_directory()) as folder:
            home = Path(folder) / "home"
            prepare(home)
            killed = _killed(home, work, step)
            yield home
        step += 1
    assert step > 5


def _killed(home: Path, work: Work, step: int) -> bool:
    """Run `work` in a child that dies before its call number `step`; False where it made fewer."""
    child = os.fork()
    if child == 0:
        try:
            files = StoppingFiles(
                stop_at=step, act=lambda: os.kill(os.getpid(), signal.SIGKILL), torn=step % 2 == 0
            )
            work(home, files)
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert status in {0, signal.SIGKILL}, f"the child ended by itself before call {step}"
    return status != 0


def _journal(home: Path, files: FileSystem) -> None:
    """Append over several segments, commit, prune, and say what was promised so far in a file beside."""
    said = os.open(home.with_name("promised"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with JournalWriter(home / "journal", clock=CLOCK, files=files, segment_bytes=1000) as writer:
        for start in range(0, len(ROWS), 4):
            os.write(said, b"%d\n" % writer.append(ROWS[start : start + 4]))
        consumers = Consumers(home / "journal", clock=CLOCK, files=files)
        consumers.register("fold", 0)
        consumers.commit("fold", 9)
        Retention(home / "journal", clock=CLOCK, limits=RetentionPolicy(0, 0), files=files).prune()


def test_journal() -> None:
    """Whatever append returned for is there, unharmed, and the next writer goes on."""
    for home in _deaths(_nothing, _journal):
        promised = [int(line) for line in home.with_name("promised").read_text().split()] or [0]
        with JournalWriter(home / "journal", clock=CLOCK, segment_bytes=1000) as writer:
            assert writer.next_offset >= promised[-1]
            end = writer.append(ROWS[:1])
        assert not verify(home / "journal").damage
        with JournalReader(home / "journal") as reader:
            offsets = [row.offset for row in reader.read(reader.first_offset, max_rows=100)]
        assert offsets == list(range(offsets[0], end))


def _home(home: Path) -> None:
    """Make a home with one job, and a ticket for it."""
    store = RecordStore(home, clock=CLOCK)
    job = JobQueue(store, warn=pytest.fail).register(JobSpec()).record
    path = home / "job.ticket"
    path.touch(0o600)
    path.write_bytes(encode_ticket(ticket_for(job, broker={}, topic_root="python/mqtt/jobs")))


def _job(home: Path) -> JobRecord:
    store = RecordStore(home, clock=CLOCK)
    return store.get(next(store.job_ids()))


def _home_log(home: Path, files: FileSystem) -> EventLog:
    return HomeEventLog(RecordStore(home, clock=CLOCK, files=files), _job(home).job_id, attempt=1)


def _ticket_log(home: Path, files: FileSystem) -> EventLog:
    return TicketEventLog(home / "job.ticket", clock=CLOCK, files=files)


@pytest.mark.parametrize("events", [_home_log, _ticket_log])
def test_outbox(events: Callable[[Path, FileSystem], EventLog]) -> None:
    """An event is kept whole or not at all, its number is used once, and trimming takes no other."""

    def work(home: Path, files: FileSystem) -> None:
        worker = events(home, files)
        for draft in (
            Draft("started"),
            Draft("progress", "x" * 800, {"bulk": "x" * 40_000}),
            Draft("progress", "y" * 800),
        ):
            worker.append(draft)
        worker.trim(2)

    for home in _deaths(_home, work):
        worker = events(home, SystemFiles())
        last = worker.recover().last_seq
        kept = [entry.seq for entry in worker.outbox.entries()]
        assert kept in ([], list(range(1, last + 1)), [last])
        draft = Draft("progress", "on") if last else Draft("started")
        assert worker.append(draft).seq == last + 1


def _journaled(home: Path) -> None:
    """Make a home whose journal holds three events of its job."""
    _home(home)
    job = _job(home)
    entries = []
    for seq, kind in enumerate(("started", "progress", "completed"), 1):
        event = compose(
            seq=seq, job_id=job.job_id, event=kind, timestamp=job.created_at, detail=kind, data={}
        )
        payload = encode_signed(event, job.auth_token)
        entries.append(Entry(1, TOPICS.events(job.job_id), payload, False, "accepted"))
    with JournalWriter(home / "journal", clock=CLOCK) as writer:
        writer.append(entries)


def _fold(home: Path, files: FileSystem) -> None:
    """Fold the journal into the record and commit, as the registry process does."""
    store = RecordStore(home, clock=CLOCK, files=files)
    folder = Folder(
        store=store,
        views=Views(store),
        topics=TOPICS,
        reader=JournalReader(home / "journal"),
        durable_offset=lambda: 3,
        consumers=Consumers(home / "journal", clock=CLOCK, files=files),
        journal=lambda _: None,
        on_folded=lambda *_: None,
    )
    folder.step(hurry=True)
    folder.close()


def test_fold() -> None:
    """However far it came: the next one finishes it, each event is in record and history once."""
    for home in _deaths(_journaled, _fold):
        _fold(home, SystemFiles())
        record = _job(home)
        assert (str(record.status), record.last_seq, record.confirmed_seq) == ("completed", 3, 3)
        lines = RecordStore(home).audit(record.job_id).lines()
        assert [line["seq"] for line in lines if line["kind"] == "event"] == [1, 2, 3]
        committed = json.loads((home / "journal" / "consumers" / "registry.json").read_text())
        assert committed["offset"] == 3
