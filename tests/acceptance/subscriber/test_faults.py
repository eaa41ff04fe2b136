"""`job_subscriber` when things go wrong: brokers that die, strangers that write, keys that change."""

import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jobwire.core.signature import new_token
from jobwire.core.topics import Topics
from jobwire.jobs.event import Event, encode_signed
from jobwire.jobs.record import Timeouts
from jobwire.jobs.snapshot import encode_snapshot
from jobwire.jobs.ticket import Ticket, encode_ticket
from jobwire.testing import BrokerProcess, MosquittoServer, free_port, wait_for
from jobwire.testing.watching import JobHouse, Watcher
from jobwire.transport import PahoTransport

STAMP = "2026-01-02T03:04:05.678Z"


@contextmanager
def foreign(broker: BrokerProcess, role: str = "claude-worker") -> Iterator[PahoTransport]:
    """Connect as somebody who may write events and has no key."""
    transport = PahoTransport(broker.settings(role), client_id="", clean_session=True)
    transport.connect(10)
    try:
        yield transport
    finally:
        transport.close()


def signed(job: str, seq: int, kind: str, token: str, detail: str = "") -> bytes:
    """Return an event signed with `token`."""
    return encode_signed(Event(seq, job, kind, STAMP, detail, {}), token)


def test_forged_events_kept_up_do_not_hold_the_idle_timer(broker: BrokerProcess) -> None:
    """A stranger that writes without a pause is refused by name, summed up, and the timeout comes."""
    house = JobHouse(broker.home)
    job = house.register()
    topic = Topics(broker.topic_root).events(job)
    with house.worker(job) as worker:
        worker.started()
    ended = threading.Event()
    sent = 0
    with (
        foreign(broker) as stranger,
        Watcher(broker.home, "--job", job, "--idle-timeout", "2", "--wall-timeout", "30") as watcher,
    ):
        watcher.wait_until_watching()

        def wait_for_end() -> None:
            watcher.process.wait()
            ended.set()

        waiter = threading.Thread(target=wait_for_end)
        waiter.start()
        while not ended.is_set():
            payload = signed(job, 2 + sent, "progress", new_token()) if sent % 2 else b"\x00{not json"
            stranger.publish(topic, payload, retain=False, deadline_seconds=10)
            sent += 1
        waiter.join()
        assert watcher.wait() == 2
        assert watcher.verdicts() == {job: "idle_timeout"}
        assert watcher.events() == []
        errors = watcher.errors()
        assert "bad_signature" in errors
        assert "malformed" in errors
        assert sent > 50
        assert "more messages refused" in errors
        assert len(errors.splitlines()) < 30


def test_broker_restarted_in_the_middle(fresh_broker: BrokerProcess) -> None:
    """Over a restart each event is printed once and the end is seen."""
    house = JobHouse(fresh_broker.home)
    job = house.register()
    with (
        Watcher(fresh_broker.home, "--job", job, "--wall-timeout", "90") as watcher,
        house.worker(job) as worker,
    ):
        watcher.wait_until_watching()
        worker.started()
        watcher.wait_for_event(1)
        fresh_broker.restart()
        watcher.wait_for_error("connecting again")
        worker.progress("after the restart")
        watcher.wait_for_event(2)
        worker.completed()
        worker.flush()
        assert watcher.wait(60) == 0, watcher.errors()
        assert watcher.events() == [(1, "started"), (2, "progress"), (3, "completed")]
        assert watcher.verdicts() == {job: "completed"}


def test_broker_killed_for_good(fresh_mosquitto: MosquittoServer) -> None:
    """With the broker gone the record gives events and verdict: nothing is lost, nothing said twice."""
    house = JobHouse(fresh_mosquitto.home)
    job = house.register()
    with (
        Watcher(fresh_mosquitto.home, "--job", job, "--wall-timeout", "90") as watcher,
        house.worker(job) as worker,
    ):
        watcher.wait_until_watching()
        worker.started()
        watcher.wait_for_event(1)
        fresh_mosquitto.kill()
        worker.progress("nobody carries this")
        watcher.wait_for_event(2)
        worker.completed("nor this")
        assert watcher.wait(60) == 0, watcher.errors()
        assert watcher.events() == [(1, "started"), (2, "progress"), (3, "completed")]
        assert watcher.lines()[1]["recovered"] is True


