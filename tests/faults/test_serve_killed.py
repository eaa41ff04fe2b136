"""The registry process, killed with SIGKILL again and again in the middle of its work.

The kills fall at seeded offsets of the journal, so a run can be repeated; what happens between two
system calls is covered, call by call, in tests/unit/registry/test_folding.py.
"""

import collections
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jobwire.core.errors import TransportError
from jobwire.core.ports import Transport
from jobwire.core.topics import Topics
from jobwire.jobs.event import compose, encode_signed
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import JobRecord
from jobwire.journal.errors import JournalNotFound
from jobwire.journal.reader import JournalReader
from jobwire.registry.queue import JobQueue
from jobwire.registry.spec import JobSpec
from jobwire.registry.store import RecordStore
from jobwire.testing import MosquittoServer, wait_for
from jobwire.transport import PahoTransport

JOBS, EVENTS, KILLS = 12, 25, 6
TOPICS = Topics()


@contextmanager
def _serve(home: Path) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(
        [Path(sys.executable).with_name("jobwire"), "--home", str(home), "registry", "serve"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _speak(store: RecordStore, jobs: list[JobRecord], transport: Transport, seed: int) -> None:
    """Say everything for all jobs: half of them on this disk, half as from elsewhere."""
    order = random.Random(seed)  # noqa: S311 - a schedule that can be repeated
    left = {job.job_id: list(range(1, EVENTS + 1)) for job in jobs}
    while left:
        job = order.choice([one for one in jobs if one.job_id in left])
        seq = left[job.job_id].pop(0)
        kind = "started" if seq == 1 else "completed" if seq == EVENTS else "progress"
        event = compose(
            seq=seq, job_id=job.job_id, event=kind, timestamp=job.created_at, detail=f"{seq}", data={}
        )
        payload = encode_signed(event, job.auth_token)
        if int(job.job_id, 16) % 2:
            store.apply(job.job_id, event, payload, source="publisher")
        topic = TOPICS.events(job.job_id)
        while True:
            try:
                transport.publish(topic, payload, retain=event.terminal, deadline_seconds=10)
            except TransportError:
                continue
            break
        if not left[job.job_id]:
            del left[job.job_id]


def _durable(home: Path) -> int:
    try:
        with JournalReader(home / "journal") as reader:
            return reader.durable_offset
    except JournalNotFound:
        return 0


def _await_offset(home: Path, offset: int) -> None:
    wait_for(lambda: _durable(home) >= offset, deadline_seconds=60, what=f"offset {offset}")


def _await_confirmed(store: RecordStore, job: JobRecord) -> None:
    wait_for(
        lambda: store.get(job.job_id).confirmed_seq == EVENTS,
        deadline_seconds=60,
        what=f"the confirmation of job {job.job_id}",
    )


@pytest.mark.mosquitto
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_nothing_lost_nothing_doubled(fresh_mosquitto: MosquittoServer, seed: int) -> None:
    """However often it is killed: every event is in the journal once, applied once, and confirmed."""
    home = fresh_mosquitto.home
    store = RecordStore(home)
    queue = JobQueue(store, warn=pytest.fail)
    jobs = [queue.register(JobSpec(title=f"{number}")).record for number in range(JOBS)]
    with _serve(home):  # subscribe once: from then on the broker keeps what we miss
        wait_for((home / "serve.json").exists, what="the first start")
        wait_for(lambda: json.loads((home / "serve.json").read_text()).get("connected"))
    transport = PahoTransport(
        fresh_mosquitto.settings("claude-worker"), client_id="speaker", clean_session=True
    )
    transport.connect(10)
    speaker = threading.Thread(target=_speak, args=(store, jobs, transport, seed))
    speaker.start()
    chance = random.Random(seed)  # noqa: S311 - as above
    points = sorted(chance.sample(range(1, JOBS * EVENTS - 10), KILLS))
    for point in points:
        with _serve(home) as process:
            _await_offset(home, point)
            os.kill(process.pid, signal.SIGKILL)
    speaker.join()
    transport.close()
    with _serve(home):
        for job in jobs:
            _await_confirmed(store, job)
    _check(home, store, jobs)


def _check(home: Path, store: RecordStore, jobs: list[JobRecord]) -> None:
    accepted: collections.Counter[tuple[str, int]] = collections.Counter()
    with JournalReader(home / "journal") as reader:
        offset = 0
        while rows := reader.read(offset):
            offset = rows[-1].offset + 1
            for row in rows:
                if row.verdict in {"accepted", "late"}:
                    body = json.loads(row.payload)
                    accepted[body["job_id"], body["seq"]] += 1
    expected = {(job.job_id, seq) for job in jobs for seq in range(1, EVENTS + 1)}
    assert set(accepted) == expected
    assert set(accepted.values()) == {1}
    for job in jobs:
        record = store.get(job.job_id)
        assert (record.status, record.last_seq) == (Status.COMPLETED, EVENTS)
        history = [line["seq"] for line in store.audit(job.job_id).lines() if line["kind"] == "event"]
        assert sorted(history) == list(range(1, EVENTS + 1))
