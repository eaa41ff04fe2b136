"""Verified events a second through `job_subscriber`'s code against a bare paho subscriber.

Same Mosquitto, TLS 1.3, MQTT 5, QoS 1, the same signed events sent by another process as fast as the
broker takes them; the two take turns in one run. The bare one counts messages and nothing else. Ours
verifies, orders and counts each event, keeps the timers and the record in view, and formats every
event as a JSON line (written to the null device). A round is short: what waits for a subscriber stands in a
list that Mosquitto walks for each acknowledgement, and with 20,000 events in it that is all one measures.

    python bench/subscribe_bench.py [EVENTS [ROUNDS]]
"""

import json
import os
import platform
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import paho.mqtt.client as mqtt  # noqa: TID251 - this is what the subscriber is measured against
from paho.mqtt.enums import CallbackAPIVersion  # noqa: TID251 - as above

from jobwire.core.clock import utc_timestamp
from jobwire.core.signature import new_token
from jobwire.jobs.event import compose, encode_signed
from jobwire.jobs.record import JobRecord
from jobwire.registry.store import RecordStore
from jobwire.subscriber.outcome import EventLine, Outcome
from jobwire.subscriber.printer import LinePrinter
from jobwire.subscriber.subscriber import open_watch
from jobwire.testing import MosquittoServer, wait_for
from jobwire.testing.raw_mqtt import CONNECT, PUBLISH, packet, text

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "subscribe.json"
EVENTS = 4_000
ROUNDS = 15
OURS, PAHO = "job_subscriber", "bare paho"
TARGET_RATIO = 0.92
_DEADLINE_SECONDS = 120.0
_PACKET_IDS = 65_535


class Load(NamedTuple):
    """The events of one round, ready to be sent."""

    job_id: str
    packets: Path
    events: int


Receiver = Callable[[MosquittoServer, Load, Callable[[], None]], None]


class Sample(NamedTuple):
    """One round: messages a second, and processor microseconds a message in this process."""

    rate: float
    cpu: float


