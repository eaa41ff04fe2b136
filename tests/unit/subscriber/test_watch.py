"""The watch over one job: every way to its one verdict, on a clock moved by hand."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.core.exit_codes import ExitCode
from jobwire.core.signature import new_token
from jobwire.core.topics import Topics
from jobwire.jobs.admission import JobView, Reason, admit
from jobwire.jobs.event import Event, encode_signed
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import JobRecord, Timeouts
from jobwire.jobs.snapshot import Snapshot
from jobwire.subscriber.outcome import EventLine, Line, Note, Outcome, Refusal, Verdict
from jobwire.subscriber.watch import JobWatch, RecordedEvent
from jobwire.testing import ManualClock

JOB = "0000abcd"
TOKEN = new_token()
TOPICS = Topics()
STAMP = "2026-01-02T03:04:05.678Z"
LIMITS = Timeouts(idle_seconds=10, wall_seconds=100, pending_seconds=20)


def event(seq: int, kind: str = "progress", detail: str = "", **data: object) -> Event:
    """Return an event of the test's job."""
    return Event(seq, JOB, kind, STAMP, detail, data)


def record(status: str = "running", last_seq: int = 1, **fields: object) -> JobRecord:
    """Return the test's record."""
    base = JobRecord(JOB, TOKEN, STAMP, STAMP, status=Status(status), last_seq=last_seq)
    return base._replace(**fields)  # type: ignore[arg-type]  # fields of the record, by name


def finished(kind: str = "completed", last_seq: int = 2, detail: str = "done") -> JobRecord:
    """Return a record that a worker's event ended."""
    result: dict[str, object] = {"event": kind, "detail": detail, "data": {}}
    return record(kind, last_seq, detail=detail, result=result)


def snapshot(status: str = "running", last_seq: int = 1, **fields: object) -> Snapshot:
    """Return a verified snapshot."""
    base = Snapshot(JOB, Status(status), last_seq, 1, STAMP, attention=False, detail="")
    return base._replace(**fields)  # type: ignore[arg-type]  # fields of the snapshot, by name


class Bench:
    """A watch, its clock, and everything it said."""

    def __init__(self, watch: Callable[[float], JobWatch]) -> None:
        self.clock = ManualClock()
        self.watch = watch(self.clock.monotonic())
        self.lines: list[Line] = []

    def asks(self, seq: int, request_id: str) -> list[Line]:
        """Let a request with an id come over the wire."""
        body = {"id": request_id, "kind": "question", "text": "?"}
        return self.wire(seq, "permission_required", request=body)

    def wire(
        self, seq: int, kind: str = "progress", detail: str = "", token: str = TOKEN, **data: object
    ) -> list[Line]:
        """Let an event come over the wire."""
        payload = encode_signed(event(seq, kind, detail, **data), token)
        verdict = admit(TOPICS, TOPICS.events(JOB), payload, retained=False, job=self.watch.view)
        return self._add(self.watch.judged(verdict, self.clock.monotonic()))

    def record(self, value: JobRecord) -> list[Line]:
        """Let the record be read."""
        return self._add(self.watch.on_record(value, self.clock.monotonic()))

    def snapshot(self, value: Snapshot) -> list[Line]:
        """Let a snapshot come."""
        return self._add(self.watch.on_snapshot(value, self.clock.monotonic()))

    def history(self, *events: Event) -> list[Line]:
        """Let the registry's history be read."""
        past = [RecordedEvent(one, b"digest of %d" % one.seq) for one in events]
        return self._add(self.watch.on_history(past, self.clock.monotonic()))

    def after(self, seconds: float) -> list[Line]:
        """Let time pass, then look at the clock."""
        self.clock.advance(seconds)
        return self._add(self.watch.tick(self.clock.monotonic()))

    def _add(self, lines: list[Line]) -> list[Line]:
        self.lines += lines
        return lines

    @property
    def verdict(self) -> Verdict:
        """Return the one verdict among the lines."""
        (found,) = [line for line in self.lines if isinstance(line, Verdict)]
        assert found is self.watch.verdict
        return found

    @property
    def shown(self) -> list[int]:
        """Return the seqs of the events that were shown."""
        return [line.event.seq for line in self.lines if isinstance(line, EventLine)]


def running(limits: Timeouts = LIMITS, *, strict_idle: bool = False, **fields: object) -> Bench:
    """Return the watch over a job that runs already."""
    return Bench(
        lambda now: JobWatch.of_record(record(**fields), limits=limits, now=now, strict_idle=strict_idle)  # type: ignore[arg-type]  # fields of the record
    )


