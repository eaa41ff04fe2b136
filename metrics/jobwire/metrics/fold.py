"""The fold from journal rows to changes of the metric tables. Pure: numbers in, numbers out.

Each row counts once: in `windows` and its job's totals when it is an accepted event that was not
seen before, else in `rejections`. Windows are by the time of receipt. Nothing is dropped for being
late: a row that comes after the watermark (the recorder's clock was set back) changes its old window.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from jobwire.jobs.event import TERMINAL_EVENTS
from jobwire.metrics.buckets import AHEAD_US, buckets_of
from jobwire.metrics.job_totals import STARTED, WAITING, JobTotals, Run, Segment, one_event
from jobwire.metrics.rows import DUPLICATE, NO_TIME, Flags, Ints, Rows

SECOND_US = 1_000_000
WIDTHS_SECONDS = (10, 60)
# How much later than a newer row an older one may come: the recorder stamps in order of arrival, so
# this only covers clocks being set and shards being read in turn.
LATENESS_US = 10 * SECOND_US

Window = tuple[int, int]
"""(width in seconds, start in seconds since the epoch)."""


class TableChanges(NamedTuple):
    """What one batch of rows adds to the tables. Counts are differences, jobs are new totals."""

    windows: Counter[tuple[Window, str, str]]
    rejections: Counter[tuple[Window, str]]
    delays: Counter[tuple[Window, int]]
    ahead: Counter[Window]
    jobs: list[JobTotals]


def fold(rows: Rows, known: Mapping[str, JobTotals], session_of: Callable[[str], str]) -> TableChanges:
    """Return the changes.

    `known` holds the totals of every job in `rows` that has any, and is used up: its values become
    the new totals. `session_of` is asked once for each job that has none.
    """
    jobs = _Jobs(rows, known, session_of)
    fresh = jobs.add_all()
    tenth = rows.received_us // (WIDTHS_SECONDS[0] * SECOND_US)
    return TableChanges(
        windows=_window_counts(rows, fresh, tenth, jobs.sessions),
        rejections=_rejection_counts(rows, fresh, tenth),
        delays=_delay_counts(rows, fresh, tenth),
        ahead=_ahead_counts(rows, fresh, tenth),
        jobs=jobs.changed(),
    )


def watermark_us(rows: Rows, before: int) -> int:
    """Return the watermark after `rows`: it only rises."""
    if not rows.size:
        return before
    return max(before, int(rows.received_us.max()) - LATENESS_US)


class _Jobs:
    """The accepted rows, job by job."""

    def __init__(self, rows: Rows, known: Mapping[str, JobTotals], session_of: Callable[[str], str]) -> None:
        self._rows = rows
        self._known = known
        self._session_of = session_of
        self._totals: dict[int, JobTotals] = {}
        self._fresh = rows.accepted.copy()

    def add_all(self) -> Flags:
        """Add every accepted row to its job; return which rows were new."""
        accepted = np.flatnonzero(self._rows.accepted)
        # By job, and within a job as read: the first copy of an event is the one that counts.
        order = accepted[np.argsort(self._rows.job[accepted], kind="stable")]
        for places, segment in _segments(self._rows, order):
            self._add(places, segment)
        return self._fresh

    def _add(self, places: Ints, segment: Segment) -> None:
        totals = self._of(int(self._rows.job[places[0]]))
        if not totals.overlaps(segment.run.first_seq, segment.run.last_seq):
            totals.add(segment)
            return
        for place in places.tolist():
            seq = int(self._rows.seq[place])
            if totals.overlaps(seq, seq):
                self._fresh[place] = False
            else:
                label = self._rows.labels[self._rows.label[place]]
                totals.add(one_event(seq, int(self._rows.received_us[place]), label))

    def _of(self, job: int) -> JobTotals:
        totals = self._totals.get(job)
        if totals is None:
            job_id = self._rows.jobs[job]
            totals = self._known.get(job_id) or JobTotals(job_id, self._session_of(job_id))
            self._totals[job] = totals
        return totals

    def changed(self) -> list[JobTotals]:
        """Return the totals of all jobs that were touched."""
        return list(self._totals.values())

    @property
    def sessions(self) -> dict[int, str]:
        """Return the session of each touched job, by its code."""
        return {job: totals.session for job, totals in self._totals.items()}


def _segments(rows: Rows, order: Ints) -> Iterable[tuple[Ints, Segment]]:
    """Yield the stretches of `order` in which one job's seqs rise by one, with their contents."""
    if not len(order):
        return
    job, seq, received, label = rows.job[order], rows.seq[order], rows.received_us[order], rows.label[order]
    begins = np.flatnonzero(np.concatenate(([True], (job[1:] != job[:-1]) | (seq[1:] != seq[:-1] + 1))))
    ends = np.append(begins[1:], len(order))
    number = {text: code for code, text in enumerate(rows.labels)}
    is_started = label == number.get(STARTED, -1)
    is_terminal = np.isin(label, [number[text] for text in TERMINAL_EVENTS if text in number])
    waits = np.zeros(len(order), np.int64)
    waits[1:] = np.where(
        label[:-1] == number.get(WAITING, -1), np.maximum(received[1:] - received[:-1], 0), 0
    )
    waits[begins] = 0
    far = np.iinfo(np.int64).max
    columns = zip(
        begins.tolist(),
        ends.tolist(),
        np.add.reduceat(is_started.astype(np.int64), begins).tolist(),
        np.minimum.reduceat(np.where(is_started, received, far), begins).tolist(),
        np.minimum.reduceat(received, begins).tolist(),
        np.minimum.reduceat(np.where(is_terminal, np.arange(len(order)), far), begins).tolist(),
        np.add.reduceat(waits, begins).tolist(),
        strict=True,
    )
    for begin, end, started, started_us, earliest_us, terminal, waiting_us in columns:
        last = end - 1
        run = Run(
            int(seq[begin]),
            int(seq[last]),
            int(received[begin]),
            int(received[last]),
            rows.labels[label[last]],
        )
        found = None
        if terminal != far:
            found = (int(seq[terminal]), int(received[terminal]), rows.labels[label[terminal]])
        yield (
            order[begin:end],
            Segment(run, started, started_us if started else None, earliest_us, found, waiting_us),
        )


