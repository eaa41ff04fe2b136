"""The metric tables: rows in, tables changed, and the journal offset with them, in one transaction.

The offset stored with the data is what makes every replay harmless. A task may run again, here or on another
host, after its driver died or its executor was lost; `apply` takes only the rows at or above the stored
offset, and insists that they begin exactly there.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import NamedTuple, Self

import numpy as np

from jobwire.core.clock import Clock
from jobwire.metrics.buckets import EVERYTHING, SESSION
from jobwire.metrics.database import Database, Row
from jobwire.metrics.errors import DataLossError, SinkError
from jobwire.metrics.facts_sink import apply_facts
from jobwire.metrics.fold import (
    Ended,
    Segments,
    add_segments,
    delay_counts,
    end_counts,
    job_columns,
    rejection_counts,
    segments_of,
    usage_counts,
    watermark_us,
    window_counts,
)
from jobwire.metrics.job_totals import FINISHED_US, SESSION_NAME, JobTotals, continued, row_of, totals_of
from jobwire.metrics.lives import lives
from jobwire.metrics.migration import FORM, OLDEST, bring_up
from jobwire.metrics.retention import KEEP_ALL, Keep
from jobwire.metrics.rows import Flags, Ints, Rows
from jobwire.metrics.statements import COUNTED, queries

# What a replay must give again, byte for byte, and where it is read: whatever the journals' numbers are.
COMPARED = {
    "windows": "windows",
    "rejections": "rejections",
    "histograms": "measured",
    "job_totals": "job_totals",
    "facts": "facts",
    "job_facts": "job_facts",
    "usage": "usage",
}


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
    """One shard of the tables in one database. One thread at a time; several processes take turns.

    `session_of` is asked once for each job, when its first event comes; None knows no sessions.
    """

    def __init__(
        self,
        database: Database,
        *,
        clock: Clock,
        session_of: Callable[[str], str] | None = None,
        fail_on_data_loss: bool = True,
        shard: int = 0,
        shards: int = 1,
        keep: Keep = KEEP_ALL,
    ) -> None:
        self._database = database
        self._shard = shard
        self._shards = shards
        self._keep = keep
        self._clock = clock
        self._session_of = session_of
        self._fail_on_data_loss = fail_on_data_loss
        self._sql = queries()

    def prepare(self) -> None:
        """Make the tables, or take those of an earlier form over. Raises SinkError for a later program's."""
        if self._form() != FORM:
            with self._database.transaction():
                found = self._form()
                if found < FORM:  # no other process was faster
                    bring_up(self._database, found, self._shards)
        if (found := self._form()) != FORM:
            raise SinkError(
                f"the metric tables have form {found}, this program writes {FORM}",
                hint="a later jobwire wrote them: use that one, or give --sink another place",
            )

    def count(self) -> int:
        """Return how many shards the tables have; 0 where there are none yet."""
        form = self._form()
        return int(self._database.rows(self._sql["shards"])[0][0]) if form >= OLDEST else int(form > 0)

    def _form(self) -> int:
        if "metrics_schema" not in self._database.tables():
            return 0
        # Earlier forms tell the version alone.
        return int(self._database.rows(self._sql["form"])[0][0])

    def progress(self) -> dict[str, AppliedRange]:
        """Return how far each journal is folded in, by its identity: what all shards have."""
        return {name: AppliedRange(*rest) for name, *rest in self._database.rows(self._sql["all_progress"])}

    def apply(self, rows: Rows, journal: str) -> Applied:
        """Fold the rows of one journal in, given its identity.

        All or nothing, durable on return. Raises DataLossError when rows between the stored offset
        and the first row are missing, SinkError when the database fails (then nothing changed).
        """
        with self._database.transaction(self._shard):
            found = self._database.rows(self._sql["progress"], (journal, self._shard))
            place = AppliedRange(*found[0]) if found else None
            fresh = rows.since(place.next_offset) if place else rows
            if fresh.begin < fresh.end:
                if self._fail_on_data_loss:
                    _check_complete(fresh, place, journal)
                before = place.watermark_us if place else 0
                fresh = fresh._replace(received_us=np.maximum(fresh.received_us, before))
                for part in lives(self._database, self._sql, fresh):
                    self._write(part)
                watermark = watermark_us(fresh, before)
                begun = place.first_offset if place else fresh.begin
                self._database.execute(
                    self._sql["put_progress"],
                    (journal, self._shard, begun, fresh.end, watermark, self._clock.now()),
                )
                if self._keep.is_due(before, watermark):
                    self._keep.trim(self._database, self._shard, self._shards, watermark)
        return Applied(fresh.size, rows.size - fresh.size)

    def clear(self) -> None:
        """Empty all tables for a rebuild; the sessions, which no journal holds, are kept aside."""
        with self._database.transaction():
            self._database.execute(self._sql["keep_sessions"])
            for table in COUNTED:
                self._database.execute(f"DELETE FROM {table}")  # noqa: S608 - names of ours

    def _sessions_of(self, job_ids: Iterable[str]) -> dict[str, str]:
        """Return the session of each job: what was kept, else what is looked up."""
        if self._session_of is None:
            return {}
        wanted = sorted(job_ids)
        asked = wanted if self._database.rows(self._sql["any_kept_session"]) else []
        kept: dict[str, str] = dict(self._database.rows_of(self._sql["kept_sessions_of"], asked))
        return {name: kept[name] if name in kept else self._session_of(name) for name in wanted}

    def drop_kept_sessions(self) -> None:
        """Forget them: the rebuild is finished, and they are in the tables again."""
        self._database.execute(self._sql["drop_kept_sessions"])

    def digests(self) -> dict[str, str]:
        """Return a digest of each table that replays must equal; the order of rows does not matter."""
        return {
            name: _digest(self._database.scan(f"SELECT * FROM {view}"))  # noqa: S608 - names of ours
            for name, view in COMPARED.items()
        }

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _write(self, rows: Rows) -> None:
        fresh = rows.accepted.copy()
        found = segments_of(rows)
        jobs = _Jobs(rows, self._known(rows, found))
        jobs.asked = self._sessions_of(jobs.names(found.job) - jobs.known.keys())
        missed = self._continue(jobs, found)
        if missed.any():
            self._add_exactly(jobs, found.of(missed), fresh)
        facts = apply_facts(self._database, self._sql, rows.facts, jobs.ended)
        jobs.ended = facts.ended
        for table, counts in (
            ("window_counts", window_counts(rows, fresh, jobs.session, jobs.sessions)),
            ("rejection_counts", chain(rejection_counts(rows, fresh), facts.refused)),
            ("histograms", chain(jobs.histograms(fresh), facts.lengths)),
            ("fact_counts", facts.counts),
        ):
            # Each key once: PostgreSQL refuses to change a row twice in one statement.
            told: dict[Row, int] = {}
            for *key, count in counts:
                where = (*key, self._shard)
                told[where] = told.get(where, 0) + count
            self._database.add(table, [(*key, told[key]) for key in sorted(told)], self._sql[f"add_{table}"])
        used = usage_counts(rows, fresh, jobs.session, jobs.sessions)
        added = [(*key, self._shard, *sums) for key, sums in sorted(used.items())]
        self._database.add("usage_counts", added, self._sql["add_usage_counts"])

    def _known(self, rows: Rows, found: Segments) -> dict[str, Row]:
        """Return the rows of those jobs that have one, by job."""
        ids = [rows.jobs[code] for code in np.unique(found.job).tolist()]
        return {row[0]: row for row in self._database.rows_of(self._sql["job_totals_of"], ids)}

    def _continue(self, jobs: "_Jobs", found: Segments) -> Flags:
        """Store the segments that continue what is known of their job; return which ones do not."""
        missed = ~found.alone
        alone = found.of(~missed)
        places = np.flatnonzero(~missed).tolist()
        put: list[Row] = []
        going_on: list[Row] = []
        segments = zip(*job_columns(jobs.rows, alone), strict=True)
        for place, code, segment in zip(places, alone.job.tolist(), segments, strict=True):
            before = jobs.known.get(segment[0])
            if before is None:
                after: Row | None = (segment[0], jobs.session_of(segment[0]), *segment[2:])
            else:
                after = continued(before, segment)
            if after is None:
                missed[place] = True
                continue
            # The end of a job is in an index; that it goes on changes its row only.
            (put if before is None or after[FINISHED_US] is not None else going_on).append(after)
            jobs.is_now(code, after)
        self._database.add("job_totals", put, self._sql["put_job_totals"])
        self._database.change("job_totals", going_on, self._sql["go_on"], self._sql["put_job_totals"])
        return missed

    def _add_exactly(self, jobs: "_Jobs", found: Segments, fresh: Flags) -> None:
        """Add segments to jobs with gaps, repeated events or an end, each looked at by itself."""
        codes, first = np.unique(found.job, return_index=True)
        changed = []
        ends = np.append(first[1:], len(found.job))
        for code, begin, end in zip(codes.tolist(), first.tolist(), ends.tolist(), strict=True):
            name = jobs.rows.jobs[code]
            known = jobs.known.get(name)
            totals = totals_of(known) if known else JobTotals(name, jobs.session_of(name))
            jobs.take_back(known)
            add_segments(jobs.rows, found.of(slice(begin, end)), totals, fresh)
            changed.append(row_of(totals))
            jobs.is_now(code, changed[-1])
        self._database.add("job_totals", changed, self._sql["put_job_totals"])