def pending(limits: Timeouts = LIMITS) -> Bench:
    """Return the watch over a job that nobody has picked."""
    return Bench(lambda now: JobWatch.of_record(record("pending", 0), limits=limits, now=now))


def by_ticket(limits: Timeouts = LIMITS) -> Bench:
    """Return the watch of a host without the record."""
    view = JobView(token=TOKEN, joined_late=True)
    return Bench(lambda now: JobWatch(JOB, view=view, limits=limits, now=now, has_record=False))


def test_success() -> None:
    """A job from its first event to completed: each event shown once, exit code 0."""
    bench = pending()
    bench.wire(1, "started")
    bench.wire(2)
    bench.wire(2)
    bench.wire(3, "completed", "all well")
    assert bench.shown == [1, 2, 3]
    assert (bench.verdict.outcome, bench.verdict.exit_code) == (Outcome.COMPLETED, ExitCode.OK)
    assert bench.verdict.reason == "all well"


def test_error() -> None:
    """An error event is exit code 1 with the worker's words."""
    bench = running()
    bench.wire(2, "error", "no disk")
    assert (bench.verdict.exit_code, bench.verdict.reason) == (ExitCode.JOB_ERROR, "no disk")


def test_a_second_terminal_event_changes_nothing() -> None:
    """After the verdict nothing counts: another terminal event is refused and the verdict stays."""
    bench = running()
    bench.wire(2, "completed")
    (refusal,) = bench.wire(3, "error")
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.AFTER_TERMINAL
    bench.record(finished("error", 3))
    bench.after(1000)
    assert bench.verdict.outcome is Outcome.COMPLETED


def test_idle_timeout() -> None:
    """Without an event the idle timer runs out; each accepted event starts it again."""
    bench = running()
    assert bench.after(9.9) == []
    bench.wire(2)
    assert bench.after(9.9) == []
    bench.after(0.1)
    assert (bench.verdict.outcome, bench.verdict.exit_code) == (Outcome.IDLE, ExitCode.TIMEOUT)
    assert bench.verdict.reason == "idle timeout: no event for 10 s"


def test_wall_timeout() -> None:
    """Events do not move the wall timer."""
    bench = running(Timeouts(idle_seconds=10, wall_seconds=25))
    for seq in range(2, 7):
        bench.after(5)
        bench.wire(seq)
    assert bench.verdict.outcome is Outcome.WALL
    assert "wall" in bench.verdict.reason


def test_pending_timeout() -> None:
    """A job that nobody starts runs into the pending limit; idle does not count meanwhile."""
    bench = pending()
    assert bench.after(19.9) == []
    bench.after(0.1)
    assert bench.verdict.outcome is Outcome.PENDING


def test_idle_runs_while_pending_without_a_pending_limit() -> None:
    """No watch with an idle limit lasts for ever, started or not."""
    bench = pending(Timeouts(idle_seconds=10))
    bench.after(10)
    assert bench.verdict.outcome is Outcome.IDLE


def test_started_by_the_record_ends_the_pending_timer() -> None:
    """A pick counts as a start before the worker says a word; idle runs from there."""
    bench = pending()
    bench.after(15)
    bench.record(record("running", 0))
    assert bench.after(9.9) == []
    bench.after(0.1)
    assert bench.verdict.outcome is Outcome.IDLE


def test_no_limits_no_timeout() -> None:
    """Without limits there is no timer at all."""
    bench = running(Timeouts())
    assert bench.after(1e9) == []
    assert bench.watch.deadline == float("inf")


def test_the_wall_clock_does_not_matter() -> None:
    """A clock set back or forward moves no timeout."""
    bench = running()
    bench.clock.set_wall(0.0)
    assert bench.after(9.9) == []
    bench.clock.set_wall(4e9)
    assert bench.after(0.05) == []
    bench.after(0.1)
    assert bench.verdict.outcome is Outcome.IDLE


def test_forged_events_do_not_hold_the_idle_timer() -> None:
    """However many refused messages come, the idle timer runs on."""
    bench = running()
    for _ in range(99):
        (refusal,) = bench.wire(2, token=new_token())
        assert isinstance(refusal, Refusal)
        bench.after(0.1)
    bench.after(0.1)
    assert bench.verdict.outcome is Outcome.IDLE


def test_replayed_events_do_not_hold_the_idle_timer() -> None:
    """Redelivered and late events are no signs of life."""
    bench = running(last_seq=5)
    bench.wire(6)
    bench.after(9)
    bench.wire(6)
    bench.wire(4)
    bench.after(1)
    assert bench.verdict.outcome is Outcome.IDLE