def _window_counts(
    rows: Rows, fresh: Flags, tenth: Ints, sessions: Mapping[int, str]
) -> Counter[tuple[Window, str, str]]:
    counts: Counter[tuple[Window, str, str]] = Counter()
    names = sorted(set(sessions.values()))
    place = {name: number for number, name in enumerate(names)}
    of_job = np.zeros(len(rows.jobs), np.int64)
    for job, session in sessions.items():
        of_job[job] = place[session]
    key = (rows.label * max(1, len(names)) + of_job[rows.job])[fresh]
    for window, code, count in _counted(tenth[fresh], key):
        label, session_no = divmod(code, max(1, len(names)))
        counts[window, rows.labels[label], names[session_no]] += count
    return counts


def _rejection_counts(rows: Rows, fresh: Flags, tenth: Ints) -> Counter[tuple[Window, str]]:
    counts: Counter[tuple[Window, str]] = Counter()
    told = rows.note > 0
    refused, repeated = ~rows.accepted & ~told, rows.accepted & ~fresh
    for window, code, count in _counted(tenth[refused], rows.label[refused]):
        counts[window, rows.labels[code]] += count
    for window, _, count in _counted(tenth[repeated], np.zeros(int(repeated.sum()), np.int64)):
        counts[window, DUPLICATE] += count
    for window, note, times in _counted(tenth[told], rows.note[told]):
        for reason, count in rows.notes[note].items():
            counts[window, reason] += count * times
    return counts


def _delay_counts(rows: Rows, fresh: Flags, tenth: Ints) -> Counter[tuple[Window, int]]:
    timed = fresh & (rows.sent_us != NO_TIME)
    buckets = buckets_of(rows.received_us[timed] - rows.sent_us[timed])
    return Counter({(window, code): count for window, code, count in _counted(tenth[timed], buckets)})


def _ahead_counts(rows: Rows, fresh: Flags, tenth: Ints) -> Counter[Window]:
    timed = fresh & (rows.sent_us != NO_TIME)
    ahead = timed.copy()
    ahead[timed] = rows.sent_us[timed] - rows.received_us[timed] > AHEAD_US
    nothing = np.zeros(int(ahead.sum()), np.int64)
    return Counter({window: count for window, _, count in _counted(tenth[ahead], nothing)})


def _counted(tenth: Ints, code: Ints) -> Iterable[tuple[Window, int, int]]:
    """Yield (window, code, count) for both widths; `code` is not negative."""
    if not len(tenth):
        return
    # Each pair as one number: numpy sorts those many times quicker than columns of pairs.
    tens, places = np.unique(tenth, return_inverse=True)
    codes = int(code.max()) + 1
    keys, sizes = np.unique(places * codes + code, return_counts=True)
    wide: Counter[tuple[int, int]] = Counter()
    narrow_seconds, wide_seconds = WIDTHS_SECONDS
    for ten, number, size in zip(
        tens[keys // codes].tolist(), (keys % codes).tolist(), sizes.tolist(), strict=True
    ):
        start = ten * narrow_seconds
        yield (narrow_seconds, start), number, size
        wide[start - start % wide_seconds, number] += size
    for (start, number), size in wide.items():
        yield (wide_seconds, start), number, size
