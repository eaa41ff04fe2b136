"""What is known of one job, as a function of the set of its accepted events.

The set is kept as runs: neighbouring seqs joined into one entry that remembers only its two ends. So
an event may come twice, or in any order (several journal shards), and the totals are the same; a
job whose events came in order is one run, whatever its length.
"""

import json
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, NamedTuple

from jobwire.jobs.event import TERMINAL_EVENTS

WAITING = "permission_required"
STARTED = "started"
OPEN = "open"


class Run(NamedTuple):
    """Events first_seq..last_seq without a gap: when the ends were received, what the last one was."""

    first_seq: int
    last_seq: int
    first_us: int
    last_us: int
    last_event: str


class Segment(NamedTuple):
    """A run of new events of one job, with what is inside it.

    `started_us` is the earliest receipt of a `started`, `terminal` the (seq, receipt, type) of the
    terminal event with the lowest seq; None where there is none. `waiting_us` lies between events of
    the segment.
    """

    run: Run
    started: int
    started_us: int | None
    earliest_us: int
    terminal: tuple[int, int, str] | None
    waiting_us: int

    @property
    def events(self) -> int:
        """Return how many events it holds."""
        return self.run.last_seq - self.run.first_seq + 1


class JobTotals:
    """The totals of one job; `add` takes segments that are disjoint from what is there."""

    __slots__ = (
        "attempts",
        "events",
        "finished_us",
        "inner_waiting_us",
        "job_id",
        "outcome",
        "runs",
        "session",
        "started_us",
        "terminal_seq",
    )

    def __init__(self, job_id: str, session: str) -> None:
        self.job_id = job_id
        self.session = session
        self.started_us = 0
        self.finished_us: int | None = None
        self.terminal_seq: int | None = None
        self.outcome = OPEN
        self.events = 0
        self.attempts = 0
        self.inner_waiting_us = 0
        self.runs: list[Run] = []

    @property
    def last(self) -> Run:
        """Return the run with the highest seq."""
        return self.runs[-1]

    @property
    def waiting_us(self) -> int:
        """Return the time between each permission_required and the next known event."""
        return self.inner_waiting_us + self._between_runs_us()

    def _between_runs_us(self) -> int:
        pairs = zip(self.runs, self.runs[1:], strict=False)
        return sum(_waited(left, right) for left, right in pairs)

    def overlaps(self, first_seq: int, last_seq: int) -> bool:
        """Tell whether any event of the range is known."""
        place = bisect_right(self.runs, last_seq, key=lambda run: run.first_seq)
        return place > 0 and self.runs[place - 1].last_seq >= first_seq

    def add(self, segment: Segment) -> None:
        """Count the segment's events; none of them may be known (`overlaps`)."""
        if segment.started_us is not None:
            known = self.started_us if self.attempts else segment.started_us
            self.started_us = min(known, segment.started_us)
        elif not self.attempts:
            known = self.started_us if self.events else segment.earliest_us
            self.started_us = min(known, segment.earliest_us)
        if segment.terminal is not None and (
            self.terminal_seq is None or segment.terminal[0] < self.terminal_seq
        ):
            self.terminal_seq, self.finished_us, self.outcome = segment.terminal
        self.events += segment.events
        self.attempts += segment.started
        self.inner_waiting_us += segment.waiting_us
        self._insert(segment.run)

    def _insert(self, run: Run) -> None:
        place = bisect_right(self.runs, run.first_seq, key=lambda known: known.first_seq)
        if place < len(self.runs) and self.runs[place].first_seq == run.last_seq + 1:
            run = self._join(run, self.runs.pop(place))
        if place > 0 and self.runs[place - 1].last_seq + 1 == run.first_seq:
            place -= 1
            run = self._join(self.runs.pop(place), run)
        self.runs.insert(place, run)

    def _join(self, left: Run, right: Run) -> Run:
        self.inner_waiting_us += _waited(left, right)
        return Run(left.first_seq, right.last_seq, left.first_us, right.last_us, right.last_event)


def one_event(seq: int, received_us: int, event: str) -> Segment:
    """Return a single event as a segment."""
    started = event == STARTED
    return Segment(
        run=Run(seq, seq, received_us, received_us, event),
        started=int(started),
        started_us=received_us if started else None,
        earliest_us=received_us,
        terminal=(seq, received_us, event) if event in TERMINAL_EVENTS else None,
        waiting_us=0,
    )


def _waited(left: Run, right: Run) -> int:
    return max(0, right.first_us - left.last_us) if left.last_event == WAITING else 0


def totals_of(row: Sequence[Any]) -> JobTotals:
    """Return the totals that `row_of` wrote."""
    totals = JobTotals(row[0], row[1])
    totals.started_us, totals.finished_us, totals.terminal_seq, totals.outcome = row[2:6]
    totals.events, totals.attempts = row[6:8]
    first_seq, first_us, last_seq, last_event, last_us = row[9:14]
    earlier = [Run(*run) for run in json.loads(row[14] or "[]")]
    totals.runs = [*earlier, Run(first_seq, last_seq, first_us, last_us, last_event)]
    totals.inner_waiting_us = row[8] - totals._between_runs_us()  # noqa: SLF001 - of this module
    return totals


def row_of(totals: JobTotals) -> tuple[Any, ...]:
    """Return the totals as a row of `job_totals`: the last run as columns, earlier ones as JSON or None."""
    *earlier, last = totals.runs
    return (
        totals.job_id,
        totals.session,
        totals.started_us,
        totals.finished_us,
        totals.terminal_seq,
        totals.outcome,
        totals.events,
        totals.attempts,
        totals.waiting_us,
        last.first_seq,
        last.first_us,
        last.last_seq,
        last.last_event,
        last.last_us,
        json.dumps(earlier, separators=(",", ":")) if earlier else None,
    )


# Places in such a row.
SESSION_NAME, FINISHED_US = 1, 3


def continued(row: Sequence[Any], more: Sequence[Any]) -> tuple[Any, ...] | None:
    """Return the row of a job after a segment, given as a row too; None where it is not the next one.

    What `JobTotals.add` computes, for the common case that needs no list of runs.
    """
    job_id, session, begun_us, _, ended_seq, _, events, attempts, waited_us = row[:9]
    first_seq, first_us, last_seq, last_event, last_us, earlier = row[9:]
    if more[9] != last_seq + 1 or ended_seq is not None:
        return None
    started_us, finished_us, terminal_seq, outcome, more_events, more_attempts, more_waited_us = more[2:9]
    if attempts and not more_attempts:
        started_us = begun_us
    elif attempts or not more_attempts:
        started_us = min(started_us, begun_us)
    if last_event == WAITING:
        waited_us += max(0, more[10] - last_us)
    return (
        *(job_id, session, started_us, finished_us, terminal_seq, outcome, events + more_events),
        *(attempts + more_attempts, waited_us + more_waited_us, first_seq, first_us, *more[11:14], earlier),
    )
