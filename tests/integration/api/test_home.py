"""`Home`: delegate, watch and work from one process, on a real disk and a real broker."""

import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobwire import (
    ConflictError,
    Home,
    InvalidInputError,
    Mode,
    NotFoundError,
    NoWorkError,
    Outcome,
    Status,
    StoppedError,
    Subscriber,
)
from jobwire.testing import wait_for


@pytest.fixture(autouse=True)
def _nothing_is_left(home: Home) -> Iterator[None]:
    """After each test no thread of a worker or a watch goes on."""
    before = set(threading.enumerate())
    yield
    home.close()
    wait_for(lambda: set(threading.enumerate()) <= before, what="the end of all threads")


def statuses(home: Home) -> dict[str, str]:
    """Return how the jobs stand."""
    return {record.job_id: str(record.status) for record in home.jobs()}


def work_and_raise(home: Home, error: BaseException) -> None:
    """Claim a job, begin it, and leave its block by an exception."""
    for claimed in home.work(wait_seconds=0):
        with claimed:
            claimed.started()
            raise error


def test_a_job_is_delegated_done_and_watched(home: Home) -> None:
    """The watcher sees every event once, and the verdict carries the last one's data."""
    job = home.register("count the files", session="builder")
    seen: list[str] = []

    def work() -> None:
        for claimed in home.work("builder", wait_seconds=0):
            with claimed:
                claimed.started()
                claimed.progress("half", percent=50)
                claimed.completed("done", files=30)

    with home.watch(job) as events:
        worker = threading.Thread(target=work)
        worker.start()
        seen.extend(event.event for event in events)
        worker.join()
    assert seen == ["started", "progress", "completed"]
    assert events.verdict is not None
    assert events.verdict.outcome is Outcome.COMPLETED
    assert events.verdict.data == {"files": 30}
    assert home.job(job).status is Status.COMPLETED


def test_a_finished_job_gives_its_data_too(home: Home) -> None:
    """Who watches late learns the same verdict, from the record."""
    job = home.register()
    with home.publisher(job) as worker:
        worker.started()
        worker.completed(files=7)
    with home.watch(job) as events:
        assert [event.event for event in events][-1:] == ["completed"]
    assert events.verdict is not None
    assert events.verdict.data == {"files": 7}


def test_several_jobs_have_their_verdicts(home: Home) -> None:
    """One watch over several jobs tells of each."""
    jobs = [home.register(str(number)) for number in range(3)]
    for job in jobs[:2]:
        with home.publisher(job) as worker:
            worker.started()
            worker.completed()
    with home.watch(*jobs, mode=Mode(any_one=True)) as events:
        list(events)
    assert events.verdict is None
    assert set(events.verdicts.by_job) >= {jobs[0].job_id}


def test_a_subscriber_finds_home_and_settings_by_itself(home: Home) -> None:
    """`Subscriber` takes a home as `Publisher` does."""
    job = home.register()
    home.cancel(job, "not needed")
    with Subscriber(job.job_id, home=home.path, environ={}) as events:
        assert list(events) == []
    assert events.verdict is not None
    assert events.verdict.outcome is Outcome.CANCELLED


def test_registering_is_idempotent_by_key(home: Home) -> None:
    """The same key is the same job; what no record can hold is refused by name."""
    first, second = home.register(key="nightly"), home.register(key="nightly")
    assert (first.job_id, first.created, second.created) == (second.job_id, True, False)
    with pytest.raises(InvalidInputError, match="title"):
        home.register("x" * 10_000)
    with pytest.raises(NotFoundError):
        home.job("00000000")
    with pytest.raises(ValueError, match="urgent"):
        home.register(priority="urgent")


def test_a_named_job_is_claimed_by_one(home: Home) -> None:
    """A claim by id takes that job whatever else waits, and nobody else has it then."""
    home.register()
    wanted = home.register(session="somebody")
    with home.claim(wanted) as claimed:
        assert claimed.job_id == wanted.job_id
        with pytest.raises(ConflictError):
            home.claim(wanted)
        claimed.started()
        claimed.completed()


def test_nothing_to_claim_is_said(home: Home) -> None:
    """A claim that finds nothing raises; a loop over nothing is over."""
    with pytest.raises(NoWorkError):
        home.claim()
    assert list(home.work(wait_seconds=0)) == []


