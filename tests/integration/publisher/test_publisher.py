"""`Publisher` on real brokers: one connection, the same promises."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from jobwire.core.errors import ConflictError, InvalidInputError, RefusedError, StoppedError
from jobwire.jobs import fold
from jobwire.jobs.record import JobRecord
from jobwire.publisher import Publisher
from jobwire.registry.store import RecordStore
from jobwire.testing import BrokerProcess
from jobwire.testing.event_reader import EventReader
from jobwire.testing.unsent import unsent

MakeJob = Callable[[Path], JobRecord]
Read = Callable[..., EventReader]
NO_ENVIRONMENT: dict[str, str] = {}


def test_a_job_is_told_from_start_to_end(broker: BrokerProcess, make_job: MakeJob, read: Read) -> None:
    """Every event is admitted in order with its words and figures; the record follows; the outbox empties."""
    job = make_job(broker.home)
    reader = read(broker, job)
    with Publisher(job.job_id, home=broker.home, environ=NO_ENVIRONMENT) as worker:
        assert worker.started().delivered
        assert worker.progress("5 %", percent=5, rate=0.5).delivered
        assert worker.permission_required("push?").delivered
        assert worker.completed("fünf Dateien 𝄞", files=5).seq == 4
    assert reader.wait_for_seq(4) == [1, 2, 3, 4]
    assert [item.event.event for item in reader.accepted] == [
        "started",
        "progress",
        "permission_required",
        "completed",
    ]
    assert reader.accepted[1].event.data == {"percent": 5, "rate": 0.5}
    assert reader.accepted[3].event.detail == "fünf Dateien 𝄞"
    assert unsent(broker.home, job.job_id) == []
    late = read(broker, job, late=True)
    assert late.wait_for_seq(4) == [4]


def test_a_broker_that_goes_away_costs_no_event(
    fresh_broker: BrokerProcess, make_job: MakeJob, read: Read
) -> None:
    """Events said while the broker is down go out, in order, when it is back; the worker is not held up."""
    job = make_job(fresh_broker.home)
    with Publisher(job.job_id, home=fresh_broker.home, attempts=1, environ=NO_ENVIRONMENT) as worker:
        assert worker.started().delivered
        fresh_broker.kill()
        assert not worker.progress("one").delivered
        assert not worker.progress("two").delivered
        fresh_broker.start()
        reader = read(fresh_broker, job, late=True)
        published = worker.completed()
        assert published.delivered
    # The first event was the killed broker's; a reader that comes later sees the rest.
    assert reader.wait_for_seq(4)[-3:] == [2, 3, 4]


def test_leaving_the_block_sends_what_waits(
    fresh_broker: BrokerProcess, make_job: MakeJob, read: Read
) -> None:
    """What could not be sent before is tried once more at the end of the block."""
    job = make_job(fresh_broker.home)
    reader = read(fresh_broker, job)
    with Publisher(job.job_id, home=fresh_broker.home, attempts=1, environ=NO_ENVIRONMENT) as worker:
        worker.started()
        reader.wait_for_seq(1)
        fresh_broker.stop()
        assert not worker.progress("one").delivered
        fresh_broker.start()
        reader.wait_for_sessions(2)
    assert reader.wait_for_seq(2) == [1, 2]


def test_threads_share_one_voice(broker: BrokerProcess, make_job: MakeJob, read: Read) -> None:
    """Eight threads at once get gapless numbers, and the broker gets them in order."""
    job = make_job(broker.home)
    reader = read(broker, job)
    with Publisher(job.job_id, home=broker.home, environ=NO_ENVIRONMENT) as worker:
        worker.started()
        threads = [
            threading.Thread(target=lambda: [worker.progress(percent=n) for n in range(5)]) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert reader.wait_for_seq(41) == list(range(1, 42))


def test_an_exception_becomes_an_error_event(broker: BrokerProcess, make_job: MakeJob, read: Read) -> None:
    """A worker that dies says so, without what its exception knows."""
    job = make_job(broker.home)
    reader = read(broker, job)

    def work() -> None:
        with Publisher(job.job_id, home=broker.home, environ=NO_ENVIRONMENT) as worker:
            worker.started()
            raise ZeroDivisionError("a secret")

    with pytest.raises(ZeroDivisionError):
        work()
    assert reader.wait_for_seq(2) == [1, 2]
    assert reader.accepted[1].event.event == "error"
    assert reader.accepted[1].event.detail == "ended by ZeroDivisionError"


def test_a_worker_is_stopped(broker: BrokerProcess, make_job: MakeJob) -> None:
    """Cancelled and claimed again both raise StoppedError; finished is a conflict."""
    job = make_job(broker.home)
    store = RecordStore(broker.home)
    with Publisher(job.job_id, home=broker.home, environ=NO_ENVIRONMENT) as worker:
        worker.started()
        with store.locked(job.job_id) as locked:
            locked.replace(fold.next_attempt(locked.record, "n" * 43, 0.0, "lease"), cause="lease")
        with pytest.raises(StoppedError):
            worker.progress()
        with pytest.raises(StoppedError):
            worker.completed()
    with Publisher(job.job_id, home=broker.home, environ={"JOBWIRE_ATTEMPT": "2"}) as worker:
        worker.started()
        worker.completed()
        with pytest.raises(ConflictError):
            worker.completed()


def test_a_refusal_is_raised_and_the_event_kept(broker: BrokerProcess, make_job: MakeJob) -> None:
    """A wrong password is the operator's business: the worker hears of it, the event waits."""
    job = make_job(broker.home)
    wrong = {"username": "claude-worker", "password": "wrong"}
    worker = Publisher(job.job_id, home=broker.home, broker=wrong, environ=NO_ENVIRONMENT)
    with pytest.raises(RefusedError):
        worker.started()
    worker.close()
    assert [event.seq for event in unsent(broker.home, job.job_id)] == [1]
    with Publisher(job.job_id, home=broker.home, environ=NO_ENVIRONMENT) as worker:
        assert worker.flush()
    assert unsent(broker.home, job.job_id) == []


def test_secrets_are_replaced_or_refused(broker: BrokerProcess, make_job: MakeJob, read: Read) -> None:
    """A value of a secret-looking variable does not leave, in detail or data."""
    job = make_job(broker.home)
    reader = read(broker, job)
    environ = {"API_KEY": "very-hidden-value"}
    with Publisher(job.job_id, home=broker.home, environ=environ, strict=True) as worker:
        worker.started()
        with pytest.raises(InvalidInputError):
            worker.progress("used very-hidden-value")
        with pytest.raises(InvalidInputError):
            worker.progress("", key="very-hidden-value")
    with Publisher(job.job_id, home=broker.home, environ=environ) as worker:
        worker.progress("used very-hidden-value", key="very-hidden-value")
    reader.wait_for_seq(2)
    assert b"hidden" not in b"".join(message.payload for message in reader.messages)
