"""The fold from journal rows to changes of the metric tables, in columns. Pure: arrays in, arrays out.

Each row counts once: in `windows` and its job's totals when it is an accepted event that was not
seen before, else in `rejections`. Windows are by the time of receipt. Nothing is dropped for being
late: a row that is older than the watermark before it (the recorder's clock was set back) counts at that
watermark. So a window that lies before it does not change.

What a batch says of a job is a few segments: stretches in which its seqs rise by one. A job with one
segment that continues what the tables know is the common case; every other job is joined from its parts.
"""

import json
from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from jobwire.core.terminal_text import safe
from jobwire.jobs.event import TERMINAL_EVENTS
from jobwire.journal.entry import AGENT_VERDICT, STATE_VERDICT
from jobwire.metrics.buckets import (
    AHEAD,
    AHEAD_US,
    BEGUN,
    DELAY,
    DURATION,
    EVERYTHING,
    SESSION,
    WAITED,
    buckets_of,
)
from jobwire.metrics.job_totals import (
    FINISHED_US,
    OPEN,
    OUTCOME,
    STARTED,
    STARTED_US,
    WAITING,
    WAITING_US,
    JobRow,
    joined,
    overlaps,
    runs_of,
)
from jobwire.metrics.rows import DUPLICATE, LATENESS_US, NO_TIME, Flags, Ints, Rows, counts_of

SECOND_US = 1_000_000
_HOUR_SECONDS = 3600
WIDTHS_SECONDS = (10, 60, 3600)
# Shares of a whole are asked for over minutes at least.
_DIMENSION_WIDTHS = {EVERYTHING: WIDTHS_SECONDS, SESSION: WIDTHS_SECONDS[1:]}
# There may be many workers and labels.
_RARE_WIDTHS = WIDTHS_SECONDS[2:]
_FAR = np.iinfo(np.int64).max
Count = tuple[Any, ...]
"""(width in seconds, start in seconds since the epoch, ..., number)."""


class Segments(NamedTuple):
    """Stretches of one job's accepted rows whose seqs rise by one, by job, and within a job as read.

    `order[begin:end]` are the places of a segment's rows. `started_us` is the earliest `started`, or the
    earliest event where there is none; `terminal` is the place of the terminal event with the lowest seq,
    or -1. `waiting_us` lies between events of the segment.
    """

    order: Ints
    begin: Ints
    end: Ints
    job: Ints
    started: Ints
    started_us: Ints
    terminal: Ints
    waiting_us: Ints

    @property
    def alone(self) -> Flags:
        """Tell which segments are their job's only one."""
        found = np.ones(len(self.job), np.bool_)
        same = self.job[1:] == self.job[:-1]
        found[1:] &= ~same
        found[:-1] &= ~same
        return found

    def of(self, wanted: Flags | slice) -> "Segments":
        """Return the wanted ones."""
        return Segments(self.order, *(column[wanted] for column in self[1:]))


class JobSessions(NamedTuple):
    """Which session works on each job: `of_job` has its place in `names` by the job's number in the rows."""

    of_job: Ints
    names: list[str]


class Length(NamedTuple):
    """A length of time to be counted, or taken back where `weight` is -1, in the window of a moment."""

    value: str
    moment_us: int
    length_us: int
    weight: int


def segments_of(rows: Rows) -> Segments:
    """Return the segments of the accepted rows."""
    accepted = np.flatnonzero(rows.accepted)
    # By job, and within a job as read: the first copy of an event is the one that counts.
    return _segments_at(rows, accepted[np.argsort(rows.job[accepted], kind="stable")])


def _segments_at(rows: Rows, order: Ints) -> Segments:
    """Return the segments of the rows at these places, which are in the order of their jobs."""
    job, seq, received, label = rows.job[order], rows.seq[order], rows.received_us[order], rows.label[order]
    if not len(order):
        return Segments(order, *(order for _ in range(7)))
    begin = np.flatnonzero(np.concatenate(([True], (job[1:] != job[:-1]) | (seq[1:] != seq[:-1] + 1))))
    number = {text: code for code, text in enumerate(rows.labels)}
    is_started = label == number.get(STARTED, -1)
    is_terminal = np.isin(label, [number[text] for text in TERMINAL_EVENTS if text in number])
    waits = np.zeros(len(order), np.int64)
    waits[1:] = np.where(
        label[:-1] == number.get(WAITING, -1), np.maximum(received[1:] - received[:-1], 0), 0
    )
    waits[begin] = 0
    started = np.add.reduceat(is_started.astype(np.int64), begin)
    began_us = np.minimum.reduceat(np.where(is_started, received, _FAR), begin)
    terminal = np.minimum.reduceat(np.where(is_terminal, np.arange(len(order)), _FAR), begin)
    return Segments(
        order=order,
        begin=begin,
        end=np.append(begin[1:], len(order)),
        job=job[begin],
        started=started,
        started_us=np.where(started > 0, began_us, np.minimum.reduceat(received, begin)),
        terminal=np.where(terminal == _FAR, -1, order[np.where(terminal == _FAR, 0, terminal)]),
        waiting_us=np.add.reduceat(waits, begin),
    )


