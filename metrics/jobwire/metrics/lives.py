"""Ids of jobs that come back: an id is 32 random bits, and free again once its job was purged.

A job is its id and the time of its creation, which its `registered` fact tells, or its state. What the
tables have of an earlier job of that id goes on under a name of its own, `ID@CREATED`, and the new one begins
with nothing.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from jobwire.core.clock import utc_timestamp
from jobwire.jobs.fact import Fact, FactKind, decode_fact
from jobwire.journal.entry import STATE_VERDICT
from jobwire.journal.parsing import microsecond_of
from jobwire.metrics.database import Database
from jobwire.metrics.rows import LATENESS_US, Rows

_TELLING = frozenset({str(FactKind.REGISTERED), STATE_VERDICT})


def lives(database: Database, sql: Mapping[str, str], rows: Rows) -> Iterator[Rows]:
    """Yield the rows in parts: before each goes on, an earlier job whose id comes back in it is set aside.

    The caller stores each part before it asks for the next one. Raises SinkError.
    """
    begun = 0
    for place, fact in _newcomers(database, sql, rows):
        if place > begun:
            yield rows.taken(np.arange(begun, place))
        begun = place
        _set_aside(database, sql, fact)
    yield rows.taken(np.arange(begun, rows.size)) if begun else rows


def _newcomers(database: Database, sql: Mapping[str, str], rows: Rows) -> list[tuple[int, Fact]]:
    """Return where jobs are registered of whose id something earlier is known, here or in the tables."""
    telling = [code for code, text in enumerate(rows.labels) if text in _TELLING]
    places = np.flatnonzero(rows.fact & np.isin(rows.label, telling))
    if not places.size:
        return []
    jobs, first = np.unique(rows.job, return_index=True)
    earlier = first[np.searchsorted(jobs, rows.job[places])]
    ids = [rows.jobs[code] for code in np.unique(rows.job[places]).tolist()]
    known: dict[str, int] = dict(database.rows_of(sql["begun_of"], ids))
    found: dict[tuple[str, str], tuple[int, Fact]] = {}
    for place, before in zip(places.tolist(), earlier.tolist(), strict=True):
        job_id = rows.jobs[rows.job[place]]
        begun_us = min(int(rows.received_us[before]), known.get(job_id, int(rows.received_us[place])))
        if begun_us >= rows.received_us[place] - LATENESS_US:
            continue
        # Of a state the first line.
        fact = decode_fact(rows.notes[rows.note[place]].partition("\n")[0].encode(), job_id=job_id)
        # A job that is told late was heard after its creation all the same.
        if fact is not None and begun_us < (microsecond_of(fact.created_at) or 0) - LATENESS_US:
            found.setdefault((job_id, fact.created_at), (place, fact))
    return list(found.values())


def _set_aside(database: Database, sql: Mapping[str, str], fact: Fact) -> None:
    created = database.rows(sql["created_at_of"], (fact.job_id,))
    if created and created[0][0] >= fact.created_at:
        return
    begun = database.rows_of(sql["begun_of"], [fact.job_id])
    since = created[0][0] if created else utc_timestamp(begun[0][1] / 1e6) if begun else ""
    for table in ("job_totals", "job_facts"):
        database.execute(sql[f"set_aside_{table}"], (f"{fact.job_id}@{since}", fact.job_id))
