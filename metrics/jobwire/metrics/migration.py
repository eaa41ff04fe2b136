"""Tables of an earlier form, taken over into the present one: what is counted stays counted.

Form 1 had windows of 10 and 60 s, delays only, and the percentiles of jobs from the jobs' own rows; form 2
had a shard for each journal; form 3 no table `idle`. Runs inside the transaction that makes the tables.
"""

import json
from collections.abc import Iterator

from jobwire.metrics.buckets import EVERYTHING, SESSION
from jobwire.metrics.database import Database, Row
from jobwire.metrics.fold import Ended, end_counts
from jobwire.metrics.statements import queries, schema

FORM = 4
# From this one on the tables tell how many shards there are.
SHARDED = 3
_OLD = "earlier_"
# Tables whose columns changed after that form, and views in the place of which tables stand.
_REPLACED = {
    1: ("metrics_schema", "progress", "windows", "rejections", "delay_buckets", "delays", "job_totals"),
    2: ("metrics_schema", "progress"),
}
_JOBS_AT_ONCE = 10_000
# Windows of an hour are sums of those of a minute.
_COUNTS = """
INSERT INTO window_counts
SELECT width_seconds, window_start, event_type, session, 0, events FROM earlier_windows;
INSERT INTO window_counts SELECT 3600, window_start / 3600 * 3600, event_type, session, 0, SUM(events)
FROM earlier_windows WHERE width_seconds = 60 GROUP BY 2, 3, 4;
INSERT INTO rejection_counts SELECT width_seconds, window_start, reason, 0, events FROM earlier_rejections;
INSERT INTO rejection_counts SELECT 3600, window_start / 3600 * 3600, reason, 0, SUM(events)
FROM earlier_rejections WHERE width_seconds = 60 GROUP BY 2, 3;
INSERT INTO histograms
SELECT width_seconds, 'delay', '', window_start, '', '', bucket, 0, events FROM earlier_delay_buckets;
INSERT INTO histograms SELECT 3600, 'delay', '', window_start / 3600 * 3600, '', '', bucket, 0, SUM(events)
FROM earlier_delay_buckets WHERE width_seconds = 60 GROUP BY 4, bucket;
INSERT INTO histograms
SELECT width_seconds, 'ahead', '', window_start, '', '', 0, 0, ahead FROM earlier_delays WHERE ahead > 0;
INSERT INTO histograms SELECT 3600, 'ahead', '', window_start / 3600 * 3600, '', '', 0, 0, SUM(ahead)
FROM earlier_delays WHERE width_seconds = 60 AND ahead > 0 GROUP BY 4
"""
_JOBS = """
SELECT job_id, session, started_us, finished_us, terminal_seq, outcome, events, attempts, waiting_us, runs
FROM earlier_job_totals WHERE job_id > ? ORDER BY job_id LIMIT ?
"""


def bring_up(database: Database, found: int, shards: int) -> None:
    """Make the tables for `shards` where `found` is 0, or bring those of form `found` to the present one."""
    present = database.tables()
    database.drop_views()
    replaced = [table for table in _REPLACED.get(found, ()) if table in present]
    for table in replaced:
        database.execute(f"ALTER TABLE {table} RENAME TO {_OLD}{table}")
    for statement in schema():
        database.execute(statement)
    database.execute(queries()["put_form"], (FORM, 1 if found else shards))
    if "progress" in replaced:
        database.execute(
            "INSERT INTO progress SELECT journal, 0, first_offset, next_offset, watermark_us, updated_at "
            "FROM earlier_progress"
        )
    if found == 1:
        for statement in _COUNTS.split(";"):
            database.execute(statement)
        for rows in _pages_of_jobs(database):
            _take_jobs(database, rows)
    for table in replaced:
        database.execute(f"DROP TABLE {_OLD}{table}")


def _pages_of_jobs(database: Database) -> Iterator[list[Row]]:
    last = ""
    while rows := database.rows(_JOBS, (last, _JOBS_AT_ONCE)):
        yield rows
        last = rows[-1][0]


def _take_jobs(database: Database, rows: list[Row]) -> None:
    taken = []
    ended = Ended([], [], [], [], [], [], [])
    for *totals, text in rows:
        *earlier, last = json.loads(text)
        first_seq, last_seq, first_us, last_us, last_event = last
        runs = json.dumps(earlier, separators=(",", ":")) if earlier else None
        taken.append((*totals, first_seq, first_us, last_seq, last_event, last_us, runs))
        job_id, session, started_us, finished_us, _, outcome, _, _, waiting_us = totals
        if finished_us is not None:
            end = (finished_us, started_us, waiting_us, outcome, session, 1, job_id)
            for column, value in zip(ended, end, strict=True):
                column.append(value)  # type: ignore[attr-defined]  # lists, made above
    database.add("job_totals", taken, "")
    counts = {EVERYTHING: [""] * len(ended.weight), SESSION: ended.session}
    for dimension, values in counts.items():
        if any(values) or dimension == EVERYTHING:
            lengths = [(*key, 0, count) for *key, count in end_counts(ended, dimension, values)]
            database.add("histograms", lengths, queries()["add_histograms"])