def test_broker_down_from_the_start(fresh_mosquitto: MosquittoServer) -> None:
    """A broker that comes up late is waited for; the cause is named once."""
    house = JobHouse(fresh_mosquitto.home)
    job = house.register()
    fresh_mosquitto.stop()
    with Watcher(fresh_mosquitto.home, "--job", job, "--wall-timeout", "90") as watcher:
        watcher.wait_for_error("nothing listens")
        fresh_mosquitto.start()
        watcher.wait_until_watching()
        assert watcher.errors().count("nothing listens") == 1
        with house.worker(job) as worker:
            worker.started()
            worker.completed()
        assert watcher.wait() == 0
        assert watcher.events() == [(1, "started"), (2, "completed")]


def test_broker_down_all_the_time(tmp_path: Path) -> None:
    """Without any broker the timeouts still hold."""
    job = JobHouse(tmp_path).register()
    words = ("--port", str(free_port()), "--broker", "127.0.0.1", "--no-tls", "--wall-timeout", "1")
    with Watcher(tmp_path, "--job", job, *words) as watcher:
        assert watcher.wait() == 2
        assert watcher.verdicts() == {job: "wall_timeout"}
        assert "jobwire up" in watcher.errors()


def test_a_watcher_that_was_stopped_and_continued(broker: BrokerProcess) -> None:
    """Ctrl-Z for longer than the idle limit: events that waited in the socket count before the clock does."""
    house = JobHouse(broker.home)
    job = house.register()
    with (
        Watcher(broker.home, "--job", job, "--idle-timeout", "2", "--wall-timeout", "60") as watcher,
        house.worker(job) as worker,
    ):
        watcher.wait_until_watching()
        worker.started()
        watcher.wait_for_event(1)
        watcher.process.send_signal(signal.SIGSTOP)
        stopped_at = time.monotonic()
        worker.progress("nobody listens")
        wait_for(lambda: time.monotonic() > stopped_at + 2.5, what="the idle limit to pass")
        watcher.process.send_signal(signal.SIGCONT)
        watcher.wait_for_event(2)
        worker.completed()
        assert watcher.wait() == 0, watcher.errors()


def test_a_second_terminal_event(broker: BrokerProcess) -> None:
    """After completed, a genuine error event of the same worker changes nothing."""
    house = JobHouse(broker.home)
    job, other = house.register(), house.register()
    token = house.record(job).auth_token
    topic = Topics(broker.topic_root).events(job)
    both = ("--job", job, "--job", other, "--wall-timeout", "60")
    with foreign(broker) as wire, Watcher(broker.home, *both) as watcher, house.worker(other) as worker:
        watcher.wait_until_watching()
        for seq, kind in ((1, "started"), (2, "completed"), (3, "error")):
            payload = signed(job, seq, kind, token)
            wire.publish(topic, payload, retain=seq > 1, deadline_seconds=10)
        watcher.wait_for_error("after_terminal")
        worker.started()
        worker.completed()
        assert watcher.wait() == 0
        assert watcher.verdicts() == {job: "completed", other: "completed"}
        assert (3, "error") not in watcher.events()


def test_redelivered_and_late_events(broker: BrokerProcess) -> None:
    """What comes twice is printed once; what was overtaken is printed and marked."""
    house = JobHouse(broker.home)
    job = house.register()
    token = house.record(job).auth_token
    topic = Topics(broker.topic_root).events(job)
    order = [
        (1, "started"),
        (3, "progress"),
        (3, "progress"),
        (2, "progress"),
        (2, "progress"),
        (4, "completed"),
    ]
    with foreign(broker) as wire, Watcher(broker.home, "--job", job, "--wall-timeout", "60") as watcher:
        watcher.wait_until_watching()
        for seq, kind in order:
            wire.publish(topic, signed(job, seq, kind, token), retain=False, deadline_seconds=10)
        assert watcher.wait() == 0
        assert [seq for seq, _ in watcher.events()] == [1, 3, 2, 4]
        assert [line.get("late", False) for line in watcher.lines()[:4]] == [False, False, True, False]


