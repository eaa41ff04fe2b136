"""The fold from journal rows to changes of the metric tables, in columns. Pure: arrays in, arrays out.

Each row counts once: in `windows` and its job's totals when it is an accepted event that was not
seen before, else in `rejections`. Windows are by the time of receipt. Nothing is dropped for being
late: a row that is older than the watermark before it (the recorder's clock was set back) counts at that
watermark. So a window that lies before it does not change.

What a batch says of a job is a few segments: stretches in which its seqs rise by one. A job with one
segment that continues what the tables know is the common case, and stays in columns up to the
database; every other job goes through `JobTotals`.
"""

import json
from collections.abc import Iterator, Sequence
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
from jobwire.metrics.job_totals import OPEN, STARTED, WAITING, JobTotals, Run, Segment, one_event
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


class Ended(NamedTuple):
    """Jobs that ended (`weight` 1), or whose known end is to be taken back (-1); a column each."""

    finished_us: Sequence[int]
    started_us: Sequence[int]
    waiting_us: Sequence[int]
    outcome: Sequence[str]
    session: Sequence[str]
    weight: Sequence[int]
    job: Sequence[str]


def segments_of(rows: Rows) -> Segments:
    """Return the segments of the accepted rows."""
    accepted = np.flatnonzero(rows.accepted)
    # By job, and within a job as read: the first copy of an event is the one that counts.
    order = accepted[np.argsort(rows.job[accepted], kind="stable")]
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


def job_columns(rows: Rows, found: Segments) -> list[Sequence[Any]]:
    """Return the segments as columns of the table `job_totals`, in its order: each as a job of its own.

    Without the session, which rows do not tell.
    """
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

    count = len(found.job)
    return [
        texts(found.job, rows.jobs),
        [""] * count,
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
        [None] * count,
    ]


def add_segments(rows: Rows, found: Segments, totals: JobTotals, fresh: Flags) -> None:
    """Add one job's segments to its totals; clear `fresh` where a row was known already."""
    for number in range(len(found.job)):
        places = found.order[found.begin[number] : found.end[number]]
        first, last = int(places[0]), int(places[-1])
        if not totals.overlaps(int(rows.seq[first]), int(rows.seq[last])):
            totals.add(_segment(rows, found, number, first, last))
            continue
        for place in places.tolist():
            seq = int(rows.seq[place])
            if totals.overlaps(seq, seq):
                fresh[place] = False
            else:
                totals.add(one_event(seq, int(rows.received_us[place]), rows.labels[rows.label[place]]))


def _segment(rows: Rows, found: Segments, number: int, first: int, last: int) -> Segment:
    def at(place: int) -> tuple[int, int, str]:
        return int(rows.seq[place]), int(rows.received_us[place]), rows.labels[rows.label[place]]

    (first_seq, first_us, _), (last_seq, last_us, last_event) = at(first), at(last)
    terminal, started = int(found.terminal[number]), int(found.started[number])
    begun_us = int(found.started_us[number])
    return Segment(
        run=Run(first_seq, last_seq, first_us, last_us, last_event),
        started=started,
        started_us=begun_us if started else None,
        earliest_us=begun_us,
        terminal=at(terminal) if terminal >= 0 else None,
        waiting_us=int(found.waiting_us[number]),
    )


def watermark_us(rows: Rows, before: int) -> int:
    """Return the watermark after `rows`: it only rises, also where nothing of the range is the shard's."""
    return max(before, rows.newest_us - LATENESS_US)


def window_counts(rows: Rows, fresh: Flags, session: Ints, sessions: Sequence[str]) -> Iterator[Count]:
    """Yield (width, start, event type, session, events); `session` holds each job's place in `sessions`."""
    code = (rows.label * len(sessions) + session[rows.job])[fresh]
    for width, start, number, count in _counted(rows.received_us[fresh], code):
        label, place = divmod(number, len(sessions))
        yield width, start, rows.labels[label], sessions[place], count


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


def usage_counts(
    rows: Rows, fresh: Flags, session: Ints, sessions: Sequence[str]
) -> dict[tuple[int, str, str], list[int]]:
    """Return events, tokens in and out, and millionths of a dollar by (hour, session, model)."""
    sums: dict[tuple[int, str, str], list[int]] = {}
    places = np.flatnonzero(fresh & (rows.note > 0))
    hours = rows.received_us[places] // (_HOUR_SECONDS * SECOND_US) * _HOUR_SECONDS
    for place, hour in zip(places.tolist(), hours.tolist(), strict=True):
        *amounts, model = json.loads(rows.notes[rows.note[place]])
        key = hour, sessions[session[rows.job[place]]], safe(model)
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


def end_counts(ended: Ended, dimension: str, values: Sequence[str]) -> Iterator[Count]:
    """Yield rows of `histograms` without the shard: jobs that ended, by what `dimension` says of each.

    Lengths are counted in the window of the end, `begun` in that of the start.
    """
    if not ended.weight:
        return
    pairs = list(zip(values, ended.outcome, strict=True))
    kinds = sorted(set(pairs))
    place = {kind: number for number, kind in enumerate(kinds)}
    kind = np.array([place[pair] for pair in pairs], np.int64)
    finished, started, waited, weight = (
        np.array(column, np.int64)
        for column in (ended.finished_us, ended.started_us, ended.waiting_us, ended.weight)
    )
    every = np.ones(len(kind), np.bool_)
    for measure, moments, lengths, wanted in (
        (DURATION, finished, buckets_of(finished - started), every),
        (WAITED, finished, buckets_of(waited), waited > 0),
        (BEGUN, started, np.zeros(len(kind), np.int64), every),
    ):
        widths = _DIMENSION_WIDTHS.get(dimension, _RARE_WIDTHS)
        code = lengths * len(kinds) + kind
        for width, start, number, count in _counted(
            moments[wanted], code[wanted], weight[wanted], widths=widths
        ):
            bucket, which = divmod(number, len(kinds))
            yield width, measure, dimension, start, *kinds[which], bucket, count


def length_counts(
    measure: str, dimension: str, lengths: Sequence[tuple[int, str, int, int]]
) -> Iterator[Count]:
    """Yield rows of `histograms` without the shard and outcome, for (moment, value, length, weight) each."""
    if not lengths:
        return
    values = sorted({value for _, value, _, _ in lengths})
    place = {value: number for number, value in enumerate(values)}
    moments, which, long, weight = (
        np.array(column, np.int64)
        for column in zip(*((at, place[value], us, w) for at, value, us, w in lengths), strict=True)
    )
    code = buckets_of(long) * len(values) + which
    widths = _DIMENSION_WIDTHS.get(dimension, _RARE_WIDTHS)
    for width, start, number, count in _counted(moments, code, weight, widths=widths):
        bucket, value = divmod(number, len(values))
        yield width, measure, dimension, start, values[value], "", bucket, count


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
