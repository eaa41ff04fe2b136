"""`job_subscriber` as a process: every verdict, on both brokers, with workers that really publish."""

import json
import time
from pathlib import Path

import pytest

from jobwire.jobs.record import Timeouts
from jobwire.testing import BrokerProcess, EmbeddedServer
from jobwire.testing.watching import JobHouse, Watcher


def test_success(broker: BrokerProcess) -> None:
    """Started before the job: all events once, in order, verdict completed, exit code 0."""
    house = JobHouse(broker.home)
    job = house.register(title="a build")
    with Watcher(broker.home, "--job", job, "--wall-timeout", "60") as watcher, house.worker(job) as worker:
        watcher.wait_until_watching()
        worker.started("go")
        worker.progress("half", percent=50)
        worker.completed("fine", files=3)
        assert watcher.wait() == 0, watcher.errors()
        assert watcher.events() == [(1, "started"), (2, "progress"), (3, "completed")]
        assert watcher.verdicts() == {job: "completed"}
        assert watcher.lines()[2]["data"] == {"files": 3}
        assert "hmac_sig" not in watcher.out.read_text()
        assert house.record(job).auth_token not in watcher.out.read_text() + watcher.errors()


def test_error(broker: BrokerProcess) -> None:
    """Started in the middle of a job that fails: what comes from then on, exit code 1 with the reason."""
    house = JobHouse(broker.home)
    job = house.register()
    with house.worker(job) as worker:
        worker.started()
        worker.progress("one")
        with Watcher(broker.home, "--job", job, "--wall-timeout", "60") as watcher:
            watcher.wait_until_watching()
            worker.progress("two")
            watcher.wait_for_event(3)
            worker.error("no disk")
            assert watcher.wait() == 1
            assert watcher.events() == [(3, "progress"), (4, "error")]
            assert "error: no disk" in watcher.errors()


def test_finished_before(broker: BrokerProcess) -> None:
    """A job that had ended gives its last event and verdict at once."""
    house = JobHouse(broker.home)
    job = house.register()
    with house.worker(job) as worker:
        worker.started()
        worker.completed("done before")
    with Watcher(broker.home, "--job", job) as watcher:
        assert watcher.wait() == 0
        assert watcher.events() == [(2, "completed")]
        assert watcher.lines()[0]["detail"] == "done before"


@pytest.mark.parametrize("which", ["idle", "wall", "pending"])
def test_timeouts_of_the_command_line(broker: BrokerProcess, which: str) -> None:
    """Each timeout is exit code 2, and stderr says which one it was."""
    house = JobHouse(broker.home)
    job = house.register()
    if which != "pending":
        with house.worker(job) as worker:
            worker.started()
    began = time.monotonic()
    with Watcher(broker.home, "--job", job, f"--{which}-timeout", "1") as watcher:
        assert watcher.wait() == 2
        assert time.monotonic() - began >= 1
        assert watcher.verdicts() == {job: f"{which}_timeout"}
        assert f"{which} timeout" in watcher.errors()


def test_timeouts_of_the_record(broker: BrokerProcess) -> None:
    """Without options the record's limits hold; an option replaces its own."""
    house = JobHouse(broker.home)
    job = house.register(timeouts=Timeouts(wall_seconds=1, pending_seconds=600))
    with Watcher(broker.home, "--job", job) as watcher:
        assert watcher.wait() == 2
        assert watcher.verdicts() == {job: "wall_timeout"}
    with Watcher(broker.home, "--job", job, "--wall-timeout", "none", "--pending-timeout", "1") as watcher:
        assert watcher.wait() == 2
        assert watcher.verdicts() == {job: "pending_timeout"}


def test_permission_pauses_idle(broker: BrokerProcess) -> None:
    """While the job asks, idle stands still; with --strict-idle it does not."""
    house = JobHouse(broker.home)
    job = house.register()
    limits = ("--idle-timeout", "1.5", "--wall-timeout", "4")
    with house.worker(job) as worker:
        worker.started()
        worker.permission_required("may I?")
    with (
        Watcher(broker.home, "--job", job, *limits) as patient,
        Watcher(broker.home, "--job", job, *limits, "--strict-idle") as strict,
    ):
        assert strict.wait() == 2
        assert strict.verdicts() == {job: "idle_timeout"}
        assert patient.wait() == 2
        assert patient.verdicts() == {job: "wall_timeout"}


def test_cancelled(broker: BrokerProcess) -> None:
    """A job cancelled while it is watched is exit code 3 with the reason."""
    house = JobHouse(broker.home)
    job = house.register()
    with house.worker(job) as worker, Watcher(broker.home, "--job", job) as watcher:
        watcher.wait_until_watching()
        worker.started()
        watcher.wait_for_event(1)
        house.queue.cancel(job, reason="no longer needed")
        assert watcher.wait() == 3
        assert watcher.verdicts() == {job: "cancelled"}
        assert "no longer needed" in watcher.errors()


