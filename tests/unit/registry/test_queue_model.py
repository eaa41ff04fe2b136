"""The queue against a ten-line model, over random interleavings."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from jobwire.core.clock import utc_timestamp
from jobwire.core.errors import JobwireError, NoWorkError
from jobwire.core.lease import LeaseGrant
from jobwire.core.override import override
from jobwire.jobs.event import compose, encode_signed
from jobwire.jobs.record import Priority
from jobwire.registry.queue import JobQueue
from jobwire.registry.spec import Change, JobSpec
from jobwire.registry.store import RecordStore
from jobwire.testing import ManualClock
from jobwire.testing.memory import memory_directory

_RANKS = [Priority.HIGH, Priority.NORMAL, Priority.LOW]


class Model:
    """What the registry must say: jobs in order of registration, as [rank, status, attempt, seq].

    `rests` holds until when a job that lost its lease is not picked, in epoch seconds.
    """

    def __init__(self) -> None:
        self.jobs: dict[str, list[object]] = {}
        self.rests: dict[str, float] = {}

    def next(self, now: float) -> str | None:
        """Return the pending job of the highest rank that was registered first."""
        pending = [
            (job[0], n, id_)
            for n, (id_, job) in enumerate(self.jobs.items())
            if job[1] == "pending" and self.rests.get(id_, now) <= now
        ]
        return min(pending)[2] if pending else None


class QueueMachine(RuleBasedStateMachine):
    """Random operations on a real directory, each mirrored in the model."""

    jobs = Bundle("jobs")

    @initialize()
    def begin(self) -> None:
        """Start with an empty home."""
        self.folder = tempfile.TemporaryDirectory(dir=memory_directory())
        self.clock = ManualClock()
        self.set_back = 0
        self.store = RecordStore(Path(self.folder.name) / "home", clock=self.clock)
        self.queue = JobQueue(self.store, warn=pytest.fail)
        self.model = Model()

    @override
    def teardown(self) -> None:
        """Remove the home."""
        self.queue.close()
        self.folder.cleanup()

    @rule(target=jobs, rank=st.integers(0, 2), key=st.sampled_from([None, "a", "b"]))
    def register(self, rank: int, key: str | None) -> str:
        """Register, sometimes under a key that is taken."""
        made = self.queue.register(JobSpec(priority=_RANKS[rank], idempotency_key=key))
        if made.created:
            self.model.jobs[made.record.job_id] = [rank, "pending", 1, 0]
        return made.record.job_id

    @rule()
    def pick(self) -> None:
        """Pick what the model says comes next."""
        wanted = self.model.next(self.clock.now())
        try:
            got = self.queue.pick(LeaseGrant("me", 60)).job_id
        except NoWorkError:
            got = None
        assert got == wanted
        if got is not None:
            self.model.jobs[got][1] = "running"

    @rule()
    def time_passes(self) -> None:
        """Let a job rest for some seconds."""
        self.clock.advance(4)

    @rule(job=jobs, kind=st.sampled_from(["started", "progress", "completed", "error"]))
    def say(self, job: str, kind: str) -> None:
        """Let the worker say something, whether it fits or not."""
        record = self.store.get(job)
        stamp = utc_timestamp(self.clock.now())
        event = compose(seq=record.last_seq + 1, job_id=job, event=kind, timestamp=stamp, detail="", data={})
        model = self.model.jobs[job]
        first = record.last_seq == record.attempt_seq
        legal = model[1] in {"pending", "running"} and (kind == "started") == first
        try:
            self.store.apply(job, event, encode_signed(event, record.auth_token), source="test")
        except JobwireError:
            assert not legal
        else:
            assert legal
            model[1] = {"completed": "completed", "error": "error"}.get(kind, "running")
            model[3] = event.seq

    @rule(job=jobs)
    def cancel(self, job: str) -> None:
        """Cancel: refused only where the job ended otherwise."""
        model = self.model.jobs[job]
        try:
            self.queue.cancel(job)
        except JobwireError:
            assert model[1] in {"completed", "error"}
        else:
            model[1] = "cancelled"

    @rule(job=jobs)
    def release(self, job: str) -> None:
        """Release: only a leased job."""
        model = self.model.jobs[job]
        lease = self.store.get(job).lease
        try:
            self.queue.release(job, owner=str(lease.owner if lease else "me"))
        except JobwireError:
            assert model[1] != "running" or self.store.get(job).lease is None
        else:
            self._next_attempt(model)
            self.model.rests.pop(job, None)

    @rule(job=jobs, rank=st.integers(0, 2))
    def change_priority(self, job: str, rank: int) -> None:
        """Give another priority."""
        self.queue.update(job, Change(priority=_RANKS[rank]))
        self.model.jobs[job][0] = rank

    @rule()
    def leases_run_out(self) -> None:
        """Let an hour pass (and what the clock was set back: leases end by the wall clock) and reap."""
        self.clock.advance(3600 + self.set_back)
        self.set_back = 0
        for item in self.queue.reap():
            model = self.model.jobs[item.record.job_id]
            assert model[1] == "running"
            pause = 5.0 * 2 ** (int(str(model[2])) - 1)
            if self._next_attempt(model):
                self.model.rests[item.record.job_id] = self.clock.now() + pause
        leased = [job for job in self.model.jobs if self.store.get(job).lease is not None]
        assert leased == []

    def _next_attempt(self, model: list[object]) -> bool:
        """Move the job on; tell whether it had attempts left."""
        attempt = int(str(model[2]))
        left = attempt < 5
        model[1:3] = ["pending", attempt + 1] if left else ["error", attempt]
        return left

    @rule(back=st.integers(1, 10_000))
    def clock_set_back(self, back: int) -> None:
        """Set the wall clock back."""
        self.clock.set_wall(self.clock.now() - back)
        self.set_back += back

    @rule()
    def index_lost(self) -> None:
        """Lose the index."""
        self.queue.close()
        for path in (Path(self.store.home) / "queue").glob("pending*"):
            path.unlink()

    @rule()
    def another_process(self) -> None:
        """Go on with another queue object."""
        self.queue.close()
        self.queue = JobQueue(self.store, warn=pytest.fail)

    @invariant()
    def records_are_as_the_model_says(self) -> None:
        """Status, attempt and seq of every job agree, and who has written nothing reads the same record."""
        if not hasattr(self, "model"):
            return
        stranger = RecordStore(self.store.home, clock=self.clock)
        for job, (_, status, attempt, seq) in self.model.jobs.items():
            record = self.store.get(job)
            assert (str(record.status), record.attempt, record.last_seq) == (status, attempt, seq)
            assert record == stranger.get(job)


TestQueueModel = QueueMachine.TestCase
TestQueueModel.settings = settings(max_examples=settings().max_examples // 2, stateful_step_count=25)
