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
from jobwire.metrics.fold import Count, Ended, end_counts, length_counts
from jobwire.metrics.rows import LATENESS_US, FactRow

_LONGEST = 64
_SECOND_US = 1_000_000
# An owner that nobody named is host:pid; a figure for every process would be one a job.
_PROCESS = re.compile(r":[0-9]+$")
Window = tuple[int, int]
_Length = tuple[int, str, int, int]


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

    `queued` are jobs that were claimed for the first time: when, by which session, after how long.
    """

    jobs: dict[str, DecidedJob]
    counts: Counter[tuple[Window, str, str, str]]
    repeated: Counter[Window]
    queued: list[_Length]

    def lengths(self) -> Iterator[Count]:
        """Yield rows of `histograms` without the shard: from registration to the first claim."""
        yield from length_counts(
            QUEUED, EVERYTHING, [(at, "", waited, weight) for at, _, waited, weight in self.queued]
        )
        yield from length_counts(QUEUED, SESSION, [one for one in self.queued if one[1]])


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
            changes.queued.append((job.claimed_us, job.session, waited, 1))
    return changes


class End(NamedTuple):
    """How a job ended, as `fold.Ended` has it in columns."""

    finished_us: int
    started_us: int
    waiting_us: int
    outcome: str
    session: str


class Settled(NamedTuple):
    """Ends to be counted, taken back where `weight` is -1; `facts` of the same jobs, where there are any."""

    ended: Ended
    facts: list[DecidedJob | None]

    def lengths(self) -> Iterator[Count]:
        """Yield rows of `histograms` without the shard: what only facts tell of jobs that ended."""
        decided = [number for number, facts in enumerate(self.facts) if facts is not None]
        rows = [(number, self.facts[number]) for number in decided]
        for dimension, values in (
            (WORKER, [(number, facts.worker) for number, facts in rows if facts and facts.worker]),
            (ATTEMPT, [(number, str(facts.attempts)) for number, facts in rows if facts]),
            (LABEL, [(number, pair) for number, facts in rows if facts for pair in _pairs(facts.labels)]),
        ):
            places = [number for number, _ in values]
            some = Ended._make([column[place] for place in places] for column in self.ended)
            yield from end_counts(some, dimension, [value for _, value in values])
        picked = [self._pickup(number, facts) for number, facts in rows if facts and facts.claimed_us]
        yield from length_counts(PICKUP, EVERYTHING, [one for one in picked if one is not None])

    def _pickup(self, number: int, facts: DecidedJob) -> _Length | None:
        """Return how long a claimed job took to start; a job that was ended for its worker need not have."""
        if facts.outcome is not None or facts.claimed_us is None:
            return None
        waited = max(0, self.ended.started_us[number] - facts.claimed_us)
        return self.ended.finished_us[number], "", waited, self.ended.weight[number]


def settle(
    ended: Ended,
    before: Mapping[str, DecidedJob],
    after: Mapping[str, DecidedJob],
    known: Mapping[str, End],
) -> Settled:
    """Return the ends to be counted: `ended` is what the batch's events say, `known` what earlier ones said.

    `before` and `after` are the facts of all these jobs around the batch.
    """
    if not (after or known):  # nobody decided anything: what events say holds
        return Settled(ended, [None] * len(ended.weight))
    found = Settled(Ended([], [], [], [], [], [], []), [])
    said: dict[str, list[End | None]] = {job_id: [end, end] for job_id, end in known.items()}
    for *end, weight, job_id in zip(*ended, strict=True):
        said.setdefault(job_id, [None, None])[weight > 0] = End(*end)
    for job_id in (*said, *(job_id for job_id in after if job_id not in said)):
        first, last = said.get(job_id, (None, None))
        old, new = before.get(job_id), after.get(job_id)
        if old is not None and new is not None and old.created_at != new.created_at:
            old = None  # another job, whose end stays counted
        for facts, settled, weight in ((old, _decided(first, old), -1), (new, _decided(last, new), 1)):
            if settled is not None:
                for column, value in zip(found.ended, (*settled, weight, job_id), strict=True):
                    column.append(value)  # type: ignore[attr-defined]  # lists, made above
                found.facts.append(facts)
    return found


def _decided(end: End | None, facts: DecidedJob | None) -> End | None:
    """Return how a job ended, if it did: by a decision, else by its worker's word."""
    if facts is None:
        return end
    if facts.outcome is not None and facts.ended_us is not None:
        begun = next((at for at in (facts.claimed_us, facts.registered_us) if at is not None), facts.ended_us)
        return End(facts.ended_us, min(begun, facts.ended_us), 0, facts.outcome, facts.session)
    return end._replace(session=facts.session or end.session) if end is not None else None


def _pairs(labels: str) -> list[str]:
    return [f"{name}={text}" for name, text in decode_object(labels.encode()).items()]