def prepare(server: MosquittoServer, number: int, count: int) -> Load:
    """Register a job and write its signed events down as MQTT packets."""
    job_id, token = f"{number:08x}", new_token()
    now = utc_timestamp(time.time())
    RecordStore(server.home).create(JobRecord(job_id, token, now, now))
    settings = server.settings("claude-worker")
    topic = text(f"{settings.topic_root}/{job_id}/events")
    password = settings.password.reveal() if settings.password else ""
    # MQTT 3.1.1, 3.1: name, level 4, user name + password + clean session, keep-alive.
    head = text("MQTT") + bytes([4, 0xC2, 0, 60])
    connect = packet(
        CONNECT, 0, head + text(f"blast{number}") + text(settings.username or "") + text(password)
    )
    parts = [connect]
    for seq in range(1, count + 1):
        kind = "started" if seq == 1 else "completed" if seq == count else "progress"
        event = compose(
            seq=seq,
            job_id=job_id,
            event=kind,
            timestamp=now,
            detail=f"{seq} of {count} files hashed",
            data={"percent": 100 * seq // count, "files": seq},
        )
        packet_id = (seq % _PACKET_IDS or _PACKET_IDS).to_bytes(2, "big")
        parts.append(packet(PUBLISH, 0x02, topic + packet_id + encode_signed(event, token)))
    path = server.home / f"{job_id}.packets"
    path.write_bytes(b"".join(parts))
    return Load(job_id, path, count)


class Blaster:
    """The sending process, connected and waiting."""

    def __init__(self, server: MosquittoServer, load: Load) -> None:
        command = [sys.executable, str(HERE / "blast.py"), server.host, str(server.port),
                   str(server.ca_certs), str(load.packets), str(load.events)]  # fmt: skip
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def go(self) -> None:
        """Let it send."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()

    def finish(self) -> None:
        """Wait for its end."""
        self._process.communicate(timeout=_DEADLINE_SECONDS)
        if self._process.returncode != 0:
            raise SystemExit(f"the sender ended with {self._process.returncode}")


def timed(receive: Receiver, server: MosquittoServer, load: Load) -> Sample:
    """Let `receive` run to its end, and sum up; it calls back when it is subscribed."""
    blaster = Blaster(server, load)
    start, cpu = 0.0, 0.0

    def subscribed() -> None:
        nonlocal start, cpu
        start, cpu = time.perf_counter(), time.process_time()
        blaster.go()

    receive(server, load, subscribed)
    seconds = time.perf_counter() - start
    spent = time.process_time() - cpu
    blaster.finish()
    load.packets.unlink()
    return Sample(load.events / seconds, spent / load.events * 1e6)


def bare_paho(server: MosquittoServer, load: Load, subscribed: Callable[[], None]) -> None:
    """Count messages as a plain script does."""
    settings = server.settings("hermes")
    done = threading.Event()
    ready = threading.Event()
    count = 0

    def on_message(_client: object, _data: object, _message: mqtt.MQTTMessage) -> None:
        nonlocal count
        count += 1
        if count == load.events:
            done.set()

    client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
    client.username_pw_set(settings.username, settings.password.reveal() if settings.password else None)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(settings.ca_certs)
    client.tls_set_context(context)
    client.on_subscribe = lambda *_: ready.set()
    client.on_message = on_message
    client.connect(settings.host, settings.port)
    client.loop_start()
    wait_for(client.is_connected, what="CONNACK")
    client.subscribe(f"{settings.topic_root}/{load.job_id}/events", qos=1)
    if not ready.wait(_DEADLINE_SECONDS):
        raise SystemExit("no SUBACK")
    subscribed()
    if not done.wait(_DEADLINE_SECONDS):
        raise SystemExit(f"only {count} of {load.events} messages came")
    client.disconnect()
    client.loop_stop()


def job_subscriber(server: MosquittoServer, load: Load, subscribed: Callable[[], None]) -> None:
    """Watch the job as the command does."""
    settings, home = server.settings("hermes"), server.home
    session = open_watch(settings=settings, jobs=[load.job_id], home=home, timeouts={"wall_seconds": 120.0})
    events = 0
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        printer = LinePrinter(nowhere, as_json=True, log=sys.stderr)
        waiting = True
        for batch in session.batches():
            printer.batch(batch)
            events += sum(isinstance(line, EventLine) for line in batch)
            if waiting and session.connected:
                waiting = False
                subscribed()
            if session.verdicts().by_job:
                break  # how the session is left is not measured
    verdict = session.verdicts().by_job[load.job_id]
    if verdict.outcome is not Outcome.COMPLETED or events != load.events:
        raise SystemExit(f"{events} of {load.events} events, {verdict}")


def measure(server: MosquittoServer, count: int, rounds: int) -> dict[str, list[Sample]]:
    """Run the two in turns."""
    samples: dict[str, list[Sample]] = {PAHO: [], OURS: []}
    number = 1
    for _ in range(rounds):
        for name, found in samples.items():
            load = prepare(server, number, count)
            number += 1
            found.append(timed(bare_paho if name == PAHO else job_subscriber, server, load))
    return samples


def main() -> int:
    """Measure, print, write the results."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        with MosquittoServer(home, extra_lines=("max_queued_messages 0",)) as server:
            samples = measure(server, count, rounds)
    figures = {
        name: {
            "events_per_second_median": round(statistics.median(s.rate for s in found)),
            "events_per_second_best": round(max(s.rate for s in found)),
            "cpu_microseconds_per_event": round(statistics.median(s.cpu for s in found), 1),
        }
        for name, found in samples.items()
    }
    ratio = round(
        statistics.median(
            ours.rate / bare.rate for ours, bare in zip(samples[OURS], samples[PAHO], strict=True)
        ),
        2,
    )
    print(f"{rounds} rounds of {count} signed events in turns: Mosquitto, TLS 1.3, MQTT 5, QoS 1")
    print(f"{'':16}{'median':>12}{'best':>12}{'cpu an event':>15}")
    for name, row in figures.items():
        print(
            f"{name:16}{row['events_per_second_median']:>10}/s{row['events_per_second_best']:>10}/s"
            f"{row['cpu_microseconds_per_event']:>12} µs"
        )
    print(f"ratio {ratio}x, target at least {TARGET_RATIO:g}x")
    body = {
        "what": "signed events through the subscriber; Mosquitto, TLS 1.3, MQTT 5, QoS 1; in turns",
        "events": count,
        "rounds": rounds,
        "python": platform.python_version(),
        "processors": os.cpu_count(),
        "figures": figures,
        "ratio_to_bare_paho": ratio,
        "targets": {"ratio_to_bare_paho": TARGET_RATIO},
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
