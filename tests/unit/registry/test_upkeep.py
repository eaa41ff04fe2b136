"""What is done by the clock: reaping with care, announcing, purging, health."""

import argparse
import errno
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobwire.core.clock import utc_timestamp
from jobwire.core.errors import (
    ConfigError,
    InvalidInputError,
    NotFoundError,
    NoWorkError,
    StorageError,
    UnreachableError,
)
from jobwire.core.lease import LeaseGrant
from jobwire.core.topics import Topics
from jobwire.jobs.lifecycle import Status
from jobwire.journal.retention import RetentionPolicy
from jobwire.registry import actions, health
from jobwire.registry.purge import Purge, RetentionRules, load_rules
from jobwire.registry.queue import JobQueue
from jobwire.registry.spec import JobSpec
from jobwire.registry.store import RecordStore
from jobwire.registry.upkeep import Reaper
from jobwire.storage import file_lock
from jobwire.storage.settings_file import mtls_port
from jobwire.testing import ManualClock

DAY = 86400.0


def _leased(queue: JobQueue) -> str:
    queue.register(JobSpec())
    return queue.pick(LeaseGrant("me", 60)).job_id


def _reaper(
    queue: JobQueue, clock: ManualClock, *, complete_until: Callable[[], float | None] | None = None
) -> Reaper:
    reaper = Reaper(queue=queue, complete_until=complete_until or clock.now, grace_seconds=10)
    reaper.broker_found()
    _run_for(reaper, clock, 10)
    return reaper


def _run_for(reaper: Reaper, clock: ManualClock, seconds: int) -> int:
    """Let the reaper look once a second; return how many jobs it moved on."""
    reaped = 0
    for _ in range(seconds):
        clock.advance(1)
        reaped += reaper.run()
    return reaped


def test_reaper_waits_for_the_fold(queue: JobQueue, clock: ManualClock) -> None:
    """A lease ran out when all that was received by its end is folded, whatever came since."""
    until = [clock.now()]
    reaper = _reaper(queue, clock, complete_until=lambda: until[0])
    job_id = _leased(queue)
    end = clock.now() + 60
    assert _run_for(reaper, clock, 100) == 0
    until[0] = end - 0.001
    assert reaper.run() == 0
    until[0] = end
    assert reaper.run() == 1
    record = queue.store.get(job_id)
    assert record.status is Status.PENDING
    assert record.updated_at == utc_timestamp(clock.now())


def test_reaper_waits_for_the_disk(queue: JobQueue, clock: ManualClock) -> None:
    """While nothing can be journaled, and just after that, no lease runs out."""
    stalled = [True]
    reaper = _reaper(queue, clock, complete_until=lambda: None if stalled[0] else clock.now())
    _leased(queue)
    assert _run_for(reaper, clock, 100) == 0
    stalled[0] = False
    assert _run_for(reaper, clock, 9) == 0
    assert _run_for(reaper, clock, 1) == 1