def job_rows(rows: Rows, found: Segments, sessions: JobSessions) -> Iterator[JobRow]:
    """Yield each segment as a job of its own: a row of the table `job_totals`."""
    first, last = found.order[found.begin], found.order[found.end - 1]
    ended = found.terminal >= 0
    outcome = np.where(ended, rows.label[found.terminal], len(rows.labels))

    def where_ended(column: Ints) -> list[int | None]:
        values: list[int | None] = column[found.terminal].tolist()
        for place in np.flatnonzero(~ended).tolist():
            values[place] = None
        return values

    def texts(codes: Ints, names: Sequence[str]) -> list[str]:
        return [names[code] for code in codes.tolist()]

    return zip(
        texts(found.job, rows.jobs),
        texts(sessions.of_job[found.job], sessions.names),
        found.started_us.tolist(),
        where_ended(rows.received_us),
        where_ended(rows.seq),
        texts(outcome, [*rows.labels, OPEN]),
        (found.end - found.begin).tolist(),
        found.started.tolist(),
        found.waiting_us.tolist(),
        rows.seq[first].tolist(),
        rows.received_us[first].tolist(),
        rows.seq[last].tolist(),
        texts(rows.label[last], rows.labels),
        rows.received_us[last].tolist(),
        repeat(None),
        strict=False,
    )


def with_segments(
    rows: Rows, found: Segments, sessions: JobSessions, known: JobRow | None, fresh: Flags
) -> JobRow:
    """Return a job's row after its segments, whatever they repeat or leave out, given the row before.

    Clears `fresh` where an event was known already.
    """
    parts = [known] if known else []
    runs = runs_of(known) if known else []
    for number, row in enumerate(job_rows(rows, found, sessions)):
        new: Iterable[JobRow] = (row,)
        places = found.order[found.begin[number] : found.end[number]]
        (run,) = runs_of(row)
        if overlaps(runs, run.first_seq, run.last_seq):
            repeated = np.array([overlaps(runs, seq, seq) for seq in rows.seq[places].tolist()], np.bool_)
            fresh[places[repeated]] = False
            new = job_rows(rows, _segments_at(rows, places[~repeated]), sessions)
        for part in new:
            parts.append(part)
            (run,) = runs_of(part)
            insort(runs, run)
    return joined(parts)


def watermark_us(rows: Rows, before: int) -> int:
    """Return the watermark after `rows`: it only rises, also where nothing of the range is the shard's."""
    return max(before, rows.newest_us - LATENESS_US)


def window_counts(rows: Rows, fresh: Flags, sessions: JobSessions) -> Iterator[Count]:
    """Yield (width, start, event type, session, events)."""
    code = (rows.label * len(sessions.names) + sessions.of_job[rows.job])[fresh]
    for width, start, number, count in _counted(rows.received_us[fresh], code):
        label, place = divmod(number, len(sessions.names))
        yield width, start, rows.labels[label], sessions.names[place], count


def rejection_counts(rows: Rows, fresh: Flags) -> Iterator[Count]:
    """Yield (width, start, reason, messages); states, and what agents and store say, are no refusals."""
    told = (rows.note > 0) & ~rows.fact & ~rows.accepted
    genuine = [code for code, text in enumerate(rows.labels) if text in {AGENT_VERDICT, STATE_VERDICT}]
    others = np.isin(rows.label, genuine)
    refused, repeated = ~(rows.accepted | told | rows.fact | others), rows.accepted & ~fresh
    reasons = [*rows.labels, DUPLICATE]
    code = np.where(repeated, len(rows.labels), rows.label)
    wanted = refused | repeated
    for width, start, number, count in _counted(rows.received_us[wanted], code[wanted]):
        yield width, start, reasons[number], count
    for width, start, note, times in _counted(rows.received_us[told], rows.note[told]):
        for reason, count in counts_of(rows.notes[note]).items():
            yield width, start, reason, count * times


