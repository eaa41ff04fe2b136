"""The recorder as a process on real brokers: killed in mid-stream, and the broker restarted under it."""

import json
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from pathlib import Path

from jobwire.core.clock import SystemClock
from jobwire.core.errors import TransportError
from jobwire.core.settings import BrokerSettings
from jobwire.core.topics import Topics
from jobwire.jobs.event import compose, encode_signed
from jobwire.journal.admission import unverified
from jobwire.journal.entry import Stored
from jobwire.journal.errors import JournalNotFound
from jobwire.journal.reader import JournalReader
from jobwire.journal.recorder import Recorder
from jobwire.journal.writer import JournalWriter
from jobwire.testing import wait_for
from jobwire.testing.process import BrokerProcess
from jobwire.transport import PahoTransport

_JOBS = [f"{number:08x}" for number in range(1, 6)]
_TOKEN = "k" * 43
_EVENTS = 60

# argv: journal, home of the broker, client id, topic root
_RECORDER = """
import sys
from pathlib import Path
from jobwire.jobs.admission import JobView
from jobwire.core.clock import SystemClock
from jobwire.core.topics import Topics
from jobwire.journal.reader import JournalReader
from jobwire.journal.writer import JournalWriter
from jobwire.testing.keyed_admission import Admission
from jobwire.journal.recorder import Recorder
from jobwire.transport import PahoTransport, load_settings

class Views(dict):
    def view(self, job_id):
        return self.get(job_id) or self.setdefault(job_id, JobView(token="k" * 43))

directory, home, client_id, root = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4]
clock, topics = SystemClock(), Topics(root)
settings = load_settings(home=home, role="registry", command_line={}, record={}, environ={})
admission = Admission(topics=topics, views=Views())
with JournalWriter(directory, clock=clock, segment_bytes=30_000) as writer:
    with JournalReader(directory) as reader:
        offset = 0
        while rows := reader.read(offset):
            for row in rows:
                admission.replay(row)
            offset = rows[-1].offset + 1
    transport = PahoTransport(settings, client_id=client_id, clean_session=False)
    Recorder(
        transport=transport, writer=writer, admit=admission, filters=[topics.events("+")], clock=clock,
        on_session=lambda item: print(type(item).__name__, flush=True),
    ).run(lambda: False)
"""