def test_reaper_distrusts_a_jumping_clock(
    queue: JobQueue, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A wall clock that jumps ahead takes no lease away at once."""
    reaper = _reaper(queue, clock)
    _leased(queue)
    clock.set_wall(clock.now() + 7200)
    assert reaper.run() == 0
    assert "jumped ahead" in caplog.text
    assert _run_for(reaper, clock, 299) == 0
    assert _run_for(reaper, clock, 2) == 1


def test_reaper_holds_while_the_broker_is_away(queue: JobQueue, clock: ManualClock) -> None:
    """No lease runs out before signs of life can arrive: not before the first connection, nor between two."""
    reaper = Reaper(queue=queue, complete_until=clock.now, grace_seconds=10)
    _leased(queue)
    assert _run_for(reaper, clock, 100) == 0
    reaper.broker_found()
    assert _run_for(reaper, clock, 9) == 0
    reaper.broker_lost()
    assert _run_for(reaper, clock, 100) == 0
    reaper.broker_found()
    assert _run_for(reaper, clock, 9) == 0
    assert _run_for(reaper, clock, 1) == 1


def test_reaper_that_stood_still_looks_again_first(queue: JobQueue, clock: ManualClock) -> None:
    """A process that was stopped past a lease's end takes in what came meanwhile before it reaps."""
    reaper = _reaper(queue, clock)
    _leased(queue)
    clock.advance(600)
    assert reaper.run() == 0
    assert _run_for(reaper, clock, 9) == 0
    assert _run_for(reaper, clock, 1) == 1


def test_reaper_beside_slow_duties(queue: JobQueue, clock: ManualClock) -> None:
    """Where every look comes late, because the process has much to do, leases still run out."""
    reaper = _reaper(queue, clock)
    _leased(queue)
    reaped = 0
    for _ in range(12):
        clock.advance(8)
        reaped += reaper.run()
    assert reaped == 1


def test_pick_leaves_reaping_to_the_process(queue: JobQueue, clock: ManualClock) -> None:
    """While a registry process runs, a pick does not take up jobs whose lease ran out."""
    job_id = _leased(queue)
    clock.advance(100)
    serving = file_lock.held(queue.store.lock_path("serve"), clock=clock, deadline_seconds=0, what="x")
    with serving, pytest.raises(NoWorkError):
        queue.pick(LeaseGrant("you"))
    assert queue.pick(LeaseGrant("you"), wait_seconds=10).job_id == job_id


@pytest.mark.parametrize("attempt", ["\N{SUPERSCRIPT TWO}", "1" * 5000, "one", ""])
def test_an_attempt_that_is_no_number_is_said(
    queue: JobQueue, attempt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a worker's environment says, what it should name is told."""
    monkeypatch.setenv("JOBWIRE_ATTEMPT", attempt)
    words = {
        "home": queue.store.home,
        "job": _leased(queue),
        "owner": None,
        "for_attempt": None,
        "lease": None,
    }
    with pytest.raises(InvalidInputError, match="who holds the lease"):
        actions.renew(argparse.Namespace(**words))


def _purge(queue: JobQueue, cleared: list[str], rules: RetentionRules) -> Purge:
    return Purge(queue=queue, topics=Topics(), clear=cleared.append, rules=rules)


def test_purge_by_age(queue: JobQueue, store: RecordStore, clock: ManualClock) -> None:
    """Finished jobs are cleared at the broker once, and removed later; unfinished ones never."""
    old = queue.register(JobSpec(idempotency_key="old")).record.job_id
    queue.cancel(old)
    clock.advance(8 * DAY)
    young = queue.register(JobSpec()).record.job_id
    queue.cancel(young)
    unfinished = queue.register(JobSpec()).record.job_id
    cleared: list[str] = []
    purge = _purge(queue, cleared, RetentionRules(7 * DAY, 30 * DAY))
    assert purge.run() == (1, 0)
    assert cleared == [Topics().events(old), Topics().state(old)]
    assert purge.run() == (0, 0)
    clock.advance(25 * DAY)
    assert purge.run() == (1, 1)
    assert not store.exists(old)
    assert not Path(store.log_dir(old)).exists()
    assert store.exists(young)
    assert store.exists(unfinished)
    assert queue.register(JobSpec(idempotency_key="old")).created
    assert sorted(record.job_id for record in queue.list(limit=9) if record.job_id != old)


def test_purge_without_a_broker(queue: JobQueue, store: RecordStore, clock: ManualClock) -> None:
    """Where nothing can be cleared, nothing is removed either."""
    job_id = queue.register(JobSpec()).record.job_id
    queue.cancel(job_id)
    clock.advance(100 * DAY)

    def away(_: str) -> None:
        raise UnreachableError("no broker")

    with pytest.raises(UnreachableError):
        Purge(queue=queue, topics=Topics(), clear=away, rules=RetentionRules()).run()
    assert store.exists(job_id)


def test_what_cannot_be_removed_whole_is_tried_again(
    queue: JobQueue, store: RecordStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A history that the disk does not let go keeps its record, by which the next purge finds it."""
    job_id = queue.register(JobSpec()).record.job_id
    queue.cancel(job_id)
    clock.advance(100 * DAY)
    unlink = os.unlink

    def stuck(path: Any, **where: Any) -> None:
        if path == "events.ndjson":
            raise OSError(errno.EIO, "input/output error", path)
        unlink(path, **where)

    with monkeypatch.context() as disk:
        disk.setattr(os, "unlink", stuck)
        assert _purge(queue, [], RetentionRules()).run().removed == 0
    assert store.exists(job_id)
    assert _purge(queue, [], RetentionRules()).run().removed == 1
    assert not Path(store.log_dir(job_id)).exists()


def test_what_somebody_else_removes_meanwhile_leaves_nothing_behind(
    queue: JobQueue, store: RecordStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is gone when its turn comes keeps none of the others."""
    job_id = queue.register(JobSpec()).record.job_id
    queue.cancel(job_id)
    for number in range(3):
        (Path(store.log_dir(job_id)) / f"{number}.receipt.md").touch()
    clock.advance(100 * DAY)
    unlink, gone = os.unlink, list[Any]()

    def race(path: Any, **where: Any) -> None:
        unlink(path, **where)
        if "receipt" in str(path) and not gone:
            gone.append(path)
            raise FileNotFoundError(errno.ENOENT, "no such file", path)

    monkeypatch.setattr(os, "unlink", race)
    assert _purge(queue, [], RetentionRules()).run().removed == 1
    assert (len(gone), Path(store.log_dir(job_id)).exists()) == (1, False)


def test_purge_nothing(queue: JobQueue, clock: ManualClock) -> None:
    """Rules of None keep for ever."""
    job_id = queue.register(JobSpec()).record.job_id
    queue.cancel(job_id)
    clock.advance(1000 * DAY)
    assert _purge(queue, [], RetentionRules(None, None)).run() == (0, 0)


def test_rules(tmp_path: Path) -> None:
    """Days come from the command line, else from jobwire.toml, else the defaults; 0 is for ever."""
    assert load_rules(tmp_path, retained_days=None, record_days=None) == RetentionRules()
    (tmp_path / "jobwire.toml").write_text("[registry]\nkeep_retained_days = 2\nkeep_records_days = 0\n")
    assert load_rules(tmp_path, retained_days=None, record_days=None) == RetentionRules(2 * DAY, None)
    assert load_rules(tmp_path, retained_days=1, record_days=3) == RetentionRules(DAY, 3 * DAY)


def test_journal_rules(tmp_path: Path) -> None:
    """How much of the journal is kept is a rule as well; 0 is no limit."""
    settings = tmp_path / "jobwire.toml"
    settings.write_text("[registry]\nkeep_journal_days = 0.5\nkeep_journal_mib = 2\n")
    rules = load_rules(tmp_path, retained_days=None, record_days=None)
    assert rules == RetentionRules(journal=RetentionPolicy(DAY / 2, 2 << 20))
    settings.write_text("[registry]\nkeep_journal_days = 0\nkeep_journal_mib = 0\n")
    rules = load_rules(tmp_path, retained_days=None, record_days=None)
    assert rules.journal.keep_seconds == float("inf")
    assert rules.journal.keep_bytes > 1 << 50


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[registry]\nkeep = 1\n", "'keep'"),
        ("[registry]\nkeep_journal_mib = true\n", "keep_journal_mib.*MiB"),
        ("[registry]\nkeep_journal_days = -1\n", "keep_journal_days"),
        ("[registry]\nkeep_records_days = -1\n", "keep_records_days"),
        ("[registry]\nkeep_records_days = 'x'\n", "keep_records_days"),
        ("registry = 1\n", "not a table"),
        ("[registry\n", "not valid TOML"),
    ],
)
def test_bad_rules(tmp_path: Path, text: str, named: str) -> None:
    """A settings file that is wrong is refused with the key."""
    (tmp_path / "jobwire.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_rules(tmp_path, retained_days=None, record_days=None)
    assert re.search(named, f"{caught.value.message} {caught.value.hint}")


def test_mtls_port(tmp_path: Path) -> None:
    """The port for certificates is the one that the home names."""
    assert mtls_port(tmp_path) is None
    (tmp_path / "jobwire.toml").write_text("[mtls]\nport = 8884\n")
    assert mtls_port(tmp_path) == 8884


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        (
            {"duties": {"recorder": {"doing": "recording", "seconds": 61.0, "stuck": True}}},
            "recorder.*recording",
        ),
        ({"duties": {"reaper": {"doing": "", "seconds": 1.0, "error": "no descriptors"}}}, "reaper.*no desc"),
        ({"lag": 7, "lag_seconds": 31.0, "offset": 3}, "folder.*offset 3.*7 entries"),
        ({"state": "starting", "lag": 7}, "starting.*7"),
        (
            {"put_off": {"count": 3, "jobs": {"0" * 8: "EIO"}}, "jobs": {"pending": 4, "running": 2}},
            "3 of 6.*EIO",
        ),
        ({"put_off": {"count": 3, "jobs": {"0" * 8: "EIO"}}, "jobs": {"pending": 7}}, ""),
        ({"put_off": [], "jobs": "nonsense"}, ""),
        ({"duties": "nonsense", "lag_seconds": "nonsense"}, ""),
    ],
)
def test_health_names_what_hangs(
    store: RecordStore, clock: ManualClock, facts: dict[str, object], told: str
) -> None:
    """A process that reports each second is not well for that: each of its duties has to get on."""
    store.make_layout()
    health.write(store, {"state": "running", "pid": 7, "connected": True, "stalled": False, **facts})
    with file_lock.held(store.lock_path("serve"), clock=clock, deadline_seconds=0, what="x"):
        wrong = health.verdict(health.read(store), clock)
    assert (wrong is None) == (not told)
    assert wrong is None or (isinstance(wrong, StorageError) and re.search(told, wrong.message))


