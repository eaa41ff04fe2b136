"""Duties: a thread that says nothing while it works is noticed; one that rests is not."""

import logging
import threading

import pytest

from jobwire.core.errors import StorageError, UnreachableError
from jobwire.registry.duties import STEP_SECONDS, Duties, Duty
from jobwire.registry.upkeep import Periodic
from jobwire.testing import ManualClock


@pytest.fixture
def duties(clock: ManualClock) -> Duties:
    """Give the board of one process."""
    return Duties(clock)


def test_a_step_that_takes_too_long(duties: Duties, clock: ManualClock) -> None:
    """Work without a further step is stuck after a while, whatever the others do."""
    slow, other = duties.begin("slow"), duties.begin("other")
    slow.work("purging")
    clock.advance(STEP_SECONDS)
    assert not duties.reports()["slow"].stuck
    clock.advance(1)
    other.work("reaping")
    reports = duties.reports()
    assert (reports["slow"].stuck, reports["slow"].doing) == (True, "purging")
    assert reports["slow"].seconds == STEP_SECONDS + 1
    assert not reports["other"].stuck


def test_each_question_is_a_step(duties: Duties, clock: ManualClock) -> None:
    """Long work that asks whether to stop is not stuck."""
    duty = duties.begin("purger")
    stop = duty.asking(lambda: False, "purging")
    for _ in range(10):
        clock.advance(STEP_SECONDS)
        assert not stop()
    assert not duties.reports()["purger"].stuck


def test_rest_is_no_hanging(duties: Duties, clock: ManualClock) -> None:
    """Whoever has nothing to do for an hour is well."""
    duties.begin("purger").rest()
    clock.advance(3600)
    assert not duties.reports()["purger"].stuck


def _periodic(work: object, clock: ManualClock) -> Periodic:
    assert callable(work)
    return Periodic("reaper", lambda _: work(), doing="reaping", seconds=1.0, clock=clock)


def test_trouble_is_told_once_and_then_lasts(
    duties: Duties, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A duty that fails each time says so once a minute, and health hears of it after a while."""

    def fail() -> None:
        raise StorageError("no descriptors left")

    duty = duties.begin("reaper")
    one = _periodic(fail, clock)
    for second in range(60):
        one.step(duty, lambda: False)
        assert bool(duties.reports()["reaper"].error) == (second >= 20)
        clock.advance(1)
    assert len(caplog.records) == 1
    assert duties.reports()["reaper"].error == "no descriptors left"
    _periodic(lambda: None, clock).step(duty, lambda: False)
    assert not duties.reports()["reaper"].error


def test_a_broker_that_is_away_is_no_failure(
    duties: Duties, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """That the broker is away is told by the connection, not by each duty that would use it."""
    caplog.set_level(logging.INFO)

    def away() -> None:
        raise UnreachableError("no broker")

    duty = duties.begin("purger")
    for _ in range(60):
        _periodic(away, clock).step(duty, lambda: False)
        clock.advance(1)
    assert not duties.reports()["purger"].error
    assert "no broker" in caplog.text


def test_raw_errors_of_the_system_are_waited_out(duties: Duties, clock: ManualClock) -> None:
    """What the system refuses is tried again; a mistake of ours ends the thread."""

    def forbidden() -> None:
        raise PermissionError(13, "Permission denied")

    def mistake() -> None:
        raise KeyError("x")

    duty: Duty = duties.begin("flusher")
    _periodic(forbidden, clock).step(duty, lambda: False)
    with pytest.raises(KeyError):
        _periodic(mistake, clock).step(duty, lambda: False)


def test_runs_until_told_to_stop(duties: Duties, clock: ManualClock) -> None:
    """The first time comes after its own pause; the end is seen at the next pause."""
    stop = threading.Event()
    ran: list[int] = []

    def work(_: object) -> None:
        ran.append(1)
        if len(ran) == 3:
            stop.set()

    one = Periodic("x", work, doing="x", seconds=0.001, first_seconds=0.0, clock=clock)
    one.run(duties.begin("x"), stop)
    assert len(ran) == 3
