"""The recorder: durable before acknowledged, each message judged once, floods bounded, nothing dropped."""

import errno
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from jobwire.core.errors import RefusedError, StorageError, UnreachableError
from jobwire.core.override import override
from jobwire.core.topics import Topics
from jobwire.jobs.admission import JobView
from jobwire.jobs.event import MAX_PAYLOAD, compose, encode_signed
from jobwire.journal.admission import unverified
from jobwire.journal.entry import Stored
from jobwire.journal.evidence import OVERSIZE_EVIDENCE_BYTES, SUPPRESSED, SUPPRESSED_TOPIC, Evidence
from jobwire.journal.reader import JournalReader
from jobwire.journal.recorder import Recorded, Recorder
from jobwire.journal.writer import JournalWriter
from jobwire.storage.files import SystemFiles
from jobwire.testing import InMemoryBroker, ManualClock
from jobwire.testing.keyed_admission import Admission

_TOPICS = Topics("root")
_JOB = "0000000a"
_TOKEN = "t" * 43


class FillingFiles(SystemFiles):
    """A disk that is full, or broken, while `code` says so."""

    code = 0
    tries = 0

    @override
    def sync_all(self, descriptors: Sequence[int]) -> None:
        """Sync, or fail."""
        if self.code:
            self.tries += 1
            raise OSError(self.code, os.strerror(self.code))
        super().sync_all(descriptors)


class Views:
    """The jobs that are known."""

    def __init__(self) -> None:
        self.jobs = {_JOB: JobView(token=_TOKEN)}

    def view(self, job_id: str) -> JobView | None:
        """Return the same view each time."""
        return self.jobs.get(job_id)


