"""The queue's operations, one promise each."""

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from jobwire.core.bounds import MAX_ATTEMPTS
from jobwire.core.clock import utc_timestamp
from jobwire.core.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    NoWorkError,
    StoppedError,
    TransitionError,
)
from jobwire.core.lease import Lease, LeaseGrant
from jobwire.jobs.event import Event
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import JobRecord, Priority, Timeouts, dismissed_at
from jobwire.registry import queue as queue_module
from jobwire.registry import reaper
from jobwire.registry.queue import JobQueue
from jobwire.registry.spec import Change, Expectation, JobSpec
from jobwire.registry.store import RecordStore
from jobwire.testing import ManualClock

ME = LeaseGrant("me", 60)
Say = Callable[..., tuple[Event, bytes]]


def _add(queue: JobQueue, **fields: object) -> JobRecord:
    return queue.register(JobSpec(**fields)).record  # type: ignore[arg-type]  # given by name below


def test_register_writes_everything(queue: JobQueue, store: RecordStore) -> None:
    """A registered job has its record, its history and its meta.json."""
    record = _add(queue, title="t", instructions="do\nit", timeouts=Timeouts(1, 2, 3), max_attempts=4)
    assert store.get(record.job_id) == record
    assert record.status is Status.PENDING
    assert len(record.auth_token) >= 43
    meta = json.loads((Path(store.log_dir(record.job_id)) / "meta.json").read_text())
    assert (meta["title"], meta["instructions"]) == ("t", "do\nit")


def test_register_is_idempotent_by_key(queue: JobQueue) -> None:
    """The same key names the same job, also when it is finished."""
    first = queue.register(JobSpec(title="t", idempotency_key="k"))
    again = queue.register(JobSpec(title="t", idempotency_key="k"))
    queue.cancel(first.record.job_id)
    after = queue.register(JobSpec(title="t", idempotency_key="k"))
    assert (first.created, again.created, after.created) == (True, False, False)
    assert first.record.job_id == again.record.job_id == after.record.job_id
    assert after.record.status is Status.CANCELLED


def test_unique_session(queue: JobQueue) -> None:
    """A session that asks to be unique has one unfinished job at most."""
    spec = JobSpec(agent_session="a", unique_session=True)
    first = queue.register(spec)
    assert not queue.register(spec).created
    assert queue.register(JobSpec(agent_session="b", unique_session=True)).created
    queue.pick(ME, agent_session="a")
    assert not queue.register(spec).created
    queue.cancel(first.record.job_id)
    assert queue.register(spec).created


def test_pick_order(queue: JobQueue) -> None:
    """High before normal before low, and the oldest first within each."""
    ids = [
        _add(queue, priority=priority).job_id
        for priority in (Priority.LOW, Priority.NORMAL, Priority.HIGH, Priority.NORMAL, Priority.HIGH)
    ]
    assert [queue.pick(ME).job_id for _ in ids] == [ids[2], ids[4], ids[1], ids[3], ids[0]]
    with pytest.raises(NoWorkError):
        queue.pick(ME)


def test_pick_order_with_the_clock_set_back(queue: JobQueue, clock: ManualClock) -> None:
    """Jobs registered after the clock was set back still come after the earlier ones."""
    first = _add(queue).job_id
    clock.set_wall(clock.now() - 7200)
    second = _add(queue).job_id
    queue.reindex()
    assert [queue.pick(ME).job_id for _ in range(2)] == [first, second]


def test_pick_matches_the_session(queue: JobQueue) -> None:
    """Addressed jobs go to their session, others to anybody; nobody takes what is addressed elsewhere."""
    _add(queue, agent_session="a")
    with pytest.raises(NoWorkError) as caught:
        queue.pick(ME)
    assert "--any-session" in caught.value.hint
    with pytest.raises(NoWorkError):
        queue.pick(ME, agent_session="b")
    free = _add(queue)
    assert queue.pick(ME, agent_session="a").agent_session == "a"
    assert queue.pick(ME, agent_session="b").job_id == free.job_id
    _add(queue, agent_session="c")
    assert queue.pick(ME, any_session=True).agent_session == "c"


def test_pick_claims(queue: JobQueue, store: RecordStore, clock: ManualClock) -> None:
    """A picked job is running and leased to its owner."""
    job_id = _add(queue).job_id
    record = queue.pick(ME)
    assert record == store.get(job_id)
    assert record.status is Status.RUNNING
    assert record.lease is not None
    assert record.lease.owner == "me"


