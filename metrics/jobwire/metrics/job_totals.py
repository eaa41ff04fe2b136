"""What is known of one job, as a function of the set of its accepted events: a row of the table `job_totals`.

The set is kept as runs: neighbouring seqs joined into one entry that remembers only its two ends. So
an event may come twice, or in any order (several journal shards), and the row is the same; a job whose
events came in order is one run, whatever its length. Of one stretch of events the row is a run by itself.
"""

import json
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any, NamedTuple

WAITING = "permission_required"
STARTED = "started"
OPEN = "open"
# Places in a row.
SESSION_NAME, STARTED_US, FINISHED_US, OUTCOME, WAITING_US = 1, 2, 3, 5, 8
JobRow = tuple[Any, ...]


class Run(NamedTuple):
    """Events first_seq..last_seq without a gap: when the ends were received, what the last one was."""

    first_seq: int
    last_seq: int
    first_us: int
    last_us: int
    last_event: str


def runs_of(row: JobRow) -> list[Run]:
    """Return the runs of a job, in their order; what stands between two is not known."""
    first_seq, first_us, last_seq, last_event, last_us, earlier = row[9:]
    last = Run(first_seq, last_seq, first_us, last_us, last_event)
    return [*(Run(*run) for run in json.loads(earlier)), last] if earlier else [last]


def overlaps(runs: Sequence[Run], first_seq: int, last_seq: int) -> bool:
    """Tell whether any event of the range is in one of the runs, which are in their order."""
    place = bisect_right(runs, last_seq, key=itemgetter(0))
    return place > 0 and runs[place - 1].last_seq >= first_seq


def joined(parts: Sequence[JobRow]) -> JobRow:
    """Return the row of all events of a job, given rows that have none of them in common.

    The earliest `started` is the job's start, or its earliest event where there is none; the terminal
    event with the lowest seq is its end, whatever else came.
    """
    job_id, session, *_ = parts[0]
    _, _, begun, finished, ended, outcome, events, attempts, waited = zip(
        *(row[:9] for row in parts), strict=True
    )
    known = [runs_of(row) for row in parts]
    runs = sorted(run for some in known for run in some)
    ends = [end for end in zip(ended, finished, outcome, strict=True) if end[0] is not None]
    ended_seq, finished_us, how = min(ends, default=(None, None, OPEN))
    *earlier, last = _connected(runs)
    told = any(attempts)
    return (
        job_id,
        session,
        min(at for at, starts in zip(begun, attempts, strict=True) if bool(starts) == told),
        finished_us,
        ended_seq,
        how,
        sum(events),
        sum(attempts),
        sum(waited) - sum(map(_waited_between, known)) + _waited_between(runs),
        last.first_seq,
        last.first_us,
        last.last_seq,
        last.last_event,
        last.last_us,
        json.dumps(earlier, separators=(",", ":")) if earlier else None,
    )


def _connected(runs: Iterable[Run]) -> list[Run]:
    found: list[Run] = []
    for run in runs:
        if found and found[-1].last_seq + 1 == run.first_seq:
            before = found.pop()
            run = run._replace(first_seq=before.first_seq, first_us=before.first_us)  # noqa: PLW2901 - both as one
        found.append(run)
    return found


def _waited_between(runs: Iterable[Run]) -> int:
    """Return the time from each run that ends with a question to the next known event."""
    return sum(
        max(0, right.first_us - left.last_us) for left, right in pairwise(runs) if left.last_event == WAITING
    )


def continued(row: JobRow, more: JobRow) -> JobRow | None:
    """Return the row of a job after a stretch of events, a row too; None where it is not the next one.

    What `joined` computes, for the common case that needs no list of runs.
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
