"""50,000 bad messages a minute beside real jobs: they are counted, and change nothing else."""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from jobwire.jobs.admission import ACCEPTED, Reason
from jobwire.journal.reader import JournalReader
from jobwire.publisher import Publisher
from jobwire.registry.queue import JobQueue
from jobwire.registry.spec import JobSpec
from jobwire.registry.store import RecordStore
from jobwire.testing import require, wait_for
from tests.faults.storm.fleet import Fleet
from tests.faults.storm.registration import write_ticket
from tests.faults.storm.services import Broker, Registry

pytestmark = pytest.mark.alone

_FLOOD = Path(__file__).with_name("flood.py")
_PER_MINUTE = 50_000
_LONG = os.environ.get("JOBWIRE_FAULTS") == "long"
_SECONDS = 60.0 if _LONG else 8.0
# Beside other tests only that nothing stands still; `make faults` has the machine to itself.
_APPLIED_SECONDS = 1.0 if _LONG else 15.0
# Of the rate: the machine has other things to do as well.
_FLOODED = 0.8
# Per reason and minute the log may have some lines, the journal 1 MiB and then 64 KiB.
_LOG_LINES = 300
_JOURNAL_BYTES = 20 << 20


class House(NamedTuple):
    """A home with a broker and a registry process at work."""

    home: Path
    broker: Broker
    registry: Registry
    jobs: list[str]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """Start broker and registry process, with three jobs."""
    require("mosquitto")
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    fleet = Fleet(tmp_path)
    registry = Registry(home, fleet)
    with Broker(home, None) as broker:
        try:
            queue = JobQueue(RecordStore(home), warn=lambda _: None)
            jobs = [queue.register(JobSpec(title=f"job {n}")).record.job_id for n in range(3)]
            queue.close()
            registry.start()
            registry.wait_ready()
            yield House(home, broker, registry, jobs)
        finally:
            fleet.kill_all()


def _genuine(house: House) -> bytes:
    """Return the journal's first accepted event: what an eavesdropper could send again."""
    with JournalReader(house.home / "journal") as reader:
        # Before it stands what the registry decided.
        wait_for(lambda: _accepted(reader), what="the event in the journal")
        return _accepted(reader)[0]


def _accepted(reader: JournalReader) -> list[bytes]:
    return [entry.payload for entry in reader.read(0) if entry.verdict == ACCEPTED]


def _bytes_below(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _counted(house: House) -> Counter[str]:
    """Return how many messages of each verdict the registry process has judged."""
    return Counter(house.registry.facts()["verdicts"])


def test_a_flood_hurts_nobody(house: House, tmp_path: Path) -> None:
    """Real events are applied soon, bad ones counted by reason, log and disk stay small.

    The real worker has a ticket: so only the registry process can bring its events into the record.
    """
    store = RecordStore(house.home)
    ticket = tmp_path / "worker.ticket"
    write_ticket(ticket, store.get(house.jobs[0]), house.broker, None)
    with Publisher(ticket=ticket) as publisher:
        publisher.started()
        genuine = tmp_path / "genuine"
        genuine.write_bytes(_genuine(house))
        before = _bytes_below(house.home)
        command = [sys.executable, str(_FLOOD), "--home", str(house.home), "--genuine", str(genuine)]
        command += ["--seconds", str(_SECONDS), "--rate", str(_PER_MINUTE)]
        for job in house.jobs:
            command += ["--job", job]
        flood = subprocess.Popen(command, stdout=subprocess.PIPE)
        delays: list[float] = []
        while flood.poll() is None:
            begun = time.monotonic()
            published = publisher.say("progress", "at work", {"step": len(delays)})
            wait_for(
                lambda seq=published.seq: store.get(house.jobs[0]).last_seq >= seq,  # type: ignore[misc]  # bound now
                what="the event in the record",
            )
            delays.append(time.monotonic() - begun)
        assert flood.stdout is not None
        sent = Counter(json.loads(flood.stdout.read()))
        flood.stdout.close()
        assert publisher.completed().confirmed
    flooded = sent.total() / (_PER_MINUTE / 60 * _SECONDS)
    expected = sent.total() + len(delays) + 2
    wait_for(lambda: _counted(house).total() >= expected, deadline_seconds=60, what="the last verdict")
    counted = _counted(house)
    real = counted.pop(ACCEPTED)
    assert real == len(delays) + 2
    # An old event that comes again is called replayed; the worker itself may have sent one once more.
    again = counted.pop(Reason.DUPLICATE) + counted.pop(Reason.REPLAYED, 0)
    assert again >= sent.pop(Reason.DUPLICATE)
    assert counted == sent
    assert len(house.registry.log.read_text().splitlines()) < _LOG_LINES
    assert _bytes_below(house.home) - before < _JOURNAL_BYTES
    assert [store.get(job).last_seq for job in house.jobs] == [len(delays) + 2, 0, 0]
    if flooded <= _FLOODED:
        # All but the times has been seen to hold.
        pytest.skip(f"this machine is too busy to send a flood: {flooded:.0%} of its rate")
    # All but one in twenty: a single pause of a busy machine says nothing about the flood.
    slow = sorted(delays)[len(delays) * 19 // 20]
    assert slow < _APPLIED_SECONDS, f"one in twenty of {len(delays)} took over {slow:.2f} s"