def test_health(store: RecordStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thing that can be wrong with the process is told apart, by exit code and words."""
    store.make_layout()
    with pytest.raises(NotFoundError, match="no registry process"):
        health.read(store)
    good = {"state": "running", "pid": 7, "connected": True, "stalled": False}
    health.write(store, good)
    wrong = health.verdict(health.read(store), clock)
    assert isinstance(wrong, StorageError)
    assert "not running" in wrong.message
    with file_lock.held(store.lock_path("serve"), clock=clock, deadline_seconds=0, what="x"):
        assert health.verdict(health.read(store), clock) is None
        health.write(store, {**good, "connected": False})
        assert isinstance(health.verdict(health.read(store), clock), UnreachableError)
        health.write(store, {**good, "stalled": True})
        full = health.verdict(health.read(store), clock)
        assert full is not None
        assert "full" in full.message
        health.write(store, good)
        clock.advance(60)
        hanging = health.verdict(health.read(store), clock)
        assert hanging is not None
        assert "has not reported" in hanging.message
        monkeypatch.setattr(health, "_free_bytes", lambda _: 0)
        full = health.verdict(health.read(store), clock)
        assert full is not None
        assert "full" in full.message
        Path(store.home, "serve.json").write_text("garbage")
        assert health.verdict(health.read(store), clock) is not None
