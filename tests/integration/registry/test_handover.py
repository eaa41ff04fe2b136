"""The hand-over: a worker beside a registry process sends by it, and never depends on it."""

import errno
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jobwire.core.errors import ConflictError, StoppedError, StorageError
from jobwire.delivery import handover
from jobwire.delivery.call import SOCKET_FILE, call
from jobwire.delivery.handover import DELIVER, TAKEN_SECONDS, HandOver
from jobwire.delivery.handover_server import HandOverServer
from jobwire.delivery.signing import Draft
from jobwire.jobs import fold
from jobwire.journal.entry import Entry
from jobwire.journal.writer import JournalWriter
from jobwire.publisher import Publisher, build
from jobwire.registry import call_service
from jobwire.registry.call_service import CallService
from jobwire.registry.event_log import HomeEventLog
from jobwire.registry.store import RecordStore
from jobwire.testing import InMemoryBroker, wait_for
from jobwire.testing.calls import serving_calls
from jobwire.testing.unsent import unsent

if TYPE_CHECKING:
    from tests.integration.registry.conftest import Site

NO_ENVIRONMENT: dict[str, str] = {}
PATIENT_SECONDS = 60.0


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note each time a worker connects to the broker by itself, and refuse it."""
    asked: list[str] = []

    def refuse(*_: object, **__: object) -> None:
        asked.append("route")
        raise ConflictError("this worker has no broker")

    monkeypatch.setattr("jobwire.publisher.publisher.open_route", refuse)
    # On a busy machine a second may pass before the process answers.
    monkeypatch.setattr(handover, "TAKEN_SECONDS", PATIENT_SECONDS)
    return asked


def _publisher(site: "Site", job_id: str, **options: object) -> Publisher:
    return Publisher(job_id, home=site.store.home, environ=NO_ENVIRONMENT, **options)  # type: ignore[arg-type]


def test_a_worker_needs_no_broker_of_its_own(site: "Site", alone: list[str]) -> None:
    """The process sends, journals and confirms; the worker's answer says so."""
    job = site.register()
    with site.serving() as process, _publisher(site, job.job_id) as worker:
        for say in (worker.started, worker.progress, worker.completed):
            said = say("a word")
            assert (said.delivered, said.confirmed, said.failure) == (True, True, None)
            assert site.store.get(job.job_id).confirmed_seq == said.seq
        facts = json.loads((Path(site.store.home) / "serve.json").read_text())
        assert process is not None
    assert facts["handover"]["clients"] <= 1
    assert alone == []
    assert unsent(site.store.home, job.job_id) == []
    assert site.history(job) == [("accepted", 1), ("accepted", 2), ("accepted", 3)]


