"""The metric tables: rows in, tables changed, and the journal offset with them, in one transaction.

The offset stored with the data is what makes every replay harmless. A task may run again, here or on another
host, after its driver died or its executor was lost; `apply` takes only the rows at or above the stored
offset, and insists that they begin exactly there.
"""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, Self

import numpy as np

from jobwire.core.clock import Clock
from jobwire.jobs.fact import Fact, decode_fact
from jobwire.metrics.database import Database, Row
from jobwire.metrics.errors import DataLossError, SinkError
from jobwire.metrics.facts_fold import (
    DecidedJob,
    FactChanges,
    Window,
    end_lengths,
    fold_facts,
    windows_of,
)
from jobwire.metrics.fold import (
    WIDTHS_SECONDS,
    Count,
    JobSessions,
    Segments,
    delay_counts,
    job_rows,
    rejection_counts,
    segments_of,
    usage_counts,
    watermark_us,
    window_counts,
    with_segments,
)
from jobwire.metrics.job_totals import FINISHED_US, SESSION_NAME, JobRow, continued
from jobwire.metrics.lives import lives
from jobwire.metrics.retention import KEEP_ALL, Keep
from jobwire.metrics.rows import DUPLICATE, UNREADABLE, FactRow, Flags, Rows
from jobwire.metrics.statements import COUNTED, queries, schema, upsert

FORM = 4
# From this one on the tables tell how many shards there are; it had no table `idle`.
OLDEST = 3

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


