"""The registry process, killed while a worker hands an event over; and two of them started at once."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jobwire.core.exit_codes import ExitCode
from jobwire.delivery import handover
from jobwire.journal.reader import JournalReader
from jobwire.publisher import Publisher
from jobwire.registry.queue import JobQueue
from jobwire.registry.spec import JobSpec
from jobwire.registry.store import RecordStore
from jobwire.testing import MosquittoServer, wait_for

pytestmark = pytest.mark.mosquitto
_SECONDS = 60.0
# `jobwire serve`, which kills itself at one point of the hand-over; "never" is there for the others.
_SERVE = """
import os, signal, sys
from jobwire.cli.main import main
from jobwire.delivery import handover_server
from jobwire.registry import relay

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def send_and_die(sent, *_, **__):
    list(sent)
    die()

handover_server._PATIENCE_SECONDS = 60.0
home, point = sys.argv[1:]
if point == "before it is sent":
    relay.Relay.send = die
elif point == "before the sending is noted":
    relay.note_sent = send_and_die
elif point == "before the worker is answered":
    handover_server.HandOverServer.confirmed = die
sys.exit(main(["--home", home, "serve"]))
"""


@contextmanager
def _serve(home: Path, point: str = "never") -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVE, str(home), point], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _await_connected(home: Path, *processes: "subprocess.Popen[bytes]") -> None:
    def connected() -> bool:
        facts = json.loads((home / "serve.json").read_text()) if (home / "serve.json").exists() else {}
        return facts.get("pid") in {one.pid for one in processes} and bool(facts["connected"])

    wait_for(connected, deadline_seconds=_SECONDS, what="the registry process")


def _job(home: Path) -> str:
    queue = JobQueue(RecordStore(home), warn=pytest.fail)
    job_id = queue.register(JobSpec()).record.job_id
    queue.close()
    return job_id


def _accepted(home: Path) -> Counter[int]:
    with JournalReader(home / "journal") as reader:
        rows = reader.read(0)
    return Counter(json.loads(row.payload)["seq"] for row in rows if row.verdict == "accepted")


@pytest.mark.parametrize(
    "point", ["before it is sent", "before the sending is noted", "before the worker is answered"]
)
def test_the_event_arrives_once(fresh_mosquitto: MosquittoServer, point: str) -> None:
    """Wherever it is killed, its worker goes on by itself, and the next process has each event once."""
    home = fresh_mosquitto.home
    job_id = _job(home)
    with Publisher(job_id, home=home, environ={}) as worker:
        with _serve(home, point) as killed:
            _await_connected(home, killed)
            assert worker.started().delivered
            assert killed.wait(_SECONDS) == -9
        with _serve(home) as process:
            assert worker.progress("on").delivered
            wait_for(
                lambda: RecordStore(home).get(job_id).confirmed_seq == 2,
                deadline_seconds=_SECONDS,
                what="the confirmation",
            )
            assert process.poll() is None
    assert _accepted(home) == {1: 1, 2: 1}
    lines = [line["seq"] for line in RecordStore(home).audit(job_id).lines() if line["kind"] == "event"]
    assert lines == [1, 2]


def test_of_two_that_start_at_once_one_serves(
    fresh_mosquitto: MosquittoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one ends with 20 and leaves the first one's socket alone: workers go on handing over."""
    for name in ("TAKEN_SECONDS", "ANSWER_SECONDS"):
        monkeypatch.setattr(handover, name, _SECONDS)
    home = fresh_mosquitto.home
    job_id = _job(home)
    with _serve(home) as one, _serve(home) as other:
        wait_for(
            lambda: {one.poll(), other.poll()} == {None, int(ExitCode.CONFLICT)},
            deadline_seconds=_SECONDS,
            what="the end of one of two",
        )
        _await_connected(home, one, other)
        with Publisher(job_id, home=home, environ={}) as worker:
            assert worker.started().confirmed
