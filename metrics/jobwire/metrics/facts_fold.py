"""The fold from the registry's facts to changes of their tables. Pure.

A job's facts come in the order of their places, and each counts once: whatever brings one again, its
place tells, and a state says all of them each time. A job's id may come back after years: the newer one takes
the row.

How a job ended is a function of what its worker said and of what was decided: a decision goes before a
worker's last word. Each batch adds the difference between that function after it and before it, so events
and facts may come in any order and in any batches.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from jobwire.core.canonical import canonical_json
from jobwire.core.strict_json import decode_object
from jobwire.core.terminal_text import safe
from jobwire.jobs.fact import ENDING_FACTS, Fact, FactKind
from jobwire.journal.parsing import microsecond_of
from jobwire.metrics.buckets import ATTEMPT, EVERYTHING, LABEL, PICKUP, QUEUED, SESSION, WORKER
from jobwire.metrics.fold import Count, Length, end_counts, length_counts
from jobwire.metrics.job_totals import FINISHED_US, SESSION_NAME, STARTED_US, JobRow
from jobwire.metrics.rows import LATENESS_US, FactRow

_LONGEST = 64
_SECOND_US = 1_000_000
# An owner that nobody named is host:pid; a figure for every process would be one a job.
_PROCESS = re.compile(r":[0-9]+$")
Window = tuple[int, int]


class DecidedJob(NamedTuple):
    """The facts of one job: a row of the table `job_facts`."""

    job_id: str
    created_at: str
    place: int = 0
    session: str = ""
    registered_us: int | None = None
    claimed_us: int | None = None
    attempts: int = 0
    requeues: int = 0
    outcome: str | None = None
    ended_us: int | None = None
    ended_by: str = ""
    timeout: str = ""
    worker: str = ""
    labels: str = "{}"
    purged_us: int | None = None

    def after(self, fact: Fact, at_us: int) -> "DecidedJob":
        """Return the facts with one more."""
        job = self._replace(
            place=fact.place,
            session=safe(fact.session)[:_LONGEST],
            attempts=max(self.attempts, fact.attempt),
        )
        if fact.kind == FactKind.REGISTERED:
            labels = canonical_json({name: safe(text) for name, text in fact.labels.items()}).decode()
            return job._replace(registered_us=at_us, labels=labels)
        if fact.kind == FactKind.CLAIMED:
            first = at_us if self.claimed_us is None else self.claimed_us
            return job._replace(claimed_us=first, worker=_PROCESS.sub("", safe(fact.by)))
        if fact.kind == FactKind.REQUEUED:
            return job._replace(requeues=self.requeues + 1)
        if fact.kind in ENDING_FACTS:
            by = safe(fact.by)
            return job._replace(outcome=str(fact.kind), ended_us=at_us, ended_by=by, timeout=fact.timeout)
        return job._replace(purged_us=at_us) if fact.kind == FactKind.PURGED else job


class FactChanges(NamedTuple):
    """What facts add: new rows of jobs, counts by window, kind, timeout, session; repetitions by window.

    `queued` are jobs that were claimed for the first time: how long they had waited, by session.
    """

    jobs: dict[str, DecidedJob]
    counts: Counter[tuple[Window, str, str, str]]
    repeated: Counter[Window]
    queued: list[Length]

    def lengths(self) -> Iterator[Count]:
        """Yield rows of `histograms` without the shard: from registration to the first claim."""
        yield from length_counts(QUEUED, EVERYTHING, [one._replace(value="") for one in self.queued])
        yield from length_counts(QUEUED, SESSION, [one for one in self.queued if one.value])


def windows_of(at_us: int, widths: Iterable[int]) -> list[Window]:
    """Return (width, start) of the windows in which a moment lies."""
    seconds = at_us // _SECOND_US
    return [(width, seconds - seconds % width) for width in widths]


def fold_facts(
    rows: Iterable[tuple[FactRow, Fact]], known: Mapping[str, DecidedJob], widths: Iterable[int]
) -> FactChanges:
    """Return the changes; `known` has the row of every job in `rows` that has one."""
    widths = tuple(widths)
    changes = FactChanges({}, Counter(), Counter(), [])
    for row, fact in rows:
        before = changes.jobs.get(fact.job_id) or known.get(fact.job_id)
        if before is None or fact.created_at > before.created_at:
            before = DecidedJob(fact.job_id, fact.created_at)
        happened = microsecond_of(fact.at)
        at_us = row.told_us if happened is None else min(row.told_us, happened)
        # What is told late changes no window that was final by then.
        windows = windows_of(max(at_us, row.told_us - LATENESS_US), widths)
        if (fact.created_at, fact.place) <= (before.created_at, before.place):
            changes.repeated.update(() if row.again else windows)
            continue
        job = before.after(fact, at_us)
        changes.jobs[job.job_id] = job
        changes.counts.update((window, str(fact.kind), fact.timeout, job.session) for window in windows)
        if before.claimed_us is None and job.claimed_us is not None and job.registered_us is not None:
            waited = max(0, job.claimed_us - job.registered_us)
            changes.queued.append(Length(job.session, job.claimed_us, waited, 1))
    return changes


def end_lengths(
    said: Mapping[str, tuple[JobRow | None, JobRow | None]],
    before: Mapping[str, DecidedJob],
    after: Mapping[str, DecidedJob],
) -> Iterator[Count]:
    """Yield rows of `histograms` without the shard: the ends to be counted, and those to be taken back.

    `said` has, around the batch, the rows of jobs that ended by their events or have facts in it, and
    `before` and `after` the facts of all these. Of no session and no worker nothing is counted.
    """
    weights: list[int] = []
    rows: list[JobRow] = []
    decided: list[tuple[int, JobRow, DecidedJob]] = []
    for job_id, (first, last) in said.items():
        old, new = before.get(job_id), after.get(job_id)
        if old is not None and new is not None and old.created_at != new.created_at:
            old = None  # another job, whose end stays counted
        for weight, word, facts in ((-1, first, old), (1, last, new)):
            row = word if facts is None else _decided(word, facts)
            if row is None or row[FINISHED_US] is None:
                continue
            weights.append(weight)
            rows.append(row)
            if facts is not None:
                decided.append((weight, row, facts))
    yield from end_counts(EVERYTHING, [""] * len(rows), weights, rows)
    ended = zip(weights, rows, strict=True)
    for dimension, ends in (
        (SESSION, [(row[SESSION_NAME], weight, row) for weight, row in ended if row[SESSION_NAME]]),
        (WORKER, [(facts.worker, weight, row) for weight, row, facts in decided if facts.worker]),
        (ATTEMPT, [(str(facts.attempts), weight, row) for weight, row, facts in decided]),
        (LABEL, [(pair, weight, row) for weight, row, facts in decided for pair in _pairs(facts.labels)]),
    ):
        if ends:
            yield from end_counts(dimension, *zip(*ends, strict=True))
    # How long a claimed job took to start; one that was ended for its worker need not have.
    picked = [
        Length("", row[FINISHED_US], max(0, row[STARTED_US] - facts.claimed_us), weight)
        for weight, row, facts in decided
        if facts.outcome is None and facts.claimed_us
    ]
    yield from length_counts(PICKUP, EVERYTHING, picked)


def _decided(row: JobRow | None, facts: DecidedJob) -> JobRow | None:
    """Return a job's row as it ended, if it did: by a decision, else by its worker's word."""
    if facts.outcome is None or facts.ended_us is None:
        return (row[0], facts.session or row[SESSION_NAME], *row[2:]) if row is not None else None
    begun = next((at for at in (facts.claimed_us, facts.registered_us) if at is not None), facts.ended_us)
    start_us = min(begun, facts.ended_us)
    return facts.job_id, facts.session, start_us, facts.ended_us, None, facts.outcome, 0, 0, 0


def _pairs(labels: str) -> list[str]:
    return [f"{name}={text}" for name, text in decode_object(labels.encode()).items()]