def test_many_workers_at_once(site: "Site", alone: list[str]) -> None:
    """Twelve jobs that speak at the same time are all confirmed, each event once."""
    jobs = [site.register() for _ in range(12)]

    def work(job_id: str) -> None:
        with _publisher(site, job_id) as worker:
            worker.started()
            for step in range(5):
                worker.progress(str(step))
            assert worker.completed().confirmed

    with site.serving():
        threads = [threading.Thread(target=work, args=[job.job_id]) for job in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert [site.store.get(job.job_id).confirmed_seq for job in jobs] == [7] * 12
    assert [site.history(job) for job in jobs] == [[("accepted", seq) for seq in range(1, 8)]] * 12
    assert alone == []


def test_a_process_without_a_broker_says_so(
    site: "Site", alone: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker is told as if it had found no broker itself; the process sends when there is one."""
    assert isinstance(site.broker, InMemoryBroker)
    monkeypatch.setattr("jobwire.delivery.handover_server._AWAY_SECONDS", 0.0)
    job = site.register()
    with site.serving(), _publisher(site, job.job_id) as worker:
        site.broker.stop()
        wait_for(lambda: not _connected(site), what="the process without its broker")
        began = time.monotonic()
        said = worker.started()
        assert (said.delivered, said.failure.__class__.__name__) == (False, "UnreachableError")
        assert "no broker answered at test:1" in str(said.failure)
        assert "--flush" in said.failure.hint if said.failure else ""
        assert time.monotonic() - began < PATIENT_SECONDS / 2
        site.broker.start()
        os.utime(site.store.sent_path(job.job_id), (0, 0))
        site.confirmed(job, 1)
        worker._quiet_until = 0.0
    assert alone == []


def _connected(site: "Site") -> bool:
    return bool(json.loads((Path(site.store.home) / "serve.json").read_text())["connected"])


def test_a_cancelled_worker_is_stopped_as_ever(site: "Site", alone: list[str]) -> None:
    """Cancelled and finished jobs are answered before anything is handed over."""
    job, done = site.register(), site.register()
    with site.serving():
        worker = _publisher(site, job.job_id)
        worker.started()
        site.queue.cancel(job.job_id)
        with pytest.raises(StoppedError):
            worker.progress("on")
        worker.close()
        with _publisher(site, done.job_id) as finished:
            finished.started()
            finished.completed()
            with pytest.raises(ConflictError):
                finished.progress("on")
    assert alone == []


@pytest.mark.parametrize("wish", [{"MQTT_BROKER": "elsewhere.example"}, {"MQTT_TOPIC_ROOT": "other/root"}])
def test_another_brokers_events_are_not_taken(site: "Site", alone: list[str], wish: dict[str, str]) -> None:
    """A worker whose environment points elsewhere connects by itself."""
    job = site.register()
    with site.serving():
        worker = Publisher(job.job_id, home=site.store.home, environ=wish)
        with pytest.raises(ConflictError, match="no broker"):
            worker.started()
        worker.close()
    assert alone


def test_direct_is_direct(site: "Site", alone: list[str]) -> None:
    """Asked for, the worker connects by itself, as it does where job or command line name a broker."""
    job = site.register()
    with site.serving():
        for word, options in (("started", {"direct": True}), ("progress", {"broker": {"port": 1}})):
            worker = _publisher(site, job.job_id, **options)
            with pytest.raises(ConflictError, match="no broker"):
                worker.say(word)
        with site.store.locked(job.job_id) as locked:
            locked.replace(locked.record._replace(broker={"port": 1}), cause="the test")
        worker = _publisher(site, job.job_id)
        with pytest.raises(ConflictError, match="no broker"):
            worker.progress()
    assert len(alone) == 3
    assert site.store.get(job.job_id).last_seq == 3


@contextmanager
def _listening(home: Path) -> Iterator[socket.socket]:
    """Give a process that listens and, like a stopped one, never accepts."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(home / SOCKET_FILE))
        listener.listen()
        yield listener


def test_a_process_that_stands_still_costs_a_bounded_wait(
    site: "Site", alone: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who does not answer within a second is passed by, and not asked again for a while."""
    monkeypatch.setattr(handover, "TAKEN_SECONDS", TAKEN_SECONDS)
    asked: list[str] = []

    def counted(home: str, name: str, *words: Any, **options: Any) -> bytes | None:
        asked.append(name)
        return call(home, name, *words, **options)

    monkeypatch.setattr(handover, "call", counted)
    job = site.register()
    with _listening(Path(site.store.home)):
        worker = _publisher(site, job.job_id)
        began = time.monotonic()
        with pytest.raises(ConflictError, match="no broker"):
            worker.started()
        assert time.monotonic() - began >= TAKEN_SECONDS
        with pytest.raises(ConflictError, match="no broker"):
            worker.progress()
        assert asked == [DELIVER]
    assert site.store.get(job.job_id).last_seq == 2


def test_a_socket_that_a_kill_left_is_no_process(site: "Site", alone: list[str]) -> None:
    """The next worker passes it by, and the next process takes its place."""
    job = site.register()
    with _listening(Path(site.store.home)):
        pass
    assert (Path(site.store.home) / SOCKET_FILE).exists()
    assert _handover(site).deliver(job.job_id, 1) is None
    with site.serving():
        assert (Path(site.store.home) / SOCKET_FILE).stat().st_mode & 0o777 == 0o600
        with _publisher(site, job.job_id) as worker:
            assert worker.started().confirmed
    assert not (Path(site.store.home) / SOCKET_FILE).exists()
    assert alone == []


def test_who_can_ask_is_waited_for_from_then_on(site: "Site", monkeypatch: pytest.MonkeyPatch) -> None:
    """The process counts how long the broker is away from just before it listens, however long its start."""
    done: list[str] = []
    for kind, name in ((HandOverServer, "begin"), (CallService, "open")):
        does = getattr(kind, name)

        def noted(one: object, *, name: str = name, does: Callable[[object], None] = does) -> None:
            done.append(name)
            does(one)

        monkeypatch.setattr(kind, name, noted)
    with site.serving():
        pass
    assert done == ["begin", "open"]


class _Does:
    """A callee whose calls are all done in one way."""

    def __init__(self, work: Callable[[], bytes | None]) -> None:
        self._work = work

    def take(self, _name: str, _environ: dict[str, str], _given: bytes) -> Callable[[object], bytes]:
        """See `Callee.take`."""
        return lambda _: self._work() or b"nobody"


def test_a_call_that_calls_has_a_place_for_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where calls take all places, as two hundred of publish_event do, each can still be handed over."""
    monkeypatch.setattr(call_service, "_MOST_CALLS", 1)
    inner = partial(
        call, str(tmp_path), "inner", {}, b"", answer_seconds=PATIENT_SECONDS, taken_seconds=PATIENT_SECONDS
    )
    program = (
        "import sys; from jobwire.delivery.call import call;"
        " said = call(sys.argv[1], 'outer', {}, b'', answer_seconds=60.0, taken_seconds=60.0);"
        " sys.stdout.buffer.write(said or b'')"
    )
    with serving_calls(tmp_path, {"outer": _Does(inner), "inner": _Does(lambda: b"done")}):
        words = [sys.executable, "-c", program, str(tmp_path)]
        found = subprocess.run(words, stdout=subprocess.PIPE, check=True, timeout=PATIENT_SECONDS)
    assert found.stdout == b"done"


def test_a_full_queue_is_waited_for(tmp_path: Path) -> None:
    """Where more call at once than the kernel keeps in line, a call is made when there is room."""
    path, others = str(tmp_path / SOCKET_FILE), list[socket.socket]()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(0)
        listener.settimeout(PATIENT_SECONDS)
        error = 0
        while not error:
            others.append(socket.socket(socket.AF_UNIX))
            others[-1].setblocking(False)
            error = others[-1].connect_ex(path)
        assert error == errno.EAGAIN

        def answer() -> None:
            time.sleep(0.1)
            for one in others:
                one.close()
            heard = b""
            while not heard:
                connection, _ = listener.accept()
                with connection:
                    if heard := connection.recv(100):
                        connection.sendall(b"t")
                        connection.recv(1)
                        connection.sendall(b"done")

        thread = threading.Thread(target=answer)
        thread.start()
        asked = partial(call, str(tmp_path), "x", {}, b"", answer_seconds=PATIENT_SECONDS)
        assert asked(taken_seconds=PATIENT_SECONDS) == b"done"
        thread.join()


def _handover(site: "Site") -> HandOver:
    events = HomeEventLog(site.store, site.register().job_id, attempt=1)
    found = build.open_handover(events, command_line={}, environ={}, clock=site.store.clock)
    assert found is not None
    return found


def test_bad_clients_stop_nobody(site: "Site", alone: list[str]) -> None:
    """Whatever strangers send, or never read, a worker beside them is answered."""
    job = site.register()
    requests = [
        b"{}",
        b"[]",
        b"x" * 5000,
        b'{"job":"../../etc","seq":1}',
        b'{"job":"00000000","seq":-1}',
        b'{"job":"00000000","seq":1,"expiry":-1}',
        b"[" * 90_000,
        b'{"job":"00000000","seq":1}',
    ]
    bad = [b"", b"\n", *(b"deliver 0 %d\n" % len(request) + request for request in requests)]
    with site.serving(), ExitStack() as clients:
        for text in bad * 10:
            clients.enter_context(_client(site)).sendall(text)
        with _publisher(site, job.job_id) as worker:
            assert worker.started().confirmed
            assert worker.completed().confirmed
    assert alone == []


def _client(site: "Site") -> socket.socket:
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.connect(str(Path(site.store.home) / SOCKET_FILE))
    return client


def test_a_home_may_lie_deep(tmp_path: Path, make_site: Callable[[Path], "Site"], alone: list[str]) -> None:
    """The 108 bytes of a socket's address are no limit for a home."""
    home = tmp_path.joinpath(*["a-rather-long-name-of-a-folder"] * 6, "home")
    home.parent.mkdir(parents=True)
    site = make_site(home)
    job = site.register()
    with site.serving(), _publisher(site, job.job_id) as worker:
        assert worker.started().confirmed
    assert RecordStore(home).get(job.job_id).confirmed_seq == 1
    assert alone == []


def test_an_event_that_is_not_due_any_more_is_its_workers(site: "Site", alone: list[str]) -> None:
    """Where the job was claimed again while its worker spoke, the worker hears it as it would without us."""
    job = site.register()
    events = HomeEventLog(site.store, job.job_id, attempt=1)
    with site.serving():
        way = build.open_handover(events, command_line={}, environ={}, clock=site.store.clock)
        assert way is not None
        entry = events.append(Draft("started"))
        with site.store.locked(job.job_id) as locked:
            again = fold.next_attempt(locked.record, "n" * 43, site.store.clock.now(), "the test")
            locked.replace(again, cause="the test")
        began = time.monotonic()
        assert way.deliver(job.job_id, entry.seq) is None
        assert time.monotonic() - began < PATIENT_SECONDS / 2


def test_a_confirmation_that_does_not_come_is_not_waited_for_long(
    site: "Site", monkeypatch: pytest.MonkeyPatch, alone: list[str]
) -> None:
    """While the journal has no room, say, mere progress is delivered, and the worker goes on."""
    job = site.register()
    with site.serving(), _publisher(site, job.job_id) as worker:
        assert worker.started().confirmed
        monkeypatch.setattr("jobwire.delivery.handover_server._CONFIRM_SECONDS", 0.2)
        monkeypatch.setattr("jobwire.registry.folding.Folder.step", lambda *_, **__: False)
        said = worker.progress("half")
        assert (said.delivered, said.confirmed) == (True, None)
        monkeypatch.undo()
        worker.completed()
    assert site.store.get(job.job_id).confirmed_seq == 3


def test_workers_go_on_while_the_journal_has_no_room(
    site: "Site", monkeypatch: pytest.MonkeyPatch, alone: list[str]
) -> None:
    """Of several that hand over meanwhile nobody fails, and with room again each event is journaled once."""
    jobs = [site.register() for _ in range(3)]
    append = JournalWriter.append
    full = threading.Event()

    def refuse(writer: JournalWriter, entries: Sequence[Entry]) -> int:
        if full.is_set():
            raise StorageError("no space left on device", disk_full=True)
        return append(writer, entries)

    monkeypatch.setattr(JournalWriter, "append", refuse)
    monkeypatch.setattr("jobwire.delivery.handover_server._CONFIRM_SECONDS", 0.2)
    with site.serving(), ExitStack() as workers:
        saying = [workers.enter_context(_publisher(site, job.job_id, confirm_seconds=0.2)) for job in jobs]
        full.set()
        for worker in saying:
            said = [worker.started(), worker.completed()]
            assert [(one.delivered, one.confirmed) for one in said] == [(True, False)] * 2
        full.clear()
        for job in jobs:
            site.confirmed(job, 2)
    assert [site.history(job) for job in jobs] == [[("accepted", 1), ("accepted", 2)]] * 3
    assert alone == []