def _ticket(house: JobHouse, broker: BrokerProcess, job: str, folder: Path, **fields: object) -> Path:
    record = house.record(job)
    settings = broker.settings("hermes")
    path = folder / f"{job}.ticket"
    path.touch(0o600)
    place: dict[str, str | int] = {
        "broker": settings.host,
        "port": settings.port,
        "ca_certs": str(settings.ca_certs),
    }
    place |= {"username": "hermes", "password_file": str(broker.home / "passwords" / "hermes")}
    place["protocol"] = settings.protocol
    ticket = Ticket(job, record.auth_token, record.attempt, place, broker.topic_root)
    path.write_bytes(encode_ticket(ticket._replace(**fields)))  # type: ignore[arg-type]  # fields by name
    return path


def test_watching_from_another_host(broker: BrokerProcess, tmp_path: Path) -> None:
    """A ticket is all that a watcher elsewhere needs to see a job to its end."""
    house = JobHouse(broker.home)
    job = house.register()
    ticket = _ticket(house, broker, job, tmp_path)
    with (
        Watcher(None, "--ticket", str(ticket), "--wall-timeout", "60") as watcher,
        house.worker(job) as worker,
    ):
        watcher.wait_until_watching()
        worker.started()
        worker.error("far away")
        assert watcher.wait() == 1
        assert watcher.events() == [(1, "started"), (2, "error")]


@pytest.mark.parametrize("how", ["cancelled", "superseded"])
def test_states_reach_another_host(broker: BrokerProcess, tmp_path: Path, how: str) -> None:
    """Cancellation and re-claim come by the signed state topic: exit code 3; a forged state does nothing."""
    house = JobHouse(broker.home)
    job = house.register()
    ticket = _ticket(house, broker, job, tmp_path)
    topic = Topics(broker.topic_root).state(job)
    with (
        foreign(broker, "registry") as registry,
        Watcher(None, "--ticket", str(ticket), "--wall-timeout", "60") as watcher,
    ):
        watcher.wait_until_watching()
        house.queue.cancel(job)
        record = house.record(job)
        forged = encode_snapshot(record._replace(auth_token=new_token()), confirmed_seq=0)
        registry.publish(topic, forged, retain=False, deadline_seconds=10)
        watcher.wait_for_error("message refused: bad_signature")
        if how == "superseded":
            old = (record.auth_token,)
            record = record._replace(attempt=2, previous_tokens=old, auth_token=new_token())
        registry.publish(topic, encode_snapshot(record, confirmed_seq=0), retain=True, deadline_seconds=10)
        assert watcher.wait() == 3
        assert watcher.verdicts() == {job: how}
        registry.publish(topic, b"", retain=True, deadline_seconds=10)


def test_a_ticket_open_to_others(broker: BrokerProcess, tmp_path: Path) -> None:
    """A ticket that other users may read is refused with the remedy."""
    house = JobHouse(broker.home)
    ticket = _ticket(house, broker, house.register(), tmp_path)
    ticket.chmod(0o644)
    with Watcher(None, "--ticket", str(ticket), "--json") as watcher:
        assert watcher.wait() == 30
        assert "chmod 600" in json.loads(watcher.errors())["hint"]


def test_two_watchers_of_one_job(broker: BrokerProcess) -> None:
    """Watchers do not take each other's session: both see everything."""
    house = JobHouse(broker.home)
    job = house.register(timeouts=Timeouts(wall_seconds=60))
    with (
        Watcher(broker.home, "--job", job) as one,
        Watcher(broker.home, "--job", job) as two,
        house.worker(job) as worker,
    ):
        one.wait_until_watching()
        two.wait_until_watching()
        worker.started()
        worker.completed()
        assert (one.wait(), two.wait()) == (0, 0)
        assert one.events() == two.events() == [(1, "started"), (2, "completed")]
        assert "again" not in one.errors() + two.errors()


def test_a_reader_that_goes_away(broker: BrokerProcess) -> None:
    """`job_subscriber | head -1` ends without a traceback."""
    house = JobHouse(broker.home)
    job = house.register()
    start = "from jobwire.subscriber.cli import main; raise SystemExit(main())"
    command = [sys.executable, "-c", start, "--home", str(broker.home), "--job", job, "--wall-timeout", "30"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert "watching" in process.stderr.readline()
        with house.worker(job) as worker:
            worker.started()
            assert '"started"' in process.stdout.readline()
            process.stdout.close()
            worker.completed()
        errors = process.stderr.read()
        wait_for(lambda: process.poll() is not None, what="the end of the process")
        assert not re.search("Traceback|Error", errors), errors