class Life:
    """One life of the recorder process."""

    def __init__(self, directory: Path, broker: BrokerProcess, client_id: str) -> None:
        self.process = subprocess.Popen(
            [
                sys.executable, "-c", _RECORDER,
                str(directory), str(broker.home), client_id, broker.topic_root,
            ],
            stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        self.out = self.process.stdout
        assert self.out.readline() == "SessionStarted\n", "from now on the broker keeps what is published"

    def kill(self) -> None:
        """End it with SIGKILL."""
        self.process.kill()
        self.process.wait()
        self.out.close()


def _say(transport: PahoTransport, topics: Topics, job: str, seq: int) -> None:
    kind = "started" if seq == 1 else "completed" if seq == _EVENTS else "progress"
    event = compose(
        seq=seq, job_id=job, event=kind, timestamp="2026-01-01T00:00:00Z", detail=f"{seq}", data={}
    )
    payload = encode_signed(event, _TOKEN)
    while True:
        try:
            transport.publish(topics.events(job), payload, retain=False, deadline_seconds=20.0)
        except TransportError:
            continue
        else:
            return


def _publish_all(settings: BrokerSettings, topics: Topics) -> None:
    transport = PahoTransport(settings, client_id=uuid.uuid4().hex, clean_session=True)
    transport.connect(20.0)
    for seq in range(1, _EVENTS + 1):
        for job in _JOBS:
            _say(transport, topics, job, seq)
    transport.close()


def _rows(directory: Path) -> list[Stored]:
    try:
        with JournalReader(directory) as reader:
            return reader.read(0, max_rows=100_000, max_bytes=1 << 30)
    except JournalNotFound:
        return []


def _wait_for_rows(directory: Path, count: int) -> None:
    wait_for(lambda: len(_rows(directory)) >= count, what=f"{count} rows")


def _accepted(directory: Path) -> list[tuple[str, int]]:
    events = [json.loads(row.payload) for row in _rows(directory) if row.verdict == "accepted"]
    return [(event["job_id"], event["seq"]) for event in events]


def test_killed_five_times_in_mid_stream(broker: BrokerProcess, tmp_path: Path) -> None:
    """Every acknowledged event is in the journal, accepted exactly once, in the order of its job."""
    directory, client_id = tmp_path / "journal", uuid.uuid4().hex
    topics = Topics(broker.topic_root)
    life = Life(directory, broker, client_id)
    publisher = threading.Thread(target=_publish_all, args=(broker.settings("registry"), topics))
    publisher.start()
    try:
        for step in range(1, 6):
            _wait_for_rows(directory, step * 50)
            life.kill()
            life = Life(directory, broker, client_id)
        publisher.join(60)
        wait_for(lambda: len(_accepted(directory)) >= len(_JOBS) * _EVENTS)
    finally:
        life.kill()
        publisher.join(60)
    _check(directory)


def _check(directory: Path) -> None:
    accepted = _accepted(directory)
    assert set(Counter(accepted).values()) == {1}
    for job in _JOBS:
        assert [seq for name, seq in accepted if name == job] == list(range(1, _EVENTS + 1))
    # Other jobs are none of this test's: a broker keeps the retained events of all it has served.
    ours = {row.verdict for row in _rows(directory) if row.topic.split("/")[-2] in _JOBS}
    assert ours <= {"accepted", "duplicate"}


def test_a_broker_restart_under_the_recorder(fresh_mosquitto: BrokerProcess, tmp_path: Path) -> None:
    """A stopped and restarted broker costs a reconnect, no event."""
    directory, client_id = tmp_path / "journal", uuid.uuid4().hex
    topics = Topics(fresh_mosquitto.topic_root)
    life = Life(directory, fresh_mosquitto, client_id)
    publisher = threading.Thread(target=_publish_all, args=(fresh_mosquitto.settings("registry"), topics))
    publisher.start()
    try:
        _wait_for_rows(directory, 60)
        fresh_mosquitto.restart()
        publisher.join(90)
        wait_for(lambda: len(_accepted(directory)) >= len(_JOBS) * _EVENTS)
    finally:
        life.kill()
        publisher.join(90)
    _check(directory)


def test_stopping_drains_and_leaves_the_rest_at_the_broker(broker: BrokerProcess, tmp_path: Path) -> None:
    """`run` returns soon after it is told to; what came meanwhile comes again at the next start."""
    client_id, topics = uuid.uuid4().hex, Topics(f"{broker.topic_root}")
    job = uuid.uuid4().hex[:8]
    settings = broker.settings("registry")
    connected = threading.Event()

    def life(stop_after: int) -> None:
        transport = PahoTransport(settings, client_id=client_id, clean_session=False)
        with JournalWriter(tmp_path / "journal", clock=SystemClock()) as writer:
            recorder = Recorder(
                transport=transport,
                writer=writer,
                admit=unverified,
                filters=[topics.events(job)],
                clock=SystemClock(),
                on_session=lambda _: connected.set(),
            )
            give_up = time.monotonic() + 30
            recorder.run(lambda: writer.next_offset >= stop_after or time.monotonic() > give_up)
        transport.close()

    worker = PahoTransport(settings, client_id=uuid.uuid4().hex, clean_session=True)
    worker.connect(10.0)
    first = threading.Thread(target=life, args=(1,))
    first.start()
    assert connected.wait(60), "from now on the broker keeps what is published"
    sent = 0
    while first.is_alive():
        worker.publish(topics.events(job), b"%d" % sent, retain=False, deadline_seconds=10.0)
        sent += 1
    before = sent
    for _ in range(20):
        worker.publish(topics.events(job), b"%d" % sent, retain=False, deadline_seconds=10.0)
        sent += 1
    worker.close()
    life(sent)
    payloads = [int(row.payload) for row in _rows(tmp_path / "journal")]
    assert before > 0
    assert list(dict.fromkeys(payloads)) == list(range(sent)), "in order; a redelivery may come again"