def test_permission_pauses_idle() -> None:
    """While a person is asked the idle timer stands still; the next event lets it run again."""
    bench = running()
    bench.wire(2, "permission_required")
    assert bench.after(50) == []
    bench.wire(3)
    assert bench.after(9.9) == []
    bench.after(0.1)
    assert bench.verdict.outcome is Outcome.IDLE


def test_a_request_with_an_id_pauses_idle_until_it_is_settled() -> None:
    """Other events do not end the pause; each request does by its own resolution or answer."""
    bench = running()
    bench.asks(2, "a")
    bench.asks(3, "b")
    bench.wire(4)
    assert bench.after(50) == []
    bench.wire(5, resolved=["a"])
    assert bench.after(30) == []
    bench.snapshot(snapshot(last_seq=5, attention=False))
    assert bench.after(9.9) == []
    bench.after(0.1)
    assert bench.verdict.outcome is Outcome.IDLE


def test_strict_idle() -> None:
    """With strict idle a question to a person is silence like any other."""
    bench = running(strict_idle=True)
    bench.wire(2, "permission_required")
    bench.after(10)
    assert bench.verdict.outcome is Outcome.IDLE


def test_attention_of_the_record_pauses_idle_from_the_start() -> None:
    """A watch that begins while a person is asked waits as well."""
    bench = running(attention=True)
    assert bench.after(50) == []
    bench.record(record(last_seq=1))
    assert bench.after(9.9) == []
    bench.after(0.1)
    assert bench.verdict.outcome is Outcome.IDLE


def test_events_from_before_are_shown_once_and_hold_nothing() -> None:
    """What was published between subscribing and reading the record is shown, not counted as life."""
    bench = running(last_seq=3)
    bench.after(9)
    lines = bench.wire(3)
    assert EventLine(event(3), late=True) in lines
    assert all(not isinstance(line, EventLine) for line in bench.wire(3))
    bench.after(1)
    assert bench.verdict.outcome is Outcome.IDLE


def test_cancelled_by_record() -> None:
    """A cancelled record ends the watch at once with exit code 3."""
    bench = running()
    bench.record(record("cancelled", detail="by the user"))
    assert (bench.verdict.exit_code, bench.verdict.reason) == (ExitCode.STOPPED, "by the user")


def test_cancelled_by_snapshot() -> None:
    """On another host the signed state says it."""
    bench = by_ticket()
    bench.snapshot(snapshot("cancelled"))
    assert bench.verdict.outcome is Outcome.CANCELLED


@pytest.mark.parametrize("final", [{"status": Status.CANCELLED}, {"attempt": 2, "superseded": True}])
def test_an_end_counts_whatever_the_clock_says(final: dict[str, object]) -> None:
    """An end is believed also where the registry's clock was set back before it."""
    bench = by_ticket()
    bench.snapshot(snapshot(updated_at="2026-01-02T03:04:06Z"))
    bench.snapshot(snapshot(updated_at="2026-01-02T01:00:00Z")._replace(**final))  # type: ignore[arg-type]  # by name
    assert bench.verdict.exit_code == ExitCode.STOPPED


def test_superseded_by_snapshot() -> None:
    """A ticket whose attempt was claimed again has nothing left to watch: exit code 3."""
    bench = by_ticket()
    bench.snapshot(snapshot(attempt=2, superseded=True))
    assert (bench.verdict.outcome, bench.verdict.exit_code) == (Outcome.SUPERSEDED, ExitCode.STOPPED)


def test_claimed_again_goes_on_under_the_new_key() -> None:
    """With the record at hand the watch follows the new attempt; the old worker is refused."""
    fresh = new_token()
    bench = running()
    bench.snapshot(snapshot(attempt=2, superseded=True))
    (note,) = bench.record(record("pending", 1, attempt=2, attempt_seq=1, auth_token=fresh))
    assert isinstance(note, Note)
    assert "attempt 2" in note.text
    (refusal,) = bench.wire(2)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.BAD_SIGNATURE
    bench.wire(2, "started", token=fresh)
    bench.wire(3, "completed", token=fresh)
    assert bench.verdict.outcome is Outcome.COMPLETED


def test_claimed_again_waits_for_a_start_again() -> None:
    """After a claim the pending limit counts anew."""
    bench = running()
    bench.record(record("pending", 1, attempt=2, attempt_seq=1))
    assert bench.after(19) == []
    bench.after(1)
    assert bench.verdict.outcome is Outcome.PENDING


