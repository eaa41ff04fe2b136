"""How long an event takes from `publish` to its record on the disk, through Mosquitto and `registry serve`.

The publisher acts as a worker on another host: only the registry process writes records. Each probe
publishes one event (QoS 1, TLS) and watches the record's file; alone, and beside others that speak.
"""

import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from scale_bench import ROLE, Senders  # type: ignore[import-not-found]  # Python finds it beside this script

from jobwire.core.clock import utc_timestamp
from jobwire.core.topics import Topics
from jobwire.jobs.event import compose, encode_signed
from jobwire.jobs.record import JobRecord
from jobwire.registry.queue import JobQueue
from jobwire.registry.spec import JobSpec
from jobwire.registry.store import RecordStore
from jobwire.testing import MosquittoServer
from jobwire.transport import PahoTransport

PROBES = 200
OTHERS = 100
# Between two probes, so that each meets another moment of the others.
_PAUSE_SECONDS = 0.02
_LOOK_SECONDS = 0.0005
_DEADLINE_SECONDS = 60.0


def latencies() -> list[dict[str, float]]:
    """Return a row with nobody else speaking, and one beside OTHERS jobs that speak once a second each."""
    with MosquittoServer() as server, serving(server.home):
        store = RecordStore(server.home)
        queue = JobQueue(store, warn=lambda _: None)
        probed = queue.register(JobSpec(agent_session="elsewhere")).record
        jobs = [queue.register(JobSpec(agent_session="elsewhere")).record for _ in range(OTHERS)]
        queue.close()
        alone = probe(server, store, probed, range(1, PROBES + 1))
        senders = Senders(server, {job.job_id: job.auth_token for job in jobs})
        enough = threading.Event()
        thread = threading.Thread(target=senders.run, args=[3600.0, enough.is_set])
        thread.start()
        try:
            beside = probe(server, store, probed, range(PROBES + 1, 2 * PROBES + 1))
        finally:
            enough.set()
            thread.join()
    return [{"others_events_a_second": 0, **alone}, {"others_events_a_second": OTHERS, **beside}]


@contextmanager
def serving(home: Path) -> Iterator[None]:
    """Run `registry serve` for the block."""
    command = [
        str(Path(sys.executable).with_name("jobwire")),
        "--home",
        str(home),
        "registry",
        "serve",
        "--json",
    ]
    with (home / "serve.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        try:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["ready"]
            yield
        finally:
            process.terminate()
            process.wait(60)


def probe(
    server: MosquittoServer, store: RecordStore, job: JobRecord, seqs: Sequence[int]
) -> dict[str, float]:
    """Publish the events one after the other; return percentiles in milliseconds."""
    settings = server.settings(ROLE)
    transport = PahoTransport(settings, client_id="probe", clean_session=True)
    topic = Topics(settings.topic_root).events(job.job_id)
    acknowledged, recorded = [], []
    transport.connect(10.0)
    try:
        for seq in seqs:
            payload = said(job, seq)
            begun = time.perf_counter()
            transport.publish(topic, payload, retain=False, deadline_seconds=10.0)
            acknowledged.append((time.perf_counter() - begun) * 1000)
            await_record(store, job.job_id, seq)
            recorded.append((time.perf_counter() - begun) * 1000)
            time.sleep(_PAUSE_SECONDS)
    finally:
        transport.close()
    return {
        "acknowledged_p50_ms": percentile(acknowledged, 50),
        "acknowledged_p99_ms": percentile(acknowledged, 99),
        "on_disk_p50_ms": percentile(recorded, 50),
        "on_disk_p99_ms": percentile(recorded, 99),
        "probes": len(recorded),
    }


def said(job: JobRecord, seq: int) -> bytes:
    """Return a signed event of the job."""
    event = compose(
        seq=seq,
        job_id=job.job_id,
        event="started" if seq == 1 else "progress",
        timestamp=utc_timestamp(time.time()),
        detail=f"step {seq}",
        data={"percent": seq % 100},
    )
    return encode_signed(event, job.auth_token)


def await_record(store: RecordStore, job_id: str, seq: int) -> None:
    """Return when the record has the event: the file is in its place only after it was flushed."""
    give_up = time.monotonic() + _DEADLINE_SECONDS
    seen = -1
    while time.monotonic() < give_up:
        # A look at the inode is cheap; the processor belongs to who is measured.
        inode = os.stat(store.record_path(job_id)).st_ino  # noqa: PTH116
        if inode != seen and store.get(job_id).last_seq >= seq:
            return
        seen = inode
        time.sleep(_LOOK_SECONDS)
    raise TimeoutError(f"event {seq} did not reach its record")


def percentile(values: list[float], percent: int) -> float:
    """Return a percentile, to a hundredth."""
    return round(statistics.quantiles(values, n=100, method="inclusive")[percent - 1], 2)
