"""`ingest=embedded`: from a broker's address to rows, with the recorder in a process of its own."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobwire.core.errors import UnreachableError
from jobwire.core.topics import Topics
from jobwire.journal.reader import JournalReader
from jobwire.metrics.source.ingest import Ingest
from jobwire.metrics.source.options import SourceOptions, read_options
from jobwire.metrics.source.stream import JournalStream
from jobwire.storage.file_lock import holder_pid
from jobwire.testing.clock import ManualClock
from jobwire.testing.homes import new_home
from jobwire.testing.mosquitto_server import MosquittoServer
from jobwire.testing.ports import free_port
from jobwire.testing.rehearsal import CLEAN, Rehearsal
from jobwire.testing.waiting import wait_for
from jobwire.transport import PahoTransport

pytestmark = pytest.mark.mosquitto


def publish(server: MosquittoServer, topics: Topics, seed: int, jobs: int = 3) -> int:
    """Publish a few jobs' events as their worker; return how many messages that were."""
    script = list(Rehearsal(seed=seed, jobs=jobs, mix=CLEAN, topics=topics))
    transport = PahoTransport(server.settings("claude-worker"), client_id=f"w{seed}", clean_session=True)
    transport.connect(10.0)
    for entry in script:
        transport.publish(entry.topic, entry.payload, retain=False, deadline_seconds=10.0)
    transport.close()
    return len(script)


def options_for(server: MosquittoServer, journal: Path) -> SourceOptions:
    """Return the source's options for an embedded recorder."""
    return read_options({"journal": str(journal), "ingest": "embedded", "home": str(server.home)})


def recorder_pid(journal: Path) -> int:
    """Return the process that writes the journal."""
    pid = holder_pid(journal / "writer.lock")
    assert pid is not None
    return pid


@pytest.fixture
def stream(mosquitto: MosquittoServer, tmp_path: Path) -> Iterator[JournalStream]:
    """Give a stream reader with its own recorder, outside Spark."""
    reader = JournalStream(options_for(mosquitto, tmp_path / "journal"))
    yield reader
    reader.stop()


def durable(journal: Path) -> int:
    """Return the journal's end."""
    with JournalReader(journal) as reader:
        return reader.durable_offset


def test_what_is_published_is_in_the_stream(
    mosquitto: MosquittoServer, stream: JournalStream, tmp_path: Path
) -> None:
    """The first call starts the recorder; what is published from then on becomes offsets."""
    start = stream.initialOffset()
    log = tmp_path / "journal-recorder.log"
    wait_for(lambda: "subscribed" in log.read_text() or durable(tmp_path / "journal") >= 0)
    sent = wait_for(lambda: publish(mosquitto, Topics(), 31))
    wait_for(lambda: durable(tmp_path / "journal") >= sent, what="rows")
    end = stream.latestOffset(start, stream.getDefaultReadLimit())
    assert end["offset"] >= sent
    assert stream.partitions(start, end)


def test_a_killed_recorder_is_started_again_and_misses_nothing(
    mosquitto: MosquittoServer, stream: JournalStream, tmp_path: Path
) -> None:
    """A kill -9 of the recorder: the broker keeps what comes meanwhile, the next one records it."""
    journal = tmp_path / "journal"
    start = stream.initialOffset()
    first = recorder_pid(journal)
    sent = publish(mosquitto, Topics(), 32)
    wait_for(lambda: durable(journal) >= sent, what="rows before the kill")
    os.kill(first, signal.SIGKILL)
    sent += publish(mosquitto, Topics(), 33)

    def caught_up() -> bool:
        stream.latestOffset(start, stream.getDefaultReadLimit())  # looks after the recorder
        return durable(journal) >= sent

    wait_for(caught_up, what="rows of the second recorder")
    assert recorder_pid(journal) != first
    with JournalReader(journal) as reader:
        seen = {(row.topic, json.loads(row.payload)["seq"]) for row in reader.read(0, max_rows=10_000)}
    expected = [entry for seed in (32, 33) for entry in Rehearsal(seed=seed, jobs=3, mix=CLEAN)]
    assert {(entry.topic, json.loads(entry.payload)["seq"]) for entry in expected} <= seen


def test_the_second_query_reads_what_the_first_records(
    mosquitto: MosquittoServer, stream: JournalStream, tmp_path: Path
) -> None:
    """One recorder a journal: the lock decides, and the other's end harms nobody."""
    journal = tmp_path / "journal"
    stream.initialOffset()
    pid = recorder_pid(journal)
    other = JournalStream(options_for(mosquitto, journal))
    start = other.initialOffset()
    assert recorder_pid(journal) == pid
    other.stop()
    sent = publish(mosquitto, Topics(), 34)
    wait_for(lambda: durable(journal) >= sent, what="rows of the first recorder")
    assert start["offset"] == 0


def test_the_recorder_ends_with_its_query(mosquitto: MosquittoServer, tmp_path: Path) -> None:
    """No recorder is left behind when the query stops."""
    reader = JournalStream(options_for(mosquitto, tmp_path / "journal"))
    reader.initialOffset()
    pid = recorder_pid(tmp_path / "journal")
    reader.stop()

    def gone() -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return False

    wait_for(gone, what="the recorder's end")


def test_no_broker_is_said_plainly(tmp_path: Path) -> None:
    """Without a broker a new journal is not waited for longer than the deadline, and the log says why."""
    home = new_home(tmp_path / "home")
    given = {"ingest": "embedded", "home": str(home), "broker": "127.0.0.1", "tls": "off"}
    options = read_options({**given, "journal": str(tmp_path / "journal"), "port": str(free_port())})
    clock = ManualClock()
    ingest = Ingest(options, clock=clock)
    with pytest.raises(UnreachableError) as caught:
        ingest.start()
    assert "broker's address" in caught.value.hint
    ingest.keep_alive()
    wait_for(lambda: "trying again" in ingest.log_file.read_text(), what="the log")
    ingest.close()