class _Jobs:
    """What a batch needs to know of its jobs: their rows before it, their sessions, and who ended."""

    def __init__(self, rows: Rows, known: dict[str, Row]) -> None:
        self.rows = rows
        self.known = known
        self.asked: dict[str, str] = {}
        self.session = np.zeros(len(rows.jobs), np.int64)
        self.sessions = [""]
        self.ended = Ended([], [], [], [], [], [], [])
        self._place = {"": 0}

    def names(self, codes: Ints) -> set[str]:
        """Return the ids of the jobs with these numbers."""
        return {self.rows.jobs[code] for code in codes.tolist()}

    def session_of(self, job_id: str) -> str:
        """Return the session of a job that is new."""
        return self.asked.get(job_id, "")

    def histograms(self, fresh: Flags) -> Iterator[Row]:
        """Yield what the batch adds to `histograms`."""
        yield from delay_counts(self.rows, fresh)
        yield from end_counts(self.ended, EVERYTHING, [""] * len(self.ended.weight))
        if any(self.ended.session):
            yield from end_counts(self.ended, SESSION, self.ended.session)

    def take_back(self, row: Row | None) -> None:
        """Take the end of a job back, if it has one, before its row changes."""
        if row is not None:
            self._end_of(row, -1)

    def is_now(self, code: int, row: Row) -> None:
        """Note the row of a job as it is after the batch."""
        if row[SESSION_NAME]:
            self.session[code] = self._number(row[SESSION_NAME])
        self._end_of(row, 1)

    def _end_of(self, row: Row, weight: int) -> None:
        job_id, session, started_us, finished_us, _, outcome, _, _, waiting_us, *_ = row
        if finished_us is not None:
            values = (finished_us, started_us, waiting_us, outcome, session, weight, job_id)
            for column, value in zip(self.ended, values, strict=True):
                column.append(value)  # type: ignore[attr-defined]  # lists, made above

    def _number(self, session: str) -> int:
        number = self._place.setdefault(session, len(self.sessions))
        if number == len(self.sessions):
            self.sessions.append(session)
        return number


def _check_complete(rows: Rows, place: AppliedRange | None, journal: str) -> None:
    wanted = place.next_offset if place else rows.begin
    if rows.begin != wanted or not rows.complete:
        raise DataLossError(
            f"journal {journal}: rows {wanted} and on are wanted,"
            f" {rows.size} of {rows.begin} to {rows.end} came",
            hint="`jobwire metrics rebuild` computes the tables anew; "
            "`--allow-data-loss` goes on without the missing rows",
            wanted=wanted,
            first_offset=rows.begin,
        )


def _digest(rows: Iterable[Row]) -> str:
    # A sum of hashes: no table has to be sorted, or held in memory, to be compared.
    total = sum(int.from_bytes(hashlib.sha256(json.dumps(row).encode()).digest(), "big") for row in rows)
    return f"{total % (1 << 256):064x}"
