"""The hand-over while the process itself has no connection yet, or lost it a moment ago."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jobwire.core.clock import Clock, SystemClock
from jobwire.core.errors import UnreachableError
from jobwire.core.settings import BrokerSettings
from jobwire.delivery import handover, handover_server
from jobwire.delivery.handover import DELIVER, HandOver
from jobwire.delivery.handover_server import HandOverServer, SentSoFar
from jobwire.delivery.outbox import Delivery
from jobwire.testing import wait_for
from jobwire.testing.calls import serving_calls
from jobwire.testing.clock import ManualClock

JOB, LATER_JOB = "0a1b2c3d", "0a1b2c3e"
CONFIRMED = Delivery(delivered=True, confirmed=True)


class _Process:
    """The answering half of a registry process, with a broker that comes and goes."""

    def __init__(self, home: Path, clock: Clock) -> None:
        self.home = home
        self.sent: list[str] = []
        self.failing = 0
        self.server = HandOverServer(
            broker=BrokerSettings("test", 1, topic_root="root"), send=self._send, clock=clock
        )

    def _send(self, job_id: str, expiry_seconds: int | None) -> SentSoFar:
        if self.failing:
            self.failing -= 1
            raise UnreachableError(f"no broker within {expiry_seconds} s")
        self.sent.append(job_id)
        return SentSoFar(acked_seq=1, confirmed_seq=1)

    @contextmanager
    def serving(self) -> Iterator[None]:
        with serving_calls(self.home, {DELIVER: self.server}):
            yield

    @contextmanager
    def asked(self, job_id: str) -> Iterator[list[Delivery | None]]:
        """Let a worker hand over while the block runs; what it hears is in the list after it."""
        heard: list[Delivery | None] = []
        way = HandOver(str(self.home), wishes={}, expiry_seconds=None, clock=SystemClock())
        worker = threading.Thread(target=lambda: heard.append(way.deliver(job_id, 1)))
        worker.start()
        yield heard
        worker.join(60)


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Process:
    """Give one that was just started, on a machine where a second may pass before anybody answers."""
    for name in ("TAKEN_SECONDS", "ANSWER_SECONDS"):
        monkeypatch.setattr(handover, name, 60.0)
    for name in ("_PATIENCE_SECONDS", "_AWAY_SECONDS"):
        monkeypatch.setattr(handover_server, name, 60.0)
    return _Process(tmp_path, SystemClock())


def test_a_process_that_is_connecting_has_its_workers_wait(process: _Process) -> None:
    """An event that is handed over before the connection stands is sent when it does."""
    with process.serving(), process.asked(JOB) as heard:
        wait_for(lambda: process.server.is_awaited(JOB), what="the request")
        assert process.sent == []
        process.server.broker_found()
    assert (heard, process.sent) == ([CONFIRMED], [JOB])


def test_what_a_start_takes_is_not_counted_as_a_broker_that_stays_away(process: _Process) -> None:
    """A process that first had a long journal to fold has its first workers wait for the connection."""
    clock = ManualClock()
    slow = _Process(process.home, clock)
    clock.advance(3600.0)
    slow.server.begin()
    with slow.serving(), slow.asked(JOB) as heard:
        wait_for(lambda: heard or slow.server.is_awaited(JOB), what="the request")
        slow.server.broker_found()
    assert (heard, slow.sent) == ([CONFIRMED], [JOB])


def test_a_broker_that_restarts_is_waited_for(process: _Process) -> None:
    """A connection that was lost a moment ago is no reason to turn a worker away."""
    process.server.broker_found()
    with process.serving():
        with process.asked(JOB) as first:
            pass
        process.server.broker_lost()
        with process.asked(LATER_JOB) as second:
            wait_for(lambda: process.server.is_awaited(LATER_JOB), what="the request")
            process.server.broker_found()
    assert (first, second, process.sent) == ([CONFIRMED], [CONFIRMED], [JOB, LATER_JOB])


def test_what_a_broker_took_with_it_is_sent_again(process: _Process) -> None:
    """A connection that is cut under an event costs its worker a moment, not the delivery."""
    process.server.broker_found()
    process.failing = 2
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
            assert heard[0] is not None
            assert isinstance(failure := heard[0].failure, UnreachableError)
            assert (heard[0].delivered, failure.facts["address"]) == (False, "test:1")
    assert process.sent == []


def test_who_waits_at_the_end_goes_on_alone(process: _Process) -> None:
    """A process that is stopped leaves the event, which is on the disk, to its worker."""
    with process.serving(), process.asked(JOB) as heard:
        wait_for(lambda: process.server.is_awaited(JOB), what="the request")
        process.server.close()
    assert (heard, process.sent) == ([None], [])