# Rows of `job_totals` around a batch, by job.
Said = dict[str, tuple[JobRow | None, JobRow | None]]


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
                    self._bring_up(found)
        if (found := self._form()) != FORM:
            raise SinkError(
                f"the metric tables have form {found}, this program writes {FORM}",
                hint="a later jobwire wrote them: use that one, or give --sink another place",
            )

    def _bring_up(self, found: int) -> None:
        """Make the tables, or bring those of the form `found` to the present one: what is counted stays."""
        if 0 < found < OLDEST:
            raise SinkError(
                f"the metric tables have form {found}, of a jobwire before its first release",
                hint="move them away: `jobwire metrics once` computes them from the journal "
                "and its sealed files",
            )
        self._database.drop_views()
        for statement in schema():
            self._database.execute(statement)
        # How many shards there are, the older row tells.
        self._database.execute(self._sql["put_form"], (FORM, 1 if found else self._shards))

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
            stored = AppliedRange(*found[0]) if found else None
            fresh = rows.since(stored.next_offset) if stored else rows
            if fresh.begin < fresh.end:
                if self._fail_on_data_loss:
                    _check_complete(fresh, stored, journal)
                before = stored.watermark_us if stored else 0
                fresh = fresh._replace(received_us=np.maximum(fresh.received_us, before))
                for part in lives(self._database, self._sql, fresh):
                    self._write(part)
                watermark = watermark_us(fresh, before)
                begun = stored.first_offset if stored else fresh.begin
                place = (journal, self._shard, begun, fresh.end, watermark, self._clock.now())
                self._database.execute(upsert("progress"), place)
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
        ids = {code: rows.jobs[code] for code in np.unique(found.job).tolist()}
        known = {row[0]: row for row in self._database.rows_of(self._sql["job_totals_of"], ids.values())}
        sessions = self._sessions(rows, ids, known)
        said = self._add_events(rows, found, known, sessions, fresh)
        facts, unreadable = _facts_in(rows)
        changes, ends = self._add_facts(facts, said)
        refused = chain(
            rejection_counts(rows, fresh),
            ((*window, DUPLICATE, count) for window, count in changes.repeated.items()),
            ((*window, UNREADABLE, count) for window, count in unreadable.items()),
        )
        lengths = chain(delay_counts(rows, fresh), ends, changes.lengths())
        told = ((*window, *names, count) for (window, *names), count in changes.counts.items())
        self._count("window_counts", window_counts(rows, fresh, sessions))
        self._count("rejection_counts", refused)
        self._count("histograms", lengths)
        self._count("fact_counts", told)
        used = usage_counts(rows, fresh, sessions)
        self._database.add("usage_counts", [(*key, self._shard, *sums) for key, sums in sorted(used.items())])

    def _count(self, table: str, counts: Iterable[Count]) -> None:
        # Each key once: PostgreSQL refuses to change a row twice in one statement.
        told: defaultdict[Row, int] = defaultdict(int)
        for *key, count in counts:
            told[*key, self._shard] += count
        self._database.add(table, [(*key, told[key]) for key in sorted(told)])

    def _sessions(self, rows: Rows, ids: Mapping[int, str], known: Mapping[str, Row]) -> JobSessions:
        """Return the sessions of the jobs with these numbers: what is stored, else what is found."""
        names = self._sessions_of(ids.values() - known.keys())
        names |= {job_id: row[SESSION_NAME] for job_id, row in known.items()}
        of_job = np.zeros(len(rows.jobs), np.int64)
        places = {"": 0}
        for code, job_id in ids.items():
            if name := names.get(job_id):
                of_job[code] = places.setdefault(name, len(places))
        return JobSessions(of_job, list(places))

    def _add_events(
        self, rows: Rows, found: Segments, known: Mapping[str, Row], sessions: JobSessions, fresh: Flags
    ) -> Said:
        """Store what the segments say of their jobs; return the rows around it of those that ended."""
        said: Said = {}
        put: list[Row] = []
        going_on: list[Row] = []
        exactly = ~found.alone
        alone = found.of(found.alone)
        places = np.flatnonzero(found.alone).tolist()
        for place, segment in zip(places, job_rows(rows, alone, sessions), strict=True):
            before = known.get(segment[0])
            after = segment if before is None else continued(before, segment)
            if after is None:
                exactly[place] = True
            elif after[FINISHED_US] is not None:
                said[after[0]] = before, after
                put.append(after)
            else:
                # The end of a job is in an index; that it goes on changes its row only.
                (put if before is None else going_on).append(after)
        # Jobs with gaps, repeated events or an end, each looked at by itself.
        rest = found.of(exactly)
        codes, first = np.unique(rest.job, return_index=True)
        for code, begin, end in zip(
            codes.tolist(), first.tolist(), [*first[1:].tolist(), None], strict=False
        ):
            before = known.get(rows.jobs[code])
            put.append(with_segments(rows, rest.of(slice(begin, end)), sessions, before, fresh))
            if (before and before[FINISHED_US] is not None) or put[-1][FINISHED_US] is not None:
                said[rows.jobs[code]] = before, put[-1]
        self._database.add("job_totals", put)
        self._database.change("job_totals", going_on, self._sql["go_on"])
        return said

    def _add_facts(
        self, facts: Sequence[tuple[FactRow, Fact]], said: Said
    ) -> tuple[FactChanges, Iterator[Count]]:
        """Store the facts; return what they change, and how long jobs that ended took."""
        others = {fact.job_id for _, fact in facts} - said.keys()
        before = {
            row[0]: DecidedJob(*row)
            for row in self._database.rows_of(self._sql["job_facts_of"], others | said.keys())
        }
        changes = fold_facts(facts, before, WIDTHS_SECONDS)
        self._database.add("job_facts", sorted(changes.jobs.values()))
        same = {row[0]: row for row in self._database.rows_of(self._sql["job_totals_of"], others)}
        around = said | {job_id: (same.get(job_id), same.get(job_id)) for job_id in others}
        return changes, end_lengths(around, before, before | changes.jobs)


def _facts_in(rows: Rows) -> tuple[list[tuple[FactRow, Fact]], Counter[Window]]:
    """Return the facts that can be read, and the windows in which others were told."""
    read: list[tuple[FactRow, Fact]] = []
    unreadable: Counter[Window] = Counter()
    for row in rows.facts:
        fact = decode_fact(row.payload.encode(), job_id=row.job_id)
        if fact is None:
            unreadable.update(windows_of(row.told_us, WIDTHS_SECONDS))
        else:
            read.append((row, fact))
    return read, unreadable


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
