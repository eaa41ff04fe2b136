"""`publish_event` as a worker runs it, jobs on a real broker's home, and somebody who reads what arrives."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import pytest

from jobwire.core.admission import Accepted, JobView, Rejected, admit
from jobwire.core.clock import utc_timestamp
from jobwire.core.ports import Message, SessionStarted
from jobwire.core.record import JobRecord
from jobwire.core.signature import new_token
from jobwire.core.topics import Topics
from jobwire.registry.store import RecordStore
from jobwire.testing import BrokerProcess, wait_for
from jobwire.transport import PahoTransport

PROGRAM = str(Path(sys.executable).with_name("publish_event"))


class Answer:
    """What one run of the command gave: its exit code, its JSON lines, its words on stderr."""

    def __init__(self, code: int, stdout: str, stderr: str) -> None:
        self.code = code
        self.stdout = stdout
        self.stderr = stderr

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Return the JSON lines."""
        return [json.loads(line) for line in self.stdout.splitlines()]

    @property
    def line(self) -> dict[str, Any]:
        """Return the one line."""
        assert len(self.lines) == 1, (self.stdout, self.stderr)
        return self.lines[0]


class Command:
    """Starts `publish_event` for one job, without settings of this machine's environment."""

    def __init__(self, home: Path, job_id: str) -> None:
        self.home = home
        self.job_id = job_id
        self.store = RecordStore(home)

    def start(self, *words: str, **environ: str) -> "subprocess.Popen[str]":
        """Start it for the job."""
        return self.launch((*self._job(), *words), environ)

    def start_bare(self, *words: str, **environ: str) -> "subprocess.Popen[str]":
        """Start it with these words only."""
        return self.launch(words, environ)

    def read_from(self, stdin: IO[bytes], *words: str) -> "subprocess.Popen[str]":
        """Start it for the job, reading from `stdin`."""
        return self.launch((*self._job(), *words), {}, stdin)

    def launch(
        self, words: Sequence[str], environ: Mapping[str, str], stdin: IO[bytes] | int = subprocess.PIPE
    ) -> "subprocess.Popen[str]":
        """Start it."""
        clean = {name: v for name, v in os.environ.items() if not name.startswith(("MQTT_", "JOBWIRE_"))}
        return subprocess.Popen(
            [PROGRAM, *words],
            env={**clean, **environ},
            text=True,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def _job(self) -> tuple[str, ...]:
        return "--home", str(self.home), "--job", self.job_id

    def say(self, event: str, *words: str, text: str = "", **environ: str) -> Answer:
        """Publish one event and wait for the end."""
        return self.end(self.start("--event", event, *words, **environ), text)

    def run(self, *words: str, **environ: str) -> Answer:
        """Run it for the job with any words."""
        return self.end(self.start(*words, **environ))

    def end(self, process: "subprocess.Popen[str]", text: str = "") -> Answer:
        """Return the answer of a started command."""
        stdout, stderr = process.communicate(text if process.stdin else None, timeout=90)
        return Answer(process.returncode, stdout, stderr)

    @staticmethod
    def end_with(code: int, stdout: str) -> Answer:
        """Return the answer of a command that was killed after it had spoken."""
        return Answer(code, stdout, "")

    def record(self) -> JobRecord:
        """Return the record."""
        return self.store.get(self.job_id)

    def history(self) -> list[int]:
        """Return the seqs of the accepted events in the audit log."""
        return [line["seq"] for line in self.store.audit(self.job_id).lines() if line["kind"] == "event"]

    def waiting(self) -> list[int]:
        """Return the seqs in the outbox."""
        path = Path(self.store.outbox_path(self.job_id))
        lines = path.read_bytes().splitlines() if path.exists() else []
        return [json.loads(line)["seq"] for line in lines]


class Reader:
    """Reads one job's events as the role `hermes`, and judges them like every consumer."""

    def __init__(self, server: BrokerProcess, record: JobRecord, *, late: bool = False) -> None:
        settings = server.settings("hermes")
        self._topics = Topics(settings.topic_root)
        self._view = JobView(token=record.auth_token, joined_late=late)
        self.topic = self._topics.events(record.job_id)
        self.messages: list[Message] = []
        self.rejected: list[Rejected] = []
        self.accepted: list[Accepted] = []
        self.sessions = 0
        self._transport = PahoTransport(
            settings, client_id=f"read-{record.job_id}-{late}", clean_session=False
        )
        self._transport.subscribe([self.topic])
        self._transport.connect(10)

    def seqs(self) -> list[int]:
        """Return the seqs of the accepted events so far, in order of arrival."""
        for item in self._transport.receive_many(100, 0.05):
            if isinstance(item, Message):
                self._take(item)
            elif isinstance(item, SessionStarted):
                self.sessions += 1
        return [item.event.seq for item in self.accepted]

    def _take(self, message: Message) -> None:
        self.messages.append(message)
        self._transport.acknowledge(message)
        verdict = admit(self._topics, message.topic, message.payload, retained=message.retain, job=self._view)
        if isinstance(verdict, Accepted):
            self._view.accept(verdict)
            self.accepted.append(verdict)
        else:
            self.rejected.append(verdict)

    def wait_for_seq(self, seq: int) -> list[int]:
        """Return the accepted seqs once `seq` is among them."""
        wait_for(lambda: seq in self.seqs(), deadline_seconds=40, what=f"event {seq}")
        return self.seqs()

    def wait_for_sessions(self, count: int) -> None:
        """Return once the connection was established `count` times."""
        wait_for(lambda: [self.seqs(), self.sessions >= count][1], deadline_seconds=40, what="a reconnect")

    def close(self) -> None:
        """Disconnect."""
        self._transport.close()


def new_command(home: Path) -> Command:
    """Register one pending job under a fresh id and return its command."""
    now = utc_timestamp(time.time())
    record = JobRecord(os.urandom(4).hex(), new_token(), now, now)
    RecordStore(home).create(record)
    return Command(home, record.job_id)


@pytest.fixture
def make_command() -> Callable[[Path], Command]:
    """Give `new_command`."""
    return new_command


@pytest.fixture
def read() -> Iterator[Callable[..., Reader]]:
    """Give readers that are closed afterwards."""
    readers: list[Reader] = []

    def make(server: BrokerProcess, command: Command, *, late: bool = False) -> Reader:
        readers.append(Reader(server, command.record(), late=late))
        return readers[-1]

    yield make
    for reader in readers:
        reader.close()