def test_a_failure_in_the_block_is_the_jobs_end(home: Home) -> None:
    """An exception becomes an error event with its class name, and goes on to the caller."""
    job = home.register()
    with pytest.raises(ZeroDivisionError):
        work_and_raise(home, ZeroDivisionError())
    record = home.job(job)
    assert (record.status, record.detail) == (Status.ERROR, "ended by ZeroDivisionError")


@pytest.mark.parametrize("stopping", [KeyboardInterrupt(), SystemExit(0), SystemExit()])
def test_a_worker_that_is_stopped_gives_its_job_back(home: Home, stopping: BaseException) -> None:
    """Ctrl-C and `sys.exit(0)` end the worker, not the job: the next one can have it at once."""
    job = home.register()
    with pytest.raises(type(stopping)):
        work_and_raise(home, stopping)
    record = home.job(job)
    assert (record.status, record.attempt) == (Status.PENDING, 2)


def test_an_exit_code_is_a_failure(home: Home) -> None:
    """`sys.exit(3)` is the job's error."""
    job = home.register()
    with pytest.raises(SystemExit):
        work_and_raise(home, SystemExit(3))
    assert home.job(job).status is Status.ERROR


def test_a_loop_that_is_left_holds_nothing(home: Home) -> None:
    """Also without `with`, a job is given back when the loop goes on or is left."""
    jobs = [home.register(max_attempts=1), home.register()]
    for number, _ in enumerate(home.work(wait_seconds=0)):
        if number == 1:
            break
    found = statuses(home)
    assert (found[jobs[0].job_id], found[jobs[1].job_id]) == ("error", "pending")


def test_a_block_without_an_end_is_warned_about(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    """A worker that forgets its last word is told, and its job is given back or goes on."""
    claimed_job = home.register()
    with home.claim() as claimed:
        claimed.started()
    assert home.job(claimed_job).status is Status.PENDING
    assert claimed_job.job_id in caplog.text
    caplog.clear()
    with home.publisher(home.register()) as worker:
        worker.started()
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "without completed() or error()" in caplog.text


def test_a_publisher_is_left_well_by_exit_zero(home: Home) -> None:
    """`sys.exit(0)` in the block is no error of the job."""
    job = home.register()
    worker = home.publisher(job)
    worker.started()
    worker.__exit__(SystemExit, SystemExit(0), None)
    assert home.job(job).status is Status.RUNNING


def test_a_cancelled_job_is_noticed_and_the_loop_goes_on(home: Home) -> None:
    """The worker hears of it within a second, or when it speaks; the next job is its next."""
    jobs = [home.register(), home.register()]
    done = []
    for claimed in home.work(wait_seconds=0):
        with claimed:
            claimed.started()
            if claimed.job_id == jobs[0].job_id:
                home.cancel(claimed)
                wait_for(lambda job=claimed: job.lost, what="the worker to notice")  # type: ignore[misc]  # bound
                with pytest.raises(StoppedError):
                    claimed.progress()
                claimed.progress()
            claimed.completed()
            done.append(claimed.job_id)
    assert done == [jobs[1].job_id]
    assert statuses(home) == {jobs[0].job_id: "cancelled", jobs[1].job_id: "completed"}


def test_a_lease_is_renewed_while_the_worker_is_silent(home: Home) -> None:
    """A worker that says nothing for longer than its lease keeps its job."""
    job = home.register()
    with home.claim(lease_seconds=3) as claimed:
        claimed.started()
        first = home.job(job).lease
        assert first is not None
        wait_for(
            lambda: (home.job(job).lease or first).expires_at > first.expires_at,
            what="the renewal of the lease",
        )
        claimed.completed()


def test_a_loop_ends_when_it_is_told(home: Home) -> None:
    """Setting `stop` ends a worker that waits for jobs."""
    stop = threading.Event()
    worker = threading.Thread(target=lambda: list(home.work(stop=stop)))
    worker.start()
    stop.set()
    worker.join(60)
    assert not worker.is_alive()


def test_a_job_that_ended_elsewhere_is_nobodys_to_give_back(
    home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    """A last word by another process is a last word."""
    home.register()
    with home.claim() as claimed, home.publisher(claimed) as other:
        other.started()
        other.completed()
    assert home.job(claimed).status is Status.COMPLETED
    assert caplog.records == []
    with pytest.raises(ConflictError):
        claimed.progress()
    claimed.close()


def test_a_home_is_found_as_commands_find_theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a path it is the nearest one; without any, that is said."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotFoundError):
        Home(environ={})
    Home.make(".hermes").close()
    with Home(environ={}) as home:
        assert home.path == Path(".hermes")
        assert home.jobs() == []
