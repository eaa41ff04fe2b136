"""The tables of facts: rows in, tables changed, inside the transaction of whoever calls."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from jobwire.jobs.fact import Fact, decode_fact
from jobwire.metrics.database import Database
from jobwire.metrics.facts_fold import DecidedJob, End, fold_facts, settle, windows_of
from jobwire.metrics.fold import WIDTHS_SECONDS, Count, Ended
from jobwire.metrics.rows import DUPLICATE, UNREADABLE, FactRow


class AppliedFacts(NamedTuple):
    """What is to be counted: ends as events and facts tell them together, and rows without the shard."""

    ended: Ended
    refused: Iterable[Count]
    lengths: Iterable[Count]
    counts: Iterable[Count]


def apply_facts(
    database: Database, sql: Mapping[str, str], rows: Sequence[FactRow], ended: Ended
) -> AppliedFacts:
    """Store the facts; `ended` is what the batch's events say. Raises SinkError."""
    read = [(row, decode_fact(row.payload.encode(), job_id=row.job_id)) for row in rows]
    facts: list[tuple[FactRow, Fact]] = [(row, fact) for row, fact in read if fact is not None]
    touched = {fact.job_id for _, fact in facts}
    before = {
        row[0]: DecidedJob(*row) for row in database.rows_of(sql["job_facts_of"], touched.union(ended.job))
    }
    changes = fold_facts(facts, before, WIDTHS_SECONDS)
    database.add("job_facts", sorted(changes.jobs.values()), sql["put_job_facts"])
    ends = database.rows_of(sql["ends_of"], touched.difference(ended.job))
    settled = settle(ended, before, {**before, **changes.jobs}, {row[-1]: End(*row[:-1]) for row in ends})
    refused = [(*window, DUPLICATE, count) for window, count in changes.repeated.items()]
    for row, fact in read:
        if fact is None:
            refused += [(*window, UNREADABLE, 1) for window in windows_of(row.told_us, WIDTHS_SECONDS)]
    return AppliedFacts(
        settled.ended,
        refused,
        [*settled.lengths(), *changes.lengths()],
        [(*window, *names, count) for (window, *names), count in changes.counts.items()],
    )