def test_claim_takes_the_named_job(queue: JobQueue, store: RecordStore, clock: ManualClock) -> None:
    """A claim takes that very job, to whomever it is addressed and whatever is before it, as a pick would."""
    first, named = _add(queue, priority=Priority.HIGH), _add(queue, agent_session="b", priority=Priority.LOW)
    claimed = queue.claim(named.job_id, LeaseGrant("me", 60.0))
    assert claimed == store.get(named.job_id)
    assert (claimed.status, claimed.attempt, claimed.lease) == (
        Status.RUNNING,
        1,
        Lease("me", utc_timestamp(clock.now() + 60.0), 60.0),
    )
    assert store.audit(named.job_id).tail(1)[0]["cause"] == "claimed by me"
    assert queue.pick(ME).job_id == first.job_id
    with pytest.raises(NoWorkError):
        queue.pick(ME, any_session=True)


def test_claim_of_what_is_not_pending(queue: JobQueue, clock: ManualClock) -> None:
    """A job that somebody holds, that is finished, rests, or was never there, is refused with what it is."""
    held = queue.claim(_add(queue).job_id, ME)
    with pytest.raises(ConflictError, match=f"running, held by {ME.owner} until") as caught:
        queue.claim(held.job_id, LeaseGrant("other"))
    assert caught.value.facts == {"status": "running", "owner": ME.owner}
    queue.cancel(held.job_id)
    with pytest.raises(ConflictError, match="already cancelled"):
        queue.claim(held.job_id, ME)
    resting = queue.claim(_add(queue).job_id, LeaseGrant("me", 60.0)).job_id
    clock.sleep(61.0)
    queue.reap()
    with pytest.raises(ConflictError, match="rests until") as caught:
        queue.claim(resting, ME)
    assert "--status pending" in caught.value.hint
    clock.sleep(5.0)
    assert queue.claim(resting, ME).attempt == 2
    with pytest.raises(NotFoundError):
        queue.claim("00000000", ME)
    with pytest.raises(InvalidInputError):
        queue.claim(_add(queue).job_id, LeaseGrant("me", -1.0))


