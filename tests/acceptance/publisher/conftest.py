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

from jobwire.core.clock import utc_timestamp
from jobwire.core.signature import new_token
from jobwire.jobs.record import JobRecord
from jobwire.registry.store import RecordStore
from jobwire.testing import BrokerProcess
from jobwire.testing.event_reader import EventReader
from jobwire.testing.unsent import unsent

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
        """Return the seqs that are still to be sent."""
        return [event.seq for event in unsent(self.store.home, self.job_id)]


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
def read() -> Iterator[Callable[..., EventReader]]:
    """Give readers that are closed afterwards."""
    readers: list[EventReader] = []

    def make(server: BrokerProcess, command: Command, *, late: bool = False) -> EventReader:
        readers.append(EventReader(server, command.record(), late=late))
        return readers[-1]

    yield make
    for reader in readers:
        reader.close()