def test_ended_by_record_after_the_grace() -> None:
    """Where the last event never comes over the wire, the history has it, and the verdict is right."""
    bench = running()
    assert bench.record(finished("error", 3, "broken")) == []
    assert not bench.watch.wants_history(bench.clock.monotonic())
    bench.clock.advance(1)
    assert bench.watch.wants_history(bench.clock.monotonic())
    bench.history(event(1, "started"), event(3, "error", "broken"), event(2))
    assert bench.shown == [2, 3]
    assert (bench.verdict.outcome, bench.verdict.reason) == (Outcome.ERROR, "broken")


def test_ended_by_record_without_history() -> None:
    """Where even the history is gone, the record itself gives the event and the verdict."""
    bench = running()
    bench.record(finished("completed", 2))
    bench.after(1)
    assert bench.shown == [2]
    assert bench.verdict.outcome is Outcome.COMPLETED


def test_the_wire_wins_within_the_grace() -> None:
    """An event that comes during the grace decides, and is not shown a second time."""
    bench = running()
    bench.record(finished("completed", 2))
    bench.wire(2, "completed")
    bench.after(10)
    assert bench.shown == [2]
    assert bench.verdict.outcome is Outcome.COMPLETED


def test_ended_by_the_registry() -> None:
    """A job that the registry itself gave up has no last event to wait for."""
    bench = running()
    result: dict[str, object] = {"event": "error", "detail": "wall", "data": {}, "by": "registry"}
    bench.record(record("error", 1, detail="3 attempts are the limit", result=result))
    assert bench.shown == []
    assert (bench.verdict.outcome, bench.verdict.reason) == (Outcome.ERROR, "3 attempts are the limit")


@pytest.mark.parametrize("limit", ["idle", "wall", "pending"])
def test_timed_out_by_the_registry(limit: str) -> None:
    """A limit that the registry process enforced is the same verdict as one that ran out here."""
    status = "cancelled" if limit == "pending" else "error"
    said = {"event": status, "detail": "too long", "data": {}}
    result: dict[str, object] = {**said, "by": "registry", "timeout": limit}
    bench = running()
    bench.record(record(status, 1, detail="too long", result=result))
    assert (bench.verdict.outcome, bench.verdict.reason) == (f"{limit}_timeout", "too long")
    assert bench.verdict.exit_code is ExitCode.TIMEOUT
    far = by_ticket()
    far.snapshot(snapshot(status, 4, detail="too long", timed_out=limit))
    assert (far.verdict.outcome, far.verdict.exit_code) == (f"{limit}_timeout", ExitCode.TIMEOUT)


def test_a_worker_cannot_speak_for_the_registry() -> None:
    """Whatever a worker puts into its last event, it is the worker's end and not the registry's limit."""
    data = {"by": "registry", "timeout": "idle"}
    bench = running()
    bench.record(record("error", 2, detail="no", result={"event": "error", "detail": "no", "data": data}))
    bench.after(1)
    assert bench.shown == [2]
    assert bench.verdict.outcome is Outcome.ERROR


def test_finished_before_the_watch() -> None:
    """A finished job gets its verdict at once, with its last event."""
    done = finished("completed", 7)
    bench = Bench(lambda now: JobWatch.of_record(done, limits=LIMITS, now=now))
    bench.watch.hurry()
    bench.record(done)
    assert bench.watch.wants_history(bench.clock.monotonic())
    bench.history(event(6), event(7, "completed", "done"))
    assert bench.shown == [7]
    assert bench.verdict.exit_code is ExitCode.OK


def test_finished_by_snapshot() -> None:
    """On another host the state's word counts after the grace."""
    bench = by_ticket()
    bench.snapshot(snapshot("error", 4, detail="lost"))
    bench.after(1)
    assert (bench.verdict.outcome, bench.verdict.reason) == (Outcome.ERROR, "lost")


def test_the_registry_hears_while_no_broker_carries() -> None:
    """Progress on the record holds the idle timer, and the history shows what the wire did not."""
    bench = running()
    bench.after(9)
    bench.record(record(last_seq=2))
    assert bench.after(5) == []
    assert bench.watch.wants_history(bench.clock.monotonic())
    assert bench.history(event(2)) == [EventLine(event(2), recovered=True)]
    bench.after(5)
    assert bench.verdict.outcome is Outcome.IDLE


def test_recovered_events_are_not_shown_again() -> None:
    """When the wire brings later what the history gave, it is only counted."""
    bench = running()
    bench.record(record(last_seq=2))
    bench.history(event(2))
    (refusal,) = bench.wire(2)
    assert isinstance(refusal, Refusal)
    assert bench.shown == [2]


