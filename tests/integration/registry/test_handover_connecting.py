"""The hand-over while the process itself has no connection yet, or lost it a moment ago."""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from jobwire.core.clock import SystemClock
from jobwire.core.errors import UnreachableError
from jobwire.delivery import handover, handover_server
from jobwire.delivery.handover import HandedOver, HandOver
from jobwire.delivery.handover_server import HandOverRequest, HandOverServer, PublishingBroker, SentSoFar
from jobwire.testing import wait_for

JOB, LATER_JOB = "0a1b2c3d", "0a1b2c3e"
CONFIRMED = HandedOver(delivered=True, confirmed=True)
NO_BROKER = HandedOver(delivered=False, no_broker="test:1")


class _Process:
    """The answering half of a registry process, with a broker that comes and goes."""

    def __init__(self, home: Path) -> None:
        self.home = str(home)
        self.connected = False
        self.sent: list[str] = []
        self.failing = 0
        self.server = HandOverServer(
            home=self.home,
            broker=PublishingBroker("test:1", "test", 1, "root"),
            send=self._send,
            connected=lambda: self.connected,
            clock=SystemClock(),
        )

    def _send(self, job_id: str, *, expiry_seconds: int | None) -> SentSoFar:
        if self.failing or not self.connected:
            self.failing = max(0, self.failing - 1)
            raise UnreachableError(f"no broker within {expiry_seconds} s")
        self.sent.append(job_id)
        return SentSoFar(acked_seq=1, confirmed_seq=1)

    @contextmanager
    def serving(self) -> Iterator[None]:
        over = threading.Event()
        self.server.open()

        def send() -> None:
            while not over.is_set():
                self.server.send_next()

        threads = [
            threading.Thread(target=self.server.serve, args=[over.is_set]),
            threading.Thread(target=send),
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            over.set()
            for thread in threads:
                thread.join(60)
            self.server.close()

    @contextmanager
    def asked(self, job_id: str) -> Iterator[list[HandedOver | None]]:
        """Let a worker hand over while the block runs; what it hears is in the list after it."""
        heard: list[HandedOver | None] = []
        way = HandOver(self.home, wishes={}, expiry_seconds=None, clock=SystemClock())
        worker = threading.Thread(target=lambda: heard.append(way.deliver(job_id, 1)))
        worker.start()
        yield heard
        worker.join(60)
        way.close()


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Process:
    """Give one that was just started, on a machine where a second may pass before anybody answers."""
    for name in ("TAKEN_SECONDS", "ANSWER_SECONDS"):
        monkeypatch.setattr(handover, name, 60.0)
    for name in ("_PATIENCE_SECONDS", "_AWAY_SECONDS"):
        monkeypatch.setattr(handover_server, name, 60.0)
    return _Process(tmp_path)


def test_a_process_that_is_connecting_has_its_workers_wait(process: _Process) -> None:
    """An event that is handed over before the connection stands is sent when it does."""
    with process.serving(), process.asked(JOB) as heard:
        wait_for(lambda: process.server.is_awaited(JOB), what="the request")
        assert process.sent == []
        process.connected = True
    assert (heard, process.sent) == ([CONFIRMED], [JOB])


def test_a_broker_that_restarts_is_waited_for(process: _Process) -> None:
    """A connection that was lost a moment ago is no reason to turn a worker away."""
    process.connected = True
    with process.serving():
        with process.asked(JOB) as first:
            pass
        process.connected = False
        with process.asked(LATER_JOB) as second:
            wait_for(lambda: process.server.is_awaited(LATER_JOB), what="the request")
            process.connected = True
    assert (first, second, process.sent) == ([CONFIRMED], [CONFIRMED], [JOB, LATER_JOB])


def test_what_a_broker_took_with_it_is_sent_again(process: _Process) -> None:
    """A connection that is cut under an event costs its worker a moment, not the delivery."""
    process.connected, process.failing = True, 2
    with process.serving(), process.asked(JOB) as heard:
        pass
    assert (heard, process.sent, process.failing) == ([CONFIRMED], [JOB], 0)


def test_a_broker_that_stays_away_is_told(process: _Process, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits hears so after a moment, and whoever comes later at once; nobody tries in vain."""
    monkeypatch.setattr(handover_server, "_AWAY_SECONDS", 0.3)
    with process.serving():
        for _ in range(2):
            with process.asked(JOB) as heard:
                pass
            assert heard == [NO_BROKER]
    assert process.sent == []


def _beyond(counts: list[int], before: list[int]) -> bool:
    return all(count > earlier for count, earlier in zip(counts, before, strict=True))


def test_a_sender_that_was_overtaken_comes_back(process: _Process, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of two senders whose job the other took, just as its time was over, does not wait for ever."""
    monkeypatch.setattr(handover_server, "_TICK_SECONDS", 0.002)
    over = threading.Event()
    looks = [0, 0]

    def send(sender: int) -> None:
        while not over.is_set():
            process.server.send_next()
            looks[sender] += 1

    def compute() -> None:
        while not over.is_set():
            sum(range(20_000))

    threads = [threading.Thread(target=send, args=[sender], daemon=True) for sender in range(2)]
    threads.append(threading.Thread(target=compute, daemon=True))
    for thread in threads:
        thread.start()
    spread = random.Random(1)  # noqa: S311 - a spread of times
    try:
        for number in range(500):
            process.server._queue(HandOverRequest(f"{number:08x}", 1, None))
            over.wait(spread.random() * 0.006)
            if number % 50 == 49:
                # Nothing more is put meanwhile: it would wake whoever waits.
                before = list(looks)
                wait_for(partial(_beyond, looks, before), what="another look of both")
    finally:
        over.set()
        for thread in threads:
            thread.join(60)
        process.server.close()
