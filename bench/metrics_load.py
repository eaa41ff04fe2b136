"""The processes around Spark in metrics_bench: a recorder, a worker that publishes, a consumer without Spark.

metrics_load.py record HOME | publish HOME | plain HOME DATABASE | follow HOME DATABASE
"""

import json
import resource
import signal
import sys
import threading
import time
from itertools import count
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt  # noqa: TID251 - the load must cost less than what it measures
from paho.mqtt.enums import CallbackAPIVersion  # noqa: TID251 - as above

from jobwire.core.clock import SystemClock, utc_timestamp
from jobwire.core.topics import Topics
from jobwire.jobs.admission import JobView
from jobwire.jobs.event import compose, encode_signed
from jobwire.journal.recorder import Recorder
from jobwire.journal.writer import JournalWriter
from jobwire.metrics.database import open_database
from jobwire.metrics.sink import MetricsSink
from jobwire.storage.signals import stop_event
from jobwire.testing.keyed_admission import Admission
from jobwire.testing.plain_consumer import PlainConsumer
from jobwire.transport import PahoTransport, load_settings

JOBS = 40
_TOKEN = "0123456789abcdef" * 3
_TOPICS = Topics()
_STEP_SECONDS = 0.002


class _Views(dict[str, JobView]):
    def view(self, job_id: str) -> JobView | None:
        return self.get(job_id)


# A journal without news is looked at so often.
_LOOK_SECONDS = 0.01


def record(home: Path, stop: threading.Event) -> None:
    """Record what the broker brings, signatures checked, until told to stop."""
    clock = SystemClock()
    settings = load_settings(home=home, role="registry", command_line={}, record={}, environ={})
    views = _Views({f"{job:08x}": JobView(token=_TOKEN) for job in range(JOBS)})
    with JournalWriter(home / "journal", clock=clock) as writer:
        transport = PahoTransport(settings, client_id="bench-recorder", clean_session=False, clock=clock)
        try:
            Recorder(
                transport=transport,
                writer=writer,
                admit=Admission(topics=_TOPICS, views=views),
                filters=[_TOPICS.events("+")],
                clock=clock,
                on_session=lambda _: print("ready", flush=True),
            ).run(stop.is_set)
        finally:
            transport.close()


def publish(home: Path) -> None:
    """Publish what each line of standard input asks for: RATE COUNT; answer with the times of sending."""
    settings = load_settings(home=home, role="claude-worker", command_line={}, record={}, environ={})
    client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
    password = Path(str(settings.password_file)).read_text(encoding="utf-8").strip()
    client.username_pw_set(settings.username, password)
    client.tls_set(ca_certs=str(settings.ca_certs))
    client.max_inflight_messages_set(2000)
    client.connect(settings.host, settings.port)
    client.loop_start()
    numbers = count()
    print("ready", flush=True)
    for line in sys.stdin:
        rate, total = (int(word) for word in line.split())
        messages = [_message(next(numbers)) for _ in range(total)]
        print(json.dumps(_send(client, messages, rate)), flush=True)
    client.disconnect()
    client.loop_stop()


def _message(number: int) -> tuple[str, bytes]:
    """Return the next event of all jobs in turn, signed beforehand."""
    seq, job_id = number // JOBS + 1, f"{number % JOBS:08x}"
    event = compose(
        seq=seq,
        job_id=job_id,
        event="started" if seq == 1 else "progress",
        timestamp=utc_timestamp(time.time()),
        detail=f"{seq} files of many, as a worker would say",
        data={"files": seq},
    )
    return _TOPICS.events(job_id), encode_signed(event, _TOKEN)


def _send(client: mqtt.Client, messages: list[tuple[str, bytes]], rate: int) -> list[float]:
    """Publish evenly, catching up where this process was held up; return when each was handed over."""
    begin, sent = time.time(), []
    for number, (topic, payload) in enumerate(messages):
        while time.time() < begin + number / rate:
            time.sleep(_STEP_SECONDS)
        sent.append(time.time())
        client.publish(topic, payload, qos=1)
    return sent


def plain(home: Path, database: str, stop: threading.Event, *, follow: bool) -> None:
    """Compute the tables in one loop, to the journal's end or until told to stop; tell what it took."""
    begin = time.perf_counter()
    with MetricsSink(open_database(database), clock=SystemClock()) as sink:
        sink.prepare()
        consumer = PlainConsumer(home / "journal", sink=sink)
        rows = consumer.catch_up()
        while follow and not stop.is_set():
            found = consumer.step()
            rows += found
            if not found:
                stop.wait(_LOOK_SECONDS)
        consumer.close()
    result: dict[str, Any] = {
        "rows": rows,
        "seconds": time.perf_counter() - begin,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    }
    print(json.dumps(result), flush=True)


def main() -> int:
    """Be the process that the first word names."""
    word, home = sys.argv[1], Path(sys.argv[2])
    with stop_event(signal.SIGTERM) as stop:
        if word == "record":
            record(home, stop)
        elif word == "publish":
            publish(home)
        else:
            plain(home, sys.argv[3], stop, follow=word == "follow")
    return 0


if __name__ == "__main__":
    sys.exit(main())