def test_a_gap_is_filled_or_named() -> None:
    """Events missing between others are taken from the history; what nobody has is named once."""
    bench = running()
    bench.wire(5)
    bench.clock.advance(1)
    assert bench.watch.wants_history(bench.clock.monotonic())
    lines = bench.history(event(2), event(4))
    assert bench.shown == [5, 2, 4]
    assert isinstance(lines[-1], Note)
    assert "event 3 " in lines[-1].text
    assert not bench.watch.wants_history(bench.clock.monotonic() + 100)


def test_a_gap_that_closes_by_itself_asks_for_nothing() -> None:
    """A record that is a moment ahead of the wire is the ordinary case: no history is read."""
    bench = running()
    bench.record(record(last_seq=2))
    bench.wire(2)
    assert not bench.watch.wants_history(bench.clock.monotonic() + 100)


def test_an_old_snapshot_is_ignored() -> None:
    """A state recorded and sent again by a stranger does not pause the idle timer."""
    bench = by_ticket()
    bench.snapshot(snapshot(updated_at="2026-01-02T03:04:06Z"))
    bench.snapshot(snapshot(attention=True, updated_at="2026-01-02T03:04:05Z"))
    bench.after(10)
    assert bench.verdict.outcome is Outcome.IDLE


def test_old_events_do_not_hold_a_ticket_watch() -> None:
    """What the registry had accepted before is no sign of life on another host either."""
    bench = by_ticket()
    bench.snapshot(snapshot(last_seq=5))
    bench.after(9)
    bench.wire(3)
    bench.after(1)
    assert bench.shown == [3]
    assert bench.verdict.outcome is Outcome.IDLE


KINDS = st.sampled_from(["started", "progress", "permission_required", "completed", "error"])
STATUSES = st.sampled_from(["pending", "running", "cancelled"])
SEQS = st.integers(1, 6)
STEPS = st.one_of(
    st.tuples(st.just("wire"), SEQS, KINDS, st.booleans()),
    st.tuples(st.just("record"), STATUSES, st.integers(0, 6), st.integers(1, 3)),
    st.tuples(st.just("finished"), st.sampled_from(["completed", "error"]), SEQS),
    st.tuples(st.just("snapshot"), STATUSES, st.integers(0, 6), st.booleans(), st.integers(0, 3)),
    st.tuples(st.just("history"), st.lists(st.tuples(SEQS, KINDS), max_size=4)),
    st.tuples(st.just("after"), st.floats(0, 15)),
)
LIMIT = st.none() | st.floats(0.5, 30)


def _take(bench: Bench, step: tuple[object, ...]) -> list[Line]:
    """Do one random step and return what the watch said."""
    match step:
        case ("wire", int(seq), str(kind), bool(genuine)):
            return bench.wire(seq, kind, token=TOKEN if genuine else "x" * 32)
        case ("record", str(status), int(seq), int(attempt)):
            return bench.record(record(status, seq, attempt=attempt))
        case ("finished", str(kind), int(seq)):
            return bench.record(finished(kind, seq))
        case ("snapshot", str(status), int(seq), bool(superseded), int(second)):
            stamp = f"2026-01-02T03:04:0{second}Z"
            return bench.snapshot(snapshot(status, seq, superseded=superseded, updated_at=stamp))
        case ("history", list(events)):
            return bench.history(*(event(seq, kind) for seq, kind in events))
        case ("after", float(seconds)):
            return bench.after(seconds)
    raise AssertionError(step)


@given(
    st.lists(STEPS, max_size=25),
    st.sampled_from([running, pending, by_ticket]),
    st.tuples(LIMIT, st.floats(1, 100), LIMIT),
)
def test_exactly_one_verdict_whatever_happens(
    steps: list[tuple[object, ...]],
    start: Callable[[Timeouts], Bench],
    limits: tuple[float | None, float, float | None],
) -> None:
    """Any inputs in any order: no event twice, exactly one verdict, nothing but refusals after it."""
    bench = start(Timeouts(*limits))
    for step in steps:
        decided = bench.watch.verdict
        lines = _take(bench, step)
        if decided is not None:
            assert all(isinstance(line, Refusal) for line in lines)
            assert bench.watch.verdict is decided
    bench.after(200)
    assert bench.verdict.events == len(bench.shown)
    assert len(set(bench.shown)) == len(bench.shown)


@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_outcome_has_an_exit_code(outcome: Outcome) -> None:
    """No outcome is without its code."""
    assert outcome.exit_code in {ExitCode.OK, ExitCode.JOB_ERROR, ExitCode.TIMEOUT, ExitCode.STOPPED}
