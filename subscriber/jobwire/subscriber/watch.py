"""The watch over one job as a state machine without I/O.

Inputs: verdicts of admission, records, snapshots, the registry's history, clock readings (monotonic
seconds, never falling). Outputs: lines, among them exactly one `Verdict`, whatever the order of inputs;
after it every input is answered with nothing.

    begin ──► judged / on_record / on_snapshot / on_history / tick ──► ... ──► Verdict
"""

from collections.abc import Iterable
from typing import NamedTuple

from jobwire.jobs.admission import Accepted, JobView, Reason, Rejected
from jobwire.jobs.event import Event
from jobwire.jobs.lifecycle import TERMINAL_STATUSES, Status
from jobwire.jobs.record import JobRecord, Timeouts, ended_by_event
from jobwire.jobs.requests import Requests, after_event, is_open
from jobwire.jobs.snapshot import Snapshot
from jobwire.subscriber.outcome import (
    BY_LIMIT,
    BY_STATUS,
    EventLine,
    Line,
    Note,
    Outcome,
    Refusal,
    Verdict,
    last_event_of,
    outcome_of,
)

# How long an event that the registry has already may still be on its way over the wire.
GRACE_SECONDS = 1.0
_NEVER = float("inf")


class RecordedEvent(NamedTuple):
    """One accepted event from the registry's history, with its message's digest."""

    event: Event
    digest: bytes


class _Ending(NamedTuple):
    """The job has ended by the registry's word; its last event may still come."""

    outcome: Outcome
    reason: str
    event: Event | None
    at: float


