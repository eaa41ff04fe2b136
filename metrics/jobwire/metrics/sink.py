"""The metric tables: rows in, tables changed, and the journal offset with them, in one transaction.

The offset stored with the data is what makes every replay harmless. Spark may give a batch again
after a crash, or give its id to another range after its checkpoint was repaired; `apply` takes only
the rows at or above the stored offset, and insists that they begin exactly there.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Self

from jobwire.core.clock import Clock
from jobwire.metrics.buckets import percentiles
from jobwire.metrics.database import Database, Row, chunks
from jobwire.metrics.errors import DataLossError, SinkError
from jobwire.metrics.fold import TableChanges, fold, watermark_us
from jobwire.metrics.job_totals import JobTotals, decode_runs, encode_runs
from jobwire.metrics.rows import Rows
from jobwire.metrics.statements import queries, schema

SCHEMA_VERSION = 1
# The tables that a replay must give again, byte for byte. `delays` follows from `delay_buckets`.
COMPARED = ("windows", "rejections", "delay_buckets", "delays", "job_totals")
_NEVER_US = 0


class AppliedRange(NamedTuple):
    """Rows of the journal in [first_offset, next_offset) are in the tables."""

    first_offset: int
    next_offset: int
    watermark_us: int


class Applied(NamedTuple):
    """What one `apply` did: rows counted, and rows that were in the tables already."""

    rows: int
    repeated: int


class MetricsSink:
    """The tables in one database. One thread at a time; several processes take turns."""

    def __init__(
        self,
        database: Database,
        *,
        clock: Clock,
        session_of: Callable[[str], str],
        fail_on_data_loss: bool = True,
    ) -> None:
        self._database = database
        self._clock = clock
        self._session_of = session_of
        self._fail_on_data_loss = fail_on_data_loss
        self._sql = queries()

    def prepare(self) -> None:
        """Create the tables where they are missing. Raises SinkError for tables of another version."""
        if not self._has_tables():
            with self._database.transaction():
                if not self._has_tables():  # another process was faster
                    for statement in schema():
                        self._database.execute(statement)
                    self._database.execute(self._sql["set_schema_version"], (SCHEMA_VERSION,))
        found = self._database.rows(self._sql["schema_version"])[0][0]
        if found != SCHEMA_VERSION:
            raise SinkError(
                f"the metric tables have form {found}, this program writes {SCHEMA_VERSION}",
                hint="give --sink another place, and `jobwire metrics once` fills it from the journal",
            )

    def _has_tables(self) -> bool:
        return "metrics_schema" in self._database.tables()

    def progress(self) -> dict[str, AppliedRange]:
        """Return how far each journal is folded in, by its identity."""
        return {name: AppliedRange(*rest) for name, *rest in self._database.rows(self._sql["all_progress"])}

    def apply(self, rows: Rows, shards: Sequence[str]) -> Applied:
        """Fold `rows` in; `shards[i]` is the identity of the journal whose rows say shard i.

        All or nothing, durable on return. Raises DataLossError when rows between the stored offset
        and the first row are missing, SinkError when the database fails (then nothing changed).
        """
        with self._database.transaction():
            before = {shard: self._progress_of(name) for shard, name in enumerate(shards)}
            fresh = rows.since({shard: place.next_offset for shard, place in before.items() if place})
            if fresh.size:
                self._check_complete(fresh, before, shards)
                self._write(fold(fresh, self._known_jobs(fresh), self._session_of))
                self._put_progress(fresh, before, shards)
        return Applied(fresh.size, rows.size - fresh.size)

    def clear(self) -> None:
        """Empty all tables for a rebuild; the sessions, which no journal holds, are kept aside."""
        with self._database.transaction():
            self._database.execute(self._sql["keep_sessions"])
            for table in (*COMPARED, "progress"):
                self._database.execute(f"DELETE FROM {table}")  # noqa: S608 - names of ours

    def kept_sessions(self) -> dict[str, str]:
        """Return job id -> session as the tables knew them before a rebuild that is not finished."""
        return dict(self._database.rows(self._sql["kept_sessions"]))

    def drop_kept_sessions(self) -> None:
        """Forget them: the rebuild is finished, and they are in the tables again."""
        self._database.execute(self._sql["drop_kept_sessions"])

    def digests(self) -> dict[str, str]:
        """Return a digest of each table that replays must equal; the order of rows does not matter."""
        return {table: _digest(self._database.scan(f"SELECT * FROM {table}")) for table in COMPARED}  # noqa: S608 - names of ours

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _progress_of(self, journal: str) -> AppliedRange | None:
        found = self._database.rows(self._sql["progress"], (journal,))
        return AppliedRange(*found[0]) if found else None

    def _check_complete(
        self, rows: Rows, before: dict[int, AppliedRange | None], shards: Sequence[str]
    ) -> None:
        for shard, place in before.items():
            offsets = rows.offset[rows.shard == shard]
            if not len(offsets) or not self._fail_on_data_loss:
                continue
            first, last = int(offsets[0]), int(offsets[-1])
            wanted = place.next_offset if place else first
            if first != wanted or last - first + 1 != len(offsets):
                raise DataLossError(
                    f"rows {wanted} and on of journal {shards[shard]} are wanted, "
                    f"{len(offsets)} rows from {first} to {last} came",
                    hint="`jobwire metrics rebuild` computes the tables anew; "
                    "`--allow-data-loss` goes on without the missing rows",
                    wanted=wanted,
                    first_offset=first,
                )

    def _known_jobs(self, rows: Rows) -> dict[str, JobTotals]:
        touched = sorted({rows.jobs[job] for job in set(rows.job[rows.accepted].tolist())})
        known = {}
        for ids in chunks(touched):
            statement = self._sql["job_totals_of"].replace("...", ", ".join("?" * len(ids)))
            for row in self._database.rows(statement, ids):
                totals = _totals_of(row)
                known[totals.job_id] = totals
        return known

    def _write(self, changes: TableChanges) -> None:
        many, sql = self._database.execute_many, self._sql
        many(
            sql["add_windows"],
            [(*window, *names, n) for (window, *names), n in sorted(changes.windows.items())],
        )
        many(
            sql["add_rejections"],
            [(*window, name, n) for (window, name), n in sorted(changes.rejections.items())],
        )
        many(
            sql["add_delay_buckets"],
            [(*window, bucket, n) for (window, bucket), n in sorted(changes.delays.items())],
        )
        self._write_percentiles(changes)
        many(sql["put_job_totals"], [_row_of(totals) for totals in changes.jobs])

    def _write_percentiles(self, changes: TableChanges) -> None:
        touched = {window for window, _ in changes.delays}
        found: dict[tuple[int, int], list[tuple[int, int]]] = {window: [] for window in touched}
        for width in {width for width, _ in touched}:
            starts = [start for wide, start in touched if wide == width]
            between = self._database.rows(self._sql["buckets_between"], (width, min(starts), max(starts)))
            for start, bucket, events in between:
                if (width, start) in found:
                    found[width, start].append((bucket, events))
        self._database.execute_many(
            self._sql["put_delays"],
            [
                (*window, sum(n for _, n in counts), changes.ahead[window], *percentiles(counts))
                for window, counts in sorted(found.items())
            ],
        )

    def _put_progress(
        self, rows: Rows, before: dict[int, AppliedRange | None], shards: Sequence[str]
    ) -> None:
        now = self._clock.now()
        for shard, place in before.items():
            places = rows.shard == shard
            if not places.any():
                continue
            offsets = rows.offset[places]
            first = place.first_offset if place else int(offsets[0])
            watermark = watermark_us(rows, place.watermark_us if place else _NEVER_US)
            self._database.execute(
                self._sql["put_progress"], (shards[shard], first, int(offsets[-1]) + 1, watermark, now)
            )


def _totals_of(row: Row) -> JobTotals:
    totals = JobTotals(row[0], row[1])
    (
        totals.started_us,
        totals.finished_us,
        totals.terminal_seq,
        totals.outcome,
        totals.events,
        totals.attempts,
        totals.inner_waiting_us,
    ) = row[2:9]
    totals.runs = decode_runs(row[9])
    return totals


def _row_of(totals: JobTotals) -> Row:
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
        totals.waiting_since_us,
        totals.last.last_event,
        totals.last.last_us,
        totals.last.last_seq,
        totals.inner_waiting_us,
        encode_runs(totals.runs),
    )


def _digest(rows: Iterable[Row]) -> str:
    # A sum of hashes: no table has to be sorted, or held in memory, to be compared.
    total = sum(int.from_bytes(hashlib.sha256(json.dumps(row).encode()).digest(), "big") for row in rows)
    return f"{total % (1 << 256):064x}"