class Bench:
    """A broker, a worker that publishes, and recorders that come and go on one journal."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.broker = InMemoryBroker()
        self.clock = ManualClock()
        self.files = FillingFiles()
        self.views = Views()
        self.gaps: list[tuple[str, list[int]]] = []
        self.durable: list[Recorded] = []
        self.writer = JournalWriter(directory, clock=self.clock, files=self.files)
        self.worker = self.broker.transport("worker")
        self.worker.connect(1.0)

    def recorder(self, **options: object) -> Recorder:
        """Return a recorder on a persistent session, with an empty memory of what was seen."""
        transport = self.broker.transport("recorder", clean_session=False)
        defaults: dict[str, object] = {
            "transport": transport,
            "writer": self.writer,
            "admit": Admission(topics=_TOPICS, views=self.views),
            "filters": [_TOPICS.events("+")],
            "clock": self.clock,
            "on_durable": self.durable.extend,
            "on_gap": self._gap,
            "linger_seconds": 0.0,
        }
        recorder = Recorder(**{**defaults, **options})  # type: ignore[arg-type]  # options of the test
        recorder._connect(lambda: False)
        return recorder

    def _gap(self, job_id: str, missing: Sequence[int]) -> None:
        self.gaps.append((job_id, list(missing)))

    def say(self, seq: int, event: str = "progress", *, job: str = _JOB, token: str = _TOKEN) -> bytes:
        """Publish one signed event; return its bytes."""
        said = compose(
            seq=seq, job_id=job, event=event, timestamp="2026-01-01T00:00:00Z", detail=f"{seq}", data={}
        )
        payload = encode_signed(said, token)
        self.send(_TOPICS.events(job), payload, retain=said.terminal)
        return payload

    def send(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Publish anything."""
        self.worker.publish(topic, payload, retain=retain, deadline_seconds=1.0)

    def rows(self) -> list[Stored]:
        """Return the whole journal."""
        with JournalReader(self.directory) as reader:
            return reader.read(0, max_rows=100_000, max_bytes=1 << 30)

    def unacknowledged(self) -> int:
        """Return how much the broker still keeps for the recorder."""
        return len(self.broker.unacknowledged("recorder"))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Give a fresh bench."""
    made = Bench(tmp_path / "journal")
    yield made
    made.writer.close()


def _drain(recorder: Recorder) -> int:
    total = 0
    while count := recorder.step(0.0, lambda: True):
        total += count
    return total


def test_a_batch_is_durable_before_it_is_acknowledged(bench: Bench) -> None:
    """The broker forgets a message only when it is in the journal, with its verdict."""
    recorder = bench.recorder()
    sent = [bench.say(1, "started"), bench.say(2), bench.say(3, "completed")]
    assert bench.unacknowledged() == 3
    assert _drain(recorder) == 3
    assert bench.unacknowledged() == 0
    rows = bench.rows()
    assert [row.payload for row in rows] == sent
    assert {row.verdict for row in rows} == {"accepted"}
    assert [row.received_at_us for row in rows] == [int(bench.clock.now() * 1e6)] * 3
    assert [(r.offset, r.judged.event.seq) for r in bench.durable if r.judged.event] == [
        (0, 1),
        (1, 2),
        (2, 3),
    ]
    progress = recorder.progress()
    assert (progress.connected, progress.durable_offset, progress.verdicts) == (True, 3, {"accepted": 3})


def test_a_death_between_fsync_and_acknowledgement_doubles_nothing(bench: Bench) -> None:
    """What comes again after the kill is a duplicate; the event stands once as accepted."""

    def die(_: Sequence[Recorded]) -> None:
        raise KeyboardInterrupt

    class Dying:
        def __getattr__(self, name: str) -> object:
            return die if name == "acknowledge_many" else getattr(transport, name)

    bench.recorder()  # the session exists from now on
    bench.say(1, "started")
    bench.say(2)
    transport = bench.broker.transport("recorder", clean_session=False)
    with pytest.raises(KeyboardInterrupt):
        bench.recorder(transport=Dying()).step(0.0, lambda: True)
    assert bench.unacknowledged() == 2
    _drain(bench.recorder())
    verdicts = [row.verdict for row in bench.rows()]
    assert verdicts == ["accepted", "accepted", "duplicate", "duplicate"]
    assert bench.unacknowledged() == 0


def test_a_full_disk_stops_acknowledgements_and_drops_nothing(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """While there is no room the same batch is tried again; then everything is there, once."""
    recorder = bench.recorder()
    bench.say(1, "started")
    bench.files.code = errno.ENOSPC

    def room_after_five() -> bool:
        if bench.files.tries == 5:
            bench.files.code = 0
        return False

    assert recorder.step(0.0, room_after_five) == 1
    assert bench.files.tries == 5
    assert [row.verdict for row in bench.rows()] == ["accepted"]
    assert bench.unacknowledged() == 0
    assert recorder.progress().stalled_since is None
    assert [r.levelno for r in caplog.records].count(logging.ERROR) == 1


def test_a_full_disk_ends_no_idle_recorder(bench: Bench) -> None:
    """A segment that is due while nothing comes waits for room; a disk that is broken ends the recorder."""
    recorder = bench.recorder()
    bench.say(1, "started")
    assert recorder.step(0.0, lambda: True) == 1
    bench.clock.advance(2 * 3600)
    bench.files.code = errno.ENOSPC
    assert recorder.step(0.0, lambda: True) == 0
    bench.files.code = errno.EIO
    with pytest.raises(StorageError):
        recorder.step(0.0, lambda: True)


def test_stopping_before_a_full_disk_leaves_everything_at_the_broker(bench: Bench) -> None:
    """A recorder that must end while the disk is full acknowledges nothing, and takes nothing later."""
    recorder = bench.recorder(batch_messages=1)
    bench.say(1, "started")
    bench.say(2)
    bench.files.code = errno.ENOSPC
    stops = iter([False, False])
    recorder.run(lambda: next(stops, True))
    assert recorder.progress().stalled_since is not None
    bench.files.code = 0
    assert bench.unacknowledged() == 2
    assert bench.rows() == []


def test_a_broken_disk_ends_the_recorder(bench: Bench) -> None:
    """What waiting cannot cure is raised; nothing is acknowledged."""
    recorder = bench.recorder()
    bench.say(1, "started")
    bench.files.code = errno.EIO
    with pytest.raises(StorageError):
        recorder.step(0.0, lambda: False)
    assert bench.unacknowledged() == 1


def test_gaps_are_reported_after_the_batch_is_durable(bench: Bench) -> None:
    """The hook names the job and exactly the missing seqs; an event that fills a gap is kept as late."""

    def gap(job_id: str, missing: Sequence[int]) -> None:
        assert bench.rows()
        bench.gaps.append((job_id, list(missing)))

    recorder = bench.recorder(on_gap=gap)
    for seq, event in ((1, "started"), (4, "progress"), (5, "progress"), (7, "progress")):
        bench.say(seq, event)
    _drain(recorder)
    assert bench.gaps == [(_JOB, [2, 3]), (_JOB, [6])]
    bench.say(2)
    _drain(recorder)
    assert bench.rows()[-1].verdict == "late"
    assert bench.durable[-1].judged.keep


def test_each_reason_is_journaled_and_counted(bench: Bench) -> None:
    """Rejected messages are evidence: they stand in the journal with their reason."""
    recorder = bench.recorder()
    first = bench.say(1, "started")
    bench.send(_TOPICS.events(_JOB), first)
    bench.send(_TOPICS.events(_JOB), b"no json")
    bench.send(_TOPICS.events("0000000f"), first)
    bench.say(1, "started", job="0000000f")
    bench.say(2, token="wrong" * 9)
    bench.send(_TOPICS.events(_JOB), b"x" * (MAX_PAYLOAD + 1))
    _drain(recorder)
    reasons = [row.verdict for row in bench.rows()]
    assert reasons == [
        "accepted",
        "duplicate",
        "malformed",
        "topic_mismatch",
        "unknown_job",
        "bad_signature",
        "oversize",
    ]
    assert bench.rows()[-1].payload == b"x" * OVERSIZE_EVIDENCE_BYTES
    assert recorder.progress().verdicts == dict.fromkeys(reasons, 1)


def test_a_flood_is_bounded_on_disk_and_in_the_log(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """2,000 forgeries leave the budget's bytes and a few lines; real events and exact counts remain."""
    evidence = Evidence(clock=bench.clock, bytes_per_minute=6_000, burst_bytes=10_000)
    recorder = bench.recorder(evidence=evidence)
    bench.say(1, "started")
    for number in range(2_000):
        bench.send(_TOPICS.events(_JOB), b"forged %d" % number)
        if number == 1_000:
            bench.say(2)
    assert _drain(recorder) == 2_002
    bench.send("root/x/events", b"another kind is not crowded out \xff")
    bench.clock.advance(61)
    bench.say(3)
    _drain(recorder)
    rows = bench.rows()
    assert [row.offset for row in rows if row.verdict == "accepted"] == [0, *_offsets(rows, "accepted")[1:]]
    assert len(_offsets(rows, "accepted")) == 3
    kept = len(_offsets(rows, "malformed"))
    assert 50 < kept < 120
    (summary,) = [row for row in rows if row.verdict == SUPPRESSED]
    assert summary.topic == SUPPRESSED_TOPIC
    assert summary.payload == b'{"malformed": %d}' % (2_001 - kept)
    assert recorder.progress().suppressed == {"malformed": 2_001 - kept}
    assert len(caplog.records) < 10
    assert sum("more since" in record.getMessage() for record in caplog.records) >= 1
    assert bench.unacknowledged() == 0