def usage_counts(rows: Rows, fresh: Flags, sessions: JobSessions) -> dict[tuple[int, str, str], list[int]]:
    """Return events, tokens in and out, and millionths of a dollar by (hour, session, model)."""
    sums: dict[tuple[int, str, str], list[int]] = {}
    places = np.flatnonzero(fresh & (rows.note > 0))
    hours = rows.received_us[places] // (_HOUR_SECONDS * SECOND_US) * _HOUR_SECONDS
    for place, hour in zip(places.tolist(), hours.tolist(), strict=True):
        *amounts, model = json.loads(rows.notes[rows.note[place]])
        key = hour, sessions.names[sessions.of_job[rows.job[place]]], safe(model)
        known = sums.setdefault(key, [0, 0, 0, 0])
        sums[key] = [total + amount for total, amount in zip(known, (1, *amounts), strict=True)]
    return sums


def delay_counts(rows: Rows, fresh: Flags) -> Iterator[Count]:
    """Yield rows of `histograms` without the shard: the way of each event to the recorder."""
    timed = fresh & (rows.sent_us != NO_TIME)
    received, delays = rows.received_us[timed], (rows.received_us - rows.sent_us)[timed]
    for width, start, bucket, count in _counted(received, buckets_of(delays)):
        yield width, DELAY, EVERYTHING, start, "", "", bucket, count
    early = received[delays < -AHEAD_US]
    for width, start, _, count in _counted(early, np.zeros(len(early), np.int64)):
        yield width, AHEAD, EVERYTHING, start, "", "", 0, count


def end_counts(
    dimension: str, values: Sequence[str], weights: Sequence[int], ends: Sequence[JobRow]
) -> Iterator[Count]:
    """Yield rows of `histograms` without the shard.

    `ends` are the rows of jobs that ended; the weight of one is -1 where it is to be taken back. Lengths are
    counted in the window of the end, `begun` in that of the start.
    """
    kinds = list(zip(values, [row[OUTCOME] for row in ends], strict=True))
    finished, started, waited = (
        np.array([row[place] for row in ends], np.int64) for place in (FINISHED_US, STARTED_US, WAITING_US)
    )
    weight = np.array(weights, np.int64)
    every = np.ones(len(kinds), np.bool_)
    for measure, moments, lengths, wanted in (
        (DURATION, finished, finished - started, every),
        (WAITED, finished, waited, waited > 0),
        (BEGUN, started, np.zeros(len(kinds), np.int64), every),
    ):
        what = measure, dimension
        yield from _lengths_counted(what, kinds, moments, lengths, np.where(wanted, weight, 0))


def length_counts(measure: str, dimension: str, lengths: Sequence[Length]) -> Iterator[Count]:
    """Yield rows of `histograms` without the shard and outcome."""
    if lengths:
        values, *columns = zip(*lengths, strict=True)
        kinds = [(value, "") for value in values]
        arrays = (np.array(column, np.int64) for column in columns)
        yield from _lengths_counted((measure, dimension), kinds, *arrays)


def _lengths_counted(
    what: tuple[str, str], kinds: Sequence[tuple[str, str]], moments: Ints, lengths: Ints, weight: Ints
) -> Iterator[Count]:
    """Yield what `length_counts` does, given measure and dimension, and value and outcome of each length."""
    places = {kind: number for number, kind in enumerate(dict.fromkeys(kinds))}
    names = list(places)
    code = buckets_of(lengths) * len(names) + np.array([places[kind] for kind in kinds], np.int64)
    widths = _DIMENSION_WIDTHS.get(what[1], _RARE_WIDTHS)
    for width, start, number, count in _counted(moments, code, weight, widths=widths):
        bucket, which = divmod(number, len(names))
        yield width, *what, start, *names[which], bucket, count


def _counted(
    moments: Ints, code: Ints, weight: Ints | None = None, *, widths: Sequence[int] = WIDTHS_SECONDS
) -> Iterator[tuple[int, int, int, int]]:
    """Yield (width, start, code, count); each width is a multiple of the last, `code` is not negative."""
    if not len(moments):
        return
    # Each pair as one number: numpy sorts those many times quicker than columns of pairs.
    codes = int(code.max()) + 1
    keys = moments // (widths[0] * SECOND_US) * codes + code
    counts = np.ones(len(keys), np.int64) if weight is None else weight
    narrower = widths[0]
    for width in widths:
        keys = keys // codes // (width // narrower) * codes + keys % codes
        narrower = width
        keys, places = np.unique(keys, return_inverse=True)
        counts = np.bincount(places, counts, len(keys)).astype(np.int64)
        starts = keys // codes * width
        for start, number, count in zip(
            starts.tolist(), (keys % codes).tolist(), counts.tolist(), strict=True
        ):
            if count:
                yield width, start, number, count