class JobWatch:
    """One job under watch.

    `limits` are the timeouts in force. Idle and pending exclude each other: with a pending limit, the
    idle timer waits until the job has started; without one it runs from the beginning, so that no
    watch lasts for ever by accident. The wall timer runs from the beginning in any case.
    """

    def __init__(
        self,
        job_id: str,
        *,
        view: JobView,
        limits: Timeouts,
        now: float,
        strict_idle: bool = False,
        has_record: bool = True,
        title: str = "",
        joined_seq: int | None = None,
    ) -> None:
        self.job_id = job_id
        self.title = title
        self.view = view
        self.limits = limits
        self.verdict: Verdict | None = None
        self.events = 0
        self.last_event: Event | None = None
        self.attention = False
        self.detail = ""
        # What is open by the events that came; the registry's word knows of answers as well.
        self._asked: Requests = ()
        self._strict_idle = strict_idle
        self._has_record = has_record
        self._grace = GRACE_SECONDS
        self._began = now
        self._heard = now
        self._waiting_since: float | None = now if view.status is Status.PENDING else None
        self._paused = False
        # Events up to here were accepted before we listened: shown if they come, never a sign of life.
        self._joined_seq = view.last_seq if joined_seq is None else joined_seq
        self._registry_seq = view.last_seq
        self._snapshot_at = ""
        self._behind_since: float | None = None
        self._given_up_seq = 0
        self._ending: _Ending | None = None
        # Digests of events that the history brought and the wire may still bring.
        self._recovered: set[bytes] = set()

    @classmethod
    def of_record(
        cls,
        record: JobRecord,
        *,
        limits: Timeouts,
        now: float,
        strict_idle: bool = False,
        from_start: bool = False,
    ) -> "JobWatch":
        """Return the watch over a job by its record.

        Events up to its `last_seq` are the past, unless `from_start`: then the job appeared while we
        listened, and its events are wanted from the first one on.
        """
        last_seq = 0 if from_start else record.last_seq
        view = JobView(
            token=record.auth_token,
            # A finished job's last event is still wanted: for the view it has not happened yet.
            status=Status.RUNNING if record.terminal else record.status,
            attempt=record.attempt,
            last_seq=max(0, last_seq - 1) if ended_by_event(record) else last_seq,
            attempt_seq=record.attempt_seq,
            joined_late=True,
        )
        watch = cls(
            record.job_id,
            view=view,
            limits=limits,
            now=now,
            strict_idle=strict_idle,
            title=record.title,
        )
        watch._registry_seq = record.last_seq
        watch.detail = record.detail
        watch._asked = record.requests
        watch._pause(now, wanted=record.attention)
        return watch

    # Inputs.

    def judged(self, verdict: Accepted | Rejected, now: float) -> list[Line]:
        """Take what admission said about one message of this job."""
        if self.verdict is not None:
            return [] if isinstance(verdict, Accepted) else [Refusal.of(self.job_id, verdict)]
        if isinstance(verdict, Accepted):
            return self._accepted(verdict, now)
        if verdict.digest in self._recovered and verdict.reason is Reason.DUPLICATE:
            self._recovered.discard(verdict.digest)
            return []  # the history was faster than the wire: ordinary, and nothing to report
        lines: list[Line] = [Refusal.of(self.job_id, verdict)]
        if verdict.reason is Reason.LATE and verdict.event is not None:
            self.view.remember(verdict.event.seq, verdict.digest)
            self.events += 1
            lines.append(EventLine(verdict.event, late=True))
        return lines

    def on_record(self, record: JobRecord, now: float) -> list[Line]:
        """Take the job's record as it is now."""
        if self.verdict is not None:
            return []
        lines: list[Line] = []
        if record.attempt > self.view.attempt:
            lines.append(self._claimed_again(record, now))
        self._follow_status(record.status, now)
        self._follow_registry(record, now=now)
        if record.terminal:
            lines += self._finished(record, now)
        return lines

    def on_snapshot(self, snapshot: Snapshot, now: float) -> list[Line]:
        """Take a verified snapshot of the state topic; an older one than before is ignored."""
        # The end of a job or of our attempt is final, also where the registry's clock was set back before it.
        final = snapshot.superseded or snapshot.status in TERMINAL_STATUSES
        if self.verdict is not None or (snapshot.updated_at < self._snapshot_at and not final):
            return []
        if snapshot.superseded:
            if self._has_record:
                return []  # the record tells the new key
            reason = f"the job was claimed again: attempt {snapshot.attempt} has another key"
            return [self._decide(Outcome.SUPERSEDED, reason, now)]
        if not self._snapshot_at and not self._has_record:
            self._joined_seq = max(self._joined_seq, snapshot.last_seq)
            self._registry_seq = max(self._registry_seq, snapshot.last_seq)
        self._snapshot_at = snapshot.updated_at
        self._follow_status(snapshot.status, now)
        self._follow_registry(snapshot, now=now)
        if snapshot.timed_out is not None:
            return [self._decide(BY_LIMIT[snapshot.timed_out], snapshot.detail, now)]
        if snapshot.status is Status.CANCELLED:
            return [self._decide(Outcome.CANCELLED, snapshot.detail or "the job was cancelled", now)]
        if snapshot.status in TERMINAL_STATUSES:
            self._expect_end(BY_STATUS[snapshot.status], snapshot.detail, None, now)
        return []

    def on_history(self, past: Iterable[RecordedEvent], now: float) -> list[Line]:
        """Take what the registry holds of the events that did not come over the wire, in any order."""
        lines: list[Line] = []
        for event, digest in sorted(past, key=lambda item: item.event.seq):
            if self.verdict is not None:
                return lines
            if event.seq > self.view.last_seq:
                self.view.accept(Accepted(event, digest))
            elif event.seq in self.view.missing:
                self.view.remember(event.seq, digest)
            else:
                continue
            self._recovered.add(digest)
            lines.append(self._show(EventLine(event, recovered=True)))
            if event.terminal:
                lines.append(self._ended_by(event, now))
        return lines + self._give_up_missing()

    def tick(self, now: float) -> list[Line]:
        """Take a reading of the monotonic clock, after everything that arrived before it."""
        if self.verdict is not None:
            return []
        if self._ending is not None:
            return self._conclude(self._ending, now) if now >= self._ending.at + self._grace else []
        deadline, outcome = min(self._timers())
        if now < deadline:
            return []
        return [self._decide(outcome, self._expired(outcome), now)]

    def hurry(self) -> None:
        """Do without the grace: the job had ended before the watch began, nothing is on its way."""
        self._grace = 0.0

    # Questions.

    @property
    def started(self) -> bool:
        """Tell whether the present attempt has said `started`."""
        return max(self.view.last_seq, self._registry_seq) > self.view.attempt_seq

    @property
    def deadline(self) -> float:
        """Return the monotonic time at which `tick` has something to do; infinity for never."""
        if self.verdict is not None:
            return _NEVER
        if self._ending is not None:
            return self._ending.at + self._grace
        soonest = min(self._timers())[0]
        return soonest if self._behind_since is None else min(soonest, self._behind_since + self._grace)

    def wants_history(self, now: float, *, at_once: bool = False) -> bool:
        """Tell whether `on_history` should bring events that did not come within the grace.

        `at_once`: a session has just begun, so what the registry has and we have not will not come.
        """
        if self.verdict is not None or self._behind_since is None:
            return False
        return at_once or now >= self._behind_since + self._grace

    @property
    def wanted_seqs(self) -> tuple[int, int]:
        """Return the first and the last seq that `on_history` could bring."""
        first = min(self.view.missing, default=self.view.last_seq + 1)
        return first, max(self._registry_seq, self.view.last_seq)

    # The rules.

    def _accepted(self, accepted: Accepted, now: float) -> list[Line]:
        event, view = accepted.event, self.view
        gap = 0 < view.last_seq < event.seq - 1
        view.accept(accepted)
        self._follow_status(Status.RUNNING, now)
        if event.seq > self._joined_seq:
            self._heard = now
        self.detail = event.detail
        self._asked = after_event(self._asked, event, attempt=view.attempt, now=0.0)
        self._pause(now, wanted=is_open(self._asked))
        if gap and self._behind_since is None:
            self._behind_since = now
        elif self._behind_since is not None and event.seq >= self._registry_seq and not view.missing:
            self._behind_since = None
        line = self._show(EventLine(event))
        return [line, self._ended_by(event, now)] if event.terminal else [line]

    def _show(self, line: EventLine) -> EventLine:
        self.events += 1
        self.last_event = line.event
        return line

    def _claimed_again(self, record: JobRecord, now: float) -> Note:
        self.view.new_attempt(
            token=record.auth_token,
            attempt=record.attempt,
            status=Status.PENDING,
            attempt_seq=record.attempt_seq,
        )
        self._waiting_since = now
        self._paused = False
        self.attention = False
        self._asked = ()
        return Note(
            self.job_id,
            f"claimed again ({record.detail}); watching attempt {record.attempt} under its new key",
        )

    def _follow_status(self, status: Status, now: float) -> None:
        """Note that the job has started, by whatever word: from here on idle counts, and pending no more."""
        if status is Status.PENDING:
            return
        if self.view.status is Status.PENDING:
            self.view.status = Status.RUNNING
        if self._waiting_since is not None:
            self._waiting_since = None
            self._heard = now

    def _follow_registry(self, known: JobRecord | Snapshot, *, now: float) -> None:
        """Take what the registry has accepted as a sign of life, also while no broker carries it."""
        last_seq = known.last_seq
        if last_seq >= self.view.last_seq:
            self.detail = known.detail
            if isinstance(known, JobRecord):
                self._asked = known.requests
            elif not known.attention:
                self._asked = ()
            self._pause(now, wanted=known.attention)
        if last_seq > self._registry_seq:
            self._registry_seq = last_seq
            if last_seq > self.view.last_seq:
                self._heard = now
        if self._registry_seq > max(self.view.last_seq, self._given_up_seq):
            if self._behind_since is None:
                self._behind_since = now
        elif not self.view.missing:
            self._behind_since = None

    def _pause(self, now: float, *, wanted: bool) -> None:
        if self._paused and not wanted:
            self._heard = now  # somebody answered: the time of waiting does not count
        self._paused = wanted and not self._strict_idle
        self.attention = wanted

    def _finished(self, record: JobRecord, now: float) -> list[Line]:
        outcome = outcome_of(record)
        if outcome is Outcome.CANCELLED:
            return [self._decide(outcome, record.detail or "the job was cancelled", now)]
        if not ended_by_event(record):
            return [self._decide(outcome, record.detail, now)]
        self._expect_end(outcome, record.detail, last_event_of(record), now)
        return []

    def _expect_end(self, outcome: Outcome, reason: str, event: Event | None, now: float) -> None:
        if self._ending is None or self._ending.event is None:
            at = now if self._ending is None else self._ending.at
            self._ending = _Ending(outcome, reason, event, at)
            # So that the history is asked for before the grace is over, not after.
            self._behind_since = at if self._behind_since is None else self._behind_since

    def _conclude(self, ending: _Ending, now: float) -> list[Line]:
        lines: list[Line] = []
        if ending.event is not None and ending.event.seq > self.view.last_seq:
            lines.append(self._show(EventLine(ending.event, recovered=True)))
        return [*lines, self._decide(ending.outcome, ending.reason, now, ending.event)]

    def _ended_by(self, event: Event, now: float) -> Verdict:
        return self._decide(BY_STATUS[Status(event.event)], event.detail, now, event)

    def _give_up_missing(self) -> list[Line]:
        """Say once which events neither the wire nor the history brought; they may still come late."""
        self._behind_since = None
        self._given_up_seq = max(self._given_up_seq, self._registry_seq)
        missing = self.view.missing
        if not missing or self.verdict is not None:
            return []
        count = len(missing)
        which = f"event {min(missing)}" if count == 1 else f"{count} events from seq {min(missing)} on"
        return [Note(self.job_id, f"{which} did not arrive and the registry does not have it here")]

    def _timers(self) -> list[tuple[float, Outcome]]:
        idle, wall, pending = self.limits
        waiting = self._waiting_since
        timers = [(_NEVER, Outcome.WALL)]
        if wall is not None:
            timers.append((self._began + wall, Outcome.WALL))
        if pending is not None and waiting is not None:
            timers.append((waiting + pending, Outcome.PENDING))
        elif idle is not None and not self._paused:
            timers.append((self._heard + idle, Outcome.IDLE))
        return timers

    def _expired(self, outcome: Outcome) -> str:
        idle, wall, pending = self.limits
        if outcome is Outcome.IDLE:
            return f"idle timeout: no event for {idle:g} s"
        if outcome is Outcome.PENDING:
            return f"pending timeout: not started within {pending:g} s"
        return f"wall timeout: not finished within {wall:g} s"

    def _decide(self, outcome: Outcome, reason: str, now: float, last: Event | None = None) -> Verdict:
        data = {} if last is None else last.data
        self.verdict = Verdict(self.job_id, outcome, reason, now - self._began, self.events, data)
        return self.verdict