def _offsets(rows: list[Stored], verdict: str) -> list[int]:
    return [row.offset for row in rows if row.verdict == verdict]


def test_hostile_topics_do_not_reach_the_terminal_raw(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """Control characters of a rejected topic are escaped in the log."""
    recorder = bench.recorder(filters=["#"])
    bench.send("root/\x1b[31m\u202e/events", b"{}")
    _drain(recorder)
    assert "\x1b" not in caplog.text
    assert "\u202e" not in caplog.text


def test_without_keys_everything_is_recorded_unverified(bench: Bench) -> None:
    """A recorder without keys keeps all bytes for readers that verify later, and logs no rejection."""
    recorder = bench.recorder(admit=unverified)
    bench.say(1, "started")
    bench.send(_TOPICS.events(_JOB), b"no json")
    _drain(recorder)
    assert [row.verdict for row in bench.rows()] == ["unverified"] * 2


def test_batches_are_bounded(bench: Bench) -> None:
    """A batch holds at most the given number of messages; the rest waits its turn."""
    recorder = bench.recorder(batch_messages=10)
    bench.say(1, "started")
    for seq in range(2, 26):
        bench.say(seq)
    assert [recorder.step(0.0, lambda: True) for _ in range(4)] == [9, 10, 6, 0], (
        "the session's start is one of the first ten"
    )


def test_a_lost_session_is_told_and_counted(bench: Bench) -> None:
    """The caller hears when the broker kept nothing, and may then read outboxes and records again."""
    heard: list[object] = []
    recorder = bench.recorder(on_session=heard.append)
    bench.broker.stop()
    bench.broker.start(forget=True)
    _drain(recorder)
    assert [getattr(item, "session_present", None) for item in heard] == [False, None, False]
    assert recorder.progress().reconnects == 1


def test_an_absent_broker_is_tried_again_and_a_refusal_is_final(bench: Bench) -> None:
    """Unreachable: pauses and tries; refused: raises at once."""
    bench.broker.refuse_connections(UnreachableError("nobody there"))

    def stop() -> bool:
        if len(bench.clock.slept) == 6:
            bench.broker.refuse_connections(RefusedError("not you"))
        return False

    with pytest.raises(RefusedError):
        _run(bench, stop)
    assert len(bench.clock.slept) >= 6


def _run(bench: Bench, stop: Callable[[], bool]) -> None:
    Recorder(
        transport=bench.broker.transport("recorder", clean_session=False),
        writer=bench.writer,
        admit=unverified,
        filters=["#"],
        clock=bench.clock,
    ).run(stop)