def test_one_of_many_claims_wins(queue: JobQueue, store: RecordStore) -> None:
    """Of eight threads that claim one job one gets it, the others are refused."""
    job_id = _add(queue).job_id
    won: list[str] = []
    lost: list[str] = []
    # In real time: the fixture's clock lets whoever waits for a lock pass its deadline at once.
    here = RecordStore(store.home)

    def claim(owner: str) -> None:
        try:
            JobQueue(here, warn=print).claim(job_id, LeaseGrant(owner))
            won.append(owner)
        except ConflictError:
            lost.append(owner)

    threads = [threading.Thread(target=claim, args=(str(number),)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(lost)) == (1, 7)
    lease = store.get(job_id).lease
    assert lease is not None
    assert won == [lease.owner]


def test_pick_waits(queue: JobQueue, clock: ManualClock) -> None:
    """With --wait the answer `no work` comes after that time, measured on the monotonic clock."""
    before = clock.monotonic()
    with pytest.raises(NoWorkError):
        queue.pick(ME, wait_seconds=5)
    assert clock.monotonic() - before == pytest.approx(5)


def test_pick_takes_up_a_lost_lease(queue: JobQueue, clock: ManualClock) -> None:
    """A job whose worker fell silent is picked again as the next attempt under another token."""
    _add(queue)
    first = queue.pick(ME)
    clock.advance(60)
    second = queue.pick(LeaseGrant("you", 60), wait_seconds=60)
    assert second.job_id == first.job_id
    assert second.attempt == 2
    assert second.auth_token != first.auth_token


def test_lost_leases_wait_longer_each_time(queue: JobQueue, clock: ManualClock) -> None:
    """After a lost lease a job rests for 5, 10, 20, ... s; a waiting pick gets it then, not before."""
    _add(queue, max_attempts=9)
    queue.pick(ME)
    for pause in (5, 10, 20, 40):
        clock.advance(60)
        queue.reap()
        with pytest.raises(NoWorkError, match="no pending job") as caught:
            queue.pick(ME)
        assert "1 pending job(s) rest after a lost lease" in caught.value.hint
        before = clock.monotonic()
        queue.pick(ME, wait_seconds=600)
        assert clock.monotonic() - before == pytest.approx(pause, abs=1.0)


def test_a_resting_job_lets_others_pass(queue: JobQueue, clock: ManualClock) -> None:
    """Pick passes over what rests, also after the index was made again, and takes it when it has rested."""
    resting = _add(queue, priority=Priority.HIGH).job_id
    queue.pick(ME)
    clock.advance(60)
    other = _add(queue, priority=Priority.LOW).job_id
    queue.reap()
    queue.reindex()
    assert queue.pick(ME).job_id == other
    clock.advance(5)
    assert queue.pick(ME).job_id == resting
    assert queue.store.get(resting).not_before is None


def test_attempts_have_a_limit_unasked(queue: JobQueue, clock: ManualClock) -> None:
    """A job that loses every lease ends in error after five attempts, where registration says no other."""
    job_id = _add(queue).job_id
    for _ in range(5):
        queue.pick(ME, wait_seconds=600)
        clock.advance(60)
        queue.reap()
    record = queue.store.get(job_id)
    assert (record.status, record.attempt, record.max_attempts) == (Status.ERROR, 5, 5)
    assert "5 attempts are the limit" in record.detail


def test_retry_by_a_person(queue: JobQueue) -> None:
    """A retry of the last attempt allowed is one attempt more, at once, and not the end of the job."""
    job_id = _add(queue, max_attempts=1).job_id
    queue.pick(ME)
    record = queue.update(job_id, Change(), status=Status.PENDING, reason="retry")
    assert (record.status, record.attempt, record.max_attempts) == (Status.PENDING, 2, 2)
    assert queue.pick(ME).job_id == job_id


def test_retry_ends_a_rest(queue: JobQueue, clock: ManualClock) -> None:
    """A person need not wait for a job that rests after a lost lease."""
    job_id = _add(queue).job_id
    queue.pick(ME)
    clock.advance(60)
    queue.reap()
    assert queue.update(job_id, Change(), status=Status.PENDING).attempt == 2
    assert queue.pick(ME).job_id == job_id


@pytest.mark.parametrize("status", [Status.ERROR, Status.CANCELLED, Status.PENDING])
def test_retry_that_cannot_be(queue: JobQueue, status: Status) -> None:
    """A retry that the lifecycle forbids is refused with what to do instead."""
    job_id = _add(queue).job_id
    if status is Status.CANCELLED:
        queue.cancel(job_id)
    elif status is Status.ERROR:
        queue.pick(ME)
        queue.update(job_id, Change(), status=Status.ERROR)
    with pytest.raises(TransitionError) as caught:
        queue.update(job_id, Change(), status=Status.PENDING)
    assert str(status) in caught.value.message
    assert ("registry pick" if status is Status.PENDING else "registry register") in caught.value.hint


def test_retries_have_a_limit_too(queue: JobQueue) -> None:
    """Nobody, not even a person, makes a record grow without end."""
    job_id = _add(queue, max_attempts=MAX_ATTEMPTS).job_id
    with queue.store.locked(job_id) as locked:
        locked.replace(locked.record._replace(attempt=MAX_ATTEMPTS), cause="test")
    queue.pick(ME)
    with pytest.raises(TransitionError, match="1000"):
        queue.update(job_id, Change(), status=Status.PENDING)


def test_pick_leaves_a_stale_row(queue: JobQueue, store: RecordStore) -> None:
    """A row that is behind its record does not give the job away twice."""
    job_id = _add(queue).job_id
    with queue.index() as index:
        pending = store.get(job_id)
    queue.pick(ME)
    with queue.index() as index:
        index.put(pending)
    with pytest.raises(NoWorkError):
        queue.pick(ME)


def test_pick_passes_over_a_torn_record(queue: JobQueue, store: RecordStore, warnings: list[str]) -> None:
    """A record that cannot be read is reported and the next job is picked."""
    torn, good = _add(queue).job_id, _add(queue).job_id
    with queue.index():
        pass
    Path(store.record_path(torn)).write_bytes(b"{")
    assert queue.pick(ME).job_id == good
    assert len(warnings) == 1
    assert torn in warnings[0]


def test_renew(queue: JobQueue, clock: ManualClock) -> None:
    """The holder, by name or by attempt, extends its lease; nobody else does."""
    job_id = _add(queue).job_id
    queue.pick(ME)
    clock.advance(50)
    queue.renew(job_id, seconds=60, owner="me")
    queue.renew(job_id, seconds=60, attempt=1)
    clock.advance(50)
    assert queue.reap() == []
    for wrong in ({"owner": "you"}, {"attempt": 2}):
        with pytest.raises(StoppedError):
            queue.renew(job_id, seconds=60, **wrong)


def test_renew_extends_by_what_was_granted(queue: JobQueue, clock: ManualClock) -> None:
    """A renewal that names no length grants the same again; one that does grants that from then on."""
    job_id = _add(queue).job_id
    queue.pick(LeaseGrant("me", 3600))
    clock.advance(1000)
    assert queue.renew(job_id, owner="me").lease == Lease("me", utc_timestamp(clock.now() + 3600), 3600)
    assert queue.renew(job_id, owner="me", seconds=20).lease == queue.renew(job_id, attempt=1).lease


def test_question_moves_the_limits(queue: JobQueue, clock: ManualClock, say: Say) -> None:
    """A job that asks is not reaped while it waits; when it goes on, its idle limit is found again."""
    record = _add(queue, timeouts=Timeouts(idle_seconds=50))
    for seq, kind in enumerate(["started", "permission_required"], 1):
        queue.store.apply(record.job_id, *say(record, seq, kind), source="publisher")
    clock.advance(3600)
    assert queue.reap() == []
    queue.store.apply(record.job_id, *say(record, 3, "progress"), source="publisher")
    clock.advance(50)
    assert [item.cause for item in queue.reap()] == ["idle timeout: no event for 50 s"]


def test_shortened_lease_is_found(queue: JobQueue, clock: ManualClock) -> None:
    """A lease that its holder cut short ends at the new time."""
    job_id = _add(queue).job_id
    queue.pick(ME)
    queue.renew(job_id, seconds=5, owner="me")
    clock.advance(5)
    assert [item.record.job_id for item in queue.reap()] == [job_id]


def test_release(queue: JobQueue) -> None:
    """A released job is pending again under a new token; the old holder is out."""
    job_id = _add(queue).job_id
    first = queue.pick(ME)
    with pytest.raises(StoppedError):
        queue.release(job_id, owner="you")
    again = queue.release(job_id, owner="me", reason="no compiler")
    assert (again.status, again.attempt) == (Status.PENDING, 2)
    assert "no compiler" in again.detail
    assert again.auth_token != first.auth_token
    with pytest.raises(StoppedError):
        queue.release(job_id, owner="me")


def test_cancel_is_idempotent(queue: JobQueue, store: RecordStore) -> None:
    """Cancelling twice changes nothing the second time."""
    job_id = _add(queue).job_id
    assert queue.cancel(job_id, reason="no need")[1]
    record, changed = queue.cancel(job_id)
    assert not changed
    assert record.detail == "no need"
    assert len(list(store.audit(job_id).lines())) == 2


@pytest.mark.parametrize("reason", ["a\udcff", "two\nlines", "x" * 513, "\x1b[2J"])
def test_a_reason_is_one_printable_line(queue: JobQueue, reason: str) -> None:
    """What becomes the record's detail is checked where it comes in; nothing is changed."""
    job = _add(queue)
    held = queue.pick(ME)
    for change in (
        lambda: queue.cancel(job.job_id, reason=reason),
        lambda: queue.release(job.job_id, owner=ME.owner, reason=reason),
        lambda: queue.update(job.job_id, Change(), status=Status.ERROR, reason=reason),
    ):
        with pytest.raises(InvalidInputError, match="the reason"):
            change()
    assert queue.store.get(job.job_id) == held


def test_cancel_of_a_finished_job(queue: JobQueue) -> None:
    """A job that ended otherwise is not cancelled any more."""
    job_id = _add(queue).job_id
    queue.pick(ME)
    queue.update(job_id, Change(), status=Status.ERROR)
    with pytest.raises(ConflictError, match="error"):
        queue.cancel(job_id)


def _failed(queue: JobQueue) -> str:
    job_id = _add(queue, priority=Priority.HIGH).job_id
    queue.pick(ME)
    queue.update(job_id, Change(), status=Status.ERROR)
    return job_id


def test_dismiss_is_durable_and_idempotent(queue: JobQueue, store: RecordStore, clock: ManualClock) -> None:
    """A dismissed failure says when it was dismissed, changes in nothing else, and keeps the first time."""
    job_id = _failed(queue)
    before = store.get(job_id)
    record, changed = queue.dismiss(job_id)
    assert changed
    assert dismissed_at(record) == utc_timestamp(clock.now())
    assert dismissed_at(before) is None
    assert record._replace(extra=before.extra) == before
    clock.advance(5)
    assert queue.dismiss(job_id) == (record, False)
    assert store.get(job_id) == record


@pytest.mark.parametrize("end", ["pending", "cancelled"])
def test_only_failures_are_dismissed(queue: JobQueue, end: str) -> None:
    """A job that did not fail has nothing to dismiss, and the refusal says what it is."""
    job_id = _add(queue).job_id
    if end == "cancelled":
        queue.cancel(job_id)
    with pytest.raises(ConflictError, match=end):
        queue.dismiss(job_id)


def test_dismiss_all_failures(queue: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """All failures that count are dismissed at once, over several pages, and a second time there are none."""
    monkeypatch.setattr(queue_module, "_DISMISS_PAGE", 2)
    failed = {_failed(queue) for _ in range(5)}
    _add(queue)
    queue.dismiss(failed.pop())
    assert {record.job_id for record in queue.dismiss_failed()} == failed
    assert queue.dismiss_failed() == []


def test_the_index_knows_who_is_dismissed(queue: JobQueue) -> None:
    """A dismissal is in the index at once, and in an index that is made again."""
    dismissed, failed = _failed(queue), _failed(queue)
    queue.dismiss(dismissed)
    for _ in range(2):
        with queue.index() as index:
            assert index.failures(after="", limit=9) == [failed]
        queue.reindex()


def test_update_fields(queue: JobQueue) -> None:
    """Fields change, unnamed ones stay, and a new priority takes effect."""
    first, second = _add(queue, title="one").job_id, _add(queue, title="two").job_id
    record = queue.update(second, Change(priority=Priority.HIGH, wall_seconds=9))
    assert (record.title, record.timeouts.wall_seconds) == ("two", 9)
    assert queue.pick(ME).job_id == second
    assert queue.pick(ME).job_id == first


@pytest.mark.parametrize(
    "expect", [Expectation(status=Status.RUNNING), Expectation(seq=3), Expectation(attempt=2)]
)
def test_update_refusal_carries_the_present_state(queue: JobQueue, expect: Expectation) -> None:
    """A compare-and-set that finds another state changes nothing and says what it found."""
    job_id = _add(queue).job_id
    with pytest.raises(ConflictError) as caught:
        queue.update(job_id, Change(title="new"), expect=expect)
    present = caught.value.facts["present"]
    assert isinstance(present, dict)
    assert (present["status"], present["last_seq"], present["attempt"]) == ("pending", 0, 1)
    assert queue.store.get(job_id).title == ""


def test_update_status_follows_the_lifecycle(queue: JobQueue) -> None:
    """An update may not do what the lifecycle forbids, nor set what registration refuses."""
    job_id = _add(queue).job_id
    with pytest.raises(TransitionError):
        queue.update(job_id, Change(), status=Status.ERROR)
    with pytest.raises(InvalidInputError):
        queue.update(job_id, Change(title="a\nb"))
    queue.pick(ME)
    assert queue.update(job_id, Change(), status=Status.PENDING).attempt == 2


def test_list(queue: JobQueue) -> None:
    """Listing filters by status and session, newest first, up to a limit."""
    ids = [_add(queue, agent_session="a" if number % 2 else "b").job_id for number in range(6)]
    queue.cancel(ids[0])
    assert [record.job_id for record in queue.list()] == ids[::-1]
    assert [record.job_id for record in queue.list(limit=2)] == [ids[5], ids[4]]
    assert [record.job_id for record in queue.list(statuses=[Status.CANCELLED])] == [ids[0]]
    assert [record.job_id for record in queue.list(agent_session="a")] == [ids[5], ids[3], ids[1]]
    assert queue.counts() == {"cancelled": 1, "pending": 5}


def test_list_pages_over_stale_rows(queue: JobQueue, store: RecordStore) -> None:
    """More rows than a page are listed."""
    ids = [_add(queue).job_id for _ in range(3)]
    record = store.get(ids[0])
    with queue.index() as index:
        for number in range(401):
            index.put(record._replace(job_id=f"{number:08x}"))
    assert len(queue.list(limit=1000)) == 3


def test_empty_home(tmp_path: Path) -> None:
    """Looking at a home that does not exist shows nothing and creates nothing."""
    queue = JobQueue(RecordStore(tmp_path / "none"), warn=print)
    assert queue.list() == []
    assert queue.counts() == {}
    assert not (tmp_path / "none").exists()
    with pytest.raises(NotFoundError):
        queue.cancel("00000000")


def test_reap_reports(queue: JobQueue, clock: ManualClock) -> None:
    """Every job that ran out of time is moved on once and reported with its cause."""
    waiting = _add(queue, timeouts=Timeouts(pending_seconds=5)).job_id
    running = _add(queue, priority=Priority.HIGH, timeouts=Timeouts(wall_seconds=5)).job_id
    queue.pick(ME)
    clock.advance(5)
    after = {item.record.job_id: item.record.status for item in queue.reap()}
    assert after == {waiting: Status.CANCELLED, running: Status.ERROR}
    assert queue.reap() == []


def test_many_overdue_jobs(queue: JobQueue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """More jobs than a page are reaped in one go."""
    monkeypatch.setattr(reaper, "_PAGE", 3)
    for _ in range(7):
        _add(queue, timeouts=Timeouts(pending_seconds=5))
    clock.advance(5)
    assert len(queue.reap()) == 7
