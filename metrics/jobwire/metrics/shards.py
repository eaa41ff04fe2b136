"""The tables of all shards: in one PostgreSQL database, or with SQLite a file for each shard.

A SQLite file has one writer at a time, so each task gets a file of its own; `metrics.db` is that of shard 0
and says how many there are. A reader of it attaches the others (database.py). How many may change between two
runs: the jobs move, the counts stay in the first file, since the views add up.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from jobwire.core.clock import Clock
from jobwire.metrics.database import Database, SqliteDatabase, open_database, shard_place
from jobwire.metrics.rows import LATENESS_US
from jobwire.metrics.sink import AppliedRange, MetricsSink
from jobwire.metrics.statements import SUMS, queries, upsert

_JOBS = ("job_totals", "job_facts", "kept_sessions")
CatchUp = Callable[[str, int, int, int], None]
"""Folds in [start, end) of a journal, given its identity, with so many shards."""


def open_shard(sink: str, shard: int, shards: int, **options: Any) -> MetricsSink:
    """Open the tables of one shard to write; `options` as of MetricsSink."""
    database = open_database(shard_place(sink, shard, shards))
    return MetricsSink(database, shard=shard, shards=shards, **options)


class AllShards:
    """What the driver does with the tables: few statements, whatever they hold."""

    def __init__(self, sink: str, *, clock: Clock) -> None:
        self._sink = sink
        self._clock = clock

    def prepare(self, shards: int) -> int:
        """Make the tables for `shards`, or bring them to the present form; return how many they have."""
        with open_shard(self._sink, 0, shards, clock=self._clock) as sink:
            present = sink.count() or shards
        # The first one last: it says that the others are there.
        for place in reversed(range(present)):
            with open_shard(self._sink, place, present, clock=self._clock) as sink:
                sink.prepare()
        return present

    def progress(self) -> dict[str, AppliedRange]:
        """Return how far each journal is folded in, by its identity: what all shards have."""
        with self._reader() as sink:
            return sink.progress()

    def digests(self) -> dict[str, str]:
        """Return a digest of each table that replays must equal."""
        with self._reader() as sink:
            return sink.digests()

    def clear(self) -> None:
        """Empty all tables for a rebuild; the sessions, which no journal holds, are kept aside."""
        for sink in self._files():
            sink.clear()

    def begin(self, identity: str, start: int) -> None:
        """Note a journal of which nothing may be folded yet: no window is final without it."""
        present = self._count()
        for shard in range(present):
            with contextlib.closing(open_database(shard_place(self._sink, shard, present))) as database:
                values = (identity, shard, start, start, self._clock.now())
                database.execute(queries()["begin_progress"], values)

    def rest(self, identity: str, end: int, at_us: int) -> None:
        """Note that a journal ended there at that time: what is received later is stamped later."""
        with contextlib.closing(open_database(self._sink)) as database:
            database.execute(upsert("idle"), (identity, end, at_us - LATENESS_US))

    def drop_kept_sessions(self) -> None:
        """Forget them: the rebuild is finished, and they are in the tables again."""
        for sink in self._files():
            sink.drop_kept_sessions()

    def divide(self, shards: int, catch_up: CatchUp) -> None:
        """Divide the jobs among so many shards. A kill leaves the tables as before or as after.

        What a killed batch committed to some of the shards only, `catch_up` brings to the others first.
        """
        present = self._count()
        with contextlib.closing(open_database(self._sink, read_only=True)) as reader:
            for journal, start, end in reader.rows(queries()["uneven_progress"]):
                catch_up(journal, start, end, present)
        with contextlib.closing(open_database(self._sink)) as database:
            if isinstance(database, SqliteDatabase):
                self._divide_files(database, present, shards)
            else:
                with database.transaction():
                    self._put_progress(database, range(shards))
                    database.execute(queries()["set_shards"], (shards,))

    def _count(self) -> int:
        with contextlib.closing(open_database(self._sink)) as database:
            return int(database.rows(queries()["shards"])[0][0])

    def _reader(self) -> MetricsSink:
        return MetricsSink(open_database(self._sink, read_only=True), clock=self._clock)

    def _files(self) -> Iterator[MetricsSink]:
        present = self._count()
        for place in dict.fromkeys(shard_place(self._sink, shard, present) for shard in range(present)):
            with MetricsSink(open_database(place), clock=self._clock) as sink:
                yield sink

    def _put_progress(self, database: Database, shards: range) -> None:
        """Write that these shards have what all have now."""
        places = self.progress()
        database.execute("DELETE FROM progress")
        for journal, place in places.items():
            for shard in shards:
                database.execute(upsert("progress"), (journal, shard, *place, self._clock.now()))

    def _divide_files(self, main: SqliteDatabase, present: int, shards: int) -> None:
        """Write the new files whole, then change the first one, which says what counts; others go last."""
        old = [Path(shard_place(self._sink, shard, present)) for shard in range(1, present)]
        new = [Path(shard_place(self._sink, shard, shards)) for shard in range(1, shards)]
        main.attach({f"old{number}": path for number, path in enumerate(old)}, shards)
        sources = ["main", *(f"old{number}" for number in range(len(old)))]
        for shard, path in enumerate(new, start=1):
            _remove(path)
            with open_shard(self._sink, shard, shards, clock=self._clock) as sink:
                sink.prepare()
            main.attach({"new": path}, shards)
            with main.transaction():
                for source in sources:
                    _move_jobs(main, source, "new", shard)
            main.execute("DETACH new")
            with contextlib.closing(open_database(str(path))) as database, database.transaction():
                self._put_progress(database, range(shard, shard + 1))
        with main.transaction():
            for table in _JOBS:
                main.execute(f"DELETE FROM main.{table} WHERE shard_of(job_id) <> 0")  # noqa: S608 - names of ours
            for source in sources[1:]:
                _move_jobs(main, source, "main", 0)
                for table in SUMS:
                    # WHERE: SQLite takes ON CONFLICT for a join's otherwise (sqlite.org/lang_upsert.html).
                    main.execute(upsert(table, f"SELECT * FROM {source}.{table} WHERE true"))  # noqa: S608 - names of ours
            self._put_progress(main, range(1))
            main.execute(queries()["set_shards"], (shards,))
        for number in range(len(old)):
            main.execute(f"DETACH old{number}")
        for path in old:
            _remove(path)


def _move_jobs(database: Database, source: str, target: str, shard: int) -> None:
    for table in _JOBS:
        wanted = f"SELECT * FROM {source}.{table} WHERE shard_of(job_id) = ?"  # noqa: S608 - names of ours
        database.execute(f"INSERT INTO {target}.{table} {wanted}", (shard,))


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