def test_claimed_again(broker: BrokerProcess) -> None:
    """A job that another worker takes over is watched on under its new key, to its end."""
    house = JobHouse(broker.home)
    job = house.register()
    house.claim(job)
    with Watcher(broker.home, "--job", job, "--wall-timeout", "60") as watcher:
        watcher.wait_until_watching()
        with house.worker(job) as old:
            old.started()
        watcher.wait_for_event(1)
        house.queue.release(job, owner="test", reason="too slow")
        with house.worker(job) as new:
            new.started("again")
            new.completed("second attempt")
        assert watcher.wait() == 0, watcher.errors()
        assert watcher.events() == [(1, "started"), (2, "started"), (3, "completed")]
        assert "claimed again" in watcher.errors()


def test_several_jobs(broker: BrokerProcess) -> None:
    """All: the worst code counts. Any: the first one ends it. Fail-fast: the first bad one does."""
    house = JobHouse(broker.home)
    good, bad, slow = (house.register(title=title) for title in ("good", "bad", "slow"))
    three = ("--job", good, "--job", bad, "--job", slow, "--wall-timeout", "60")
    with (
        Watcher(broker.home, *three) as everything,
        Watcher(broker.home, *three, "--any") as any_one,
        Watcher(broker.home, *three, "--fail-fast") as fast,
    ):
        for watcher in (everything, any_one, fast):
            watcher.wait_until_watching()
        with house.worker(good) as worker:
            worker.started()
            worker.completed()
        assert any_one.wait() == 0
        assert any_one.verdicts() == {good: "completed"}
        assert fast.process.poll() is None
        with house.worker(bad) as worker:
            worker.started()
            worker.error("broken")
        assert fast.wait() == 1
        assert fast.verdicts() == {good: "completed", bad: "error"}
        house.queue.cancel(slow)
        assert everything.wait() == 1
        assert everything.verdicts() == {good: "completed", bad: "error", slow: "cancelled"}


def test_all_jobs(fresh_broker: BrokerProcess) -> None:
    """--all watches what is open and what appears; what had ended before does not count."""
    house = JobHouse(fresh_broker.home)
    ended = house.register()
    house.queue.cancel(ended)
    first = house.register()
    with (
        Watcher(fresh_broker.home, "--all", "--wall-timeout", "60") as watcher,
        house.worker(first) as worker,
    ):
        watcher.wait_until_watching()
        worker.started()
        watcher.wait_for_event(1)
        second = house.register()
        with house.worker(second) as other:
            other.started()
            other.completed("appeared")
        worker.completed()
        assert watcher.wait() == 0, watcher.errors()
        assert watcher.verdicts() == {first: "completed", second: "completed"}
        of_second = [line["seq"] for line in watcher.lines() if line["job_id"] == second and "seq" in line]
        assert of_second == [1, 2]


def test_interrupted(broker: BrokerProcess) -> None:
    """Ctrl-C is exit code 130 without a traceback; the job is not touched."""
    house = JobHouse(broker.home)
    job = house.register()
    with house.worker(job) as worker, Watcher(broker.home, "--job", job) as watcher:
        watcher.wait_until_watching()
        worker.started()
        watcher.wait_for_event(1)
        watcher.interrupt()
        assert watcher.wait() == 130
        assert "Traceback" not in watcher.errors()
        assert house.record(job).status == "running"


def test_a_corrupt_record(broker: BrokerProcess) -> None:
    """A record torn in half is exit code 50 and says where it was put."""
    house = JobHouse(broker.home)
    job = house.register()
    path = Path(house.store.record_path(job))
    path.write_bytes(path.read_bytes()[:100])
    try:
        with Watcher(broker.home, "--job", job, "--json") as watcher:
            assert watcher.wait() == 50
            assert json.loads(watcher.errors())["exit_code"] == 50
            assert "quarantine" in watcher.errors()
    finally:
        path.unlink()  # a watcher moves nothing, and the broker's home is shared with other tests


def test_wrong_password(broker: BrokerProcess, tmp_path: Path) -> None:
    """A refused login is exit code 70 with cause and remedy, at once."""
    house = JobHouse(broker.home)
    job = house.register()
    password = tmp_path / "password"
    password.touch(0o600)
    password.write_text("wrong\n")
    with Watcher(
        broker.home, "--job", job, "--username", "hermes", "--password-file", str(password)
    ) as watcher:
        assert watcher.wait() == 70
        assert "hint:" in watcher.errors()
        assert "'hermes'" in watcher.errors()


def test_a_role_that_may_not_read(embedded_broker: EmbeddedServer) -> None:
    """A refused subscription is exit code 70 (Mosquitto grants it and then sends nothing)."""
    home = embedded_broker.home
    job = JobHouse(home).register()
    words = ("--username", "claude-worker", "--password-file", str(home / "passwords" / "claude-worker"))
    with Watcher(home, "--job", job, *words, "--wall-timeout", "20") as watcher:
        assert watcher.wait() == 70
        assert "access list" in watcher.errors()


def test_readable_lines_without_a_terminal(broker: BrokerProcess) -> None:
    """--format line works in a pipe: no colours, nothing cut."""
    house = JobHouse(broker.home)
    job = house.register()
    with house.worker(job) as worker:
        worker.started()
        worker.completed("x" * 300)
    with Watcher(broker.home, "--job", job, "--format", "line") as watcher:
        assert watcher.wait() == 0
        assert "x" * 300 in watcher.out.read_text()
        assert "\x1b" not in watcher.out.read_text()
