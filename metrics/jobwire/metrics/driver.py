"""The process that holds Spark: one query, its history, its health; ends on request or on failure.

Runs as a child of `jobwire metrics` (supervisor.py), or by itself under spark-submit (job.py). It
reports what happens as small dicts: {"kind": "ready" | "batch" | "note" | "done", ...}.
"""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jobwire.core.clock import Clock, SystemClock
from jobwire.core.errors import JobwireError
from jobwire.journal.errors import truncated
from jobwire.journal.reader import JournalReader
from jobwire.metrics.database import open_database
from jobwire.metrics.errors import FolderError, QueryError, SinkError
from jobwire.metrics.failures import failure_of, may_pass
from jobwire.metrics.fold import WIDTHS_SECONDS
from jobwire.metrics.health import BatchHealth, HealthTable, read_progress
from jobwire.metrics.pipeline import Journal, Pipeline, oldest, open_journals
from jobwire.metrics.sealer import Sealer
from jobwire.metrics.session import QUERY_SETTINGS, QUICK_JAVA, SparkSettings, start_session
from jobwire.metrics.settings import MetricsSettings
from jobwire.metrics.shards import AllShards
from jobwire.metrics.sink import AppliedRange
from jobwire.metrics.source.ingest import Ingest
from jobwire.metrics.source.options import SourceOptions

Report = Callable[[dict[str, object]], None]
# Queries in a row that fail before a batch is through: then the JVM may be sick, and a fresh one is due.
_TRIES = 3
_RETRY_SECONDS = 0.5
# A driver whose supervisor was killed finishes its batch first.
_LOCK_SECONDS = 60.0
_STEP_SECONDS = 0.2
_OWN_GROUP = "jobwire-metrics"
_MICROSECONDS = 1_000_000


class Driver:
    """Everything one run needs, opened by `running` and closed after it."""

    def __init__(
        self, *, settings: MetricsSettings, report: Report, stop: threading.Event, clock: Clock | None = None
    ) -> None:
        self._settings = settings
        self._report = report
        self._stop = stop
        self._clock = clock if clock is not None else SystemClock()
        self._sealer = Sealer(settings, note=self._note, stop=stop, clock=self._clock)
        self._batches = 0
        self._rested_at = self._clock.monotonic()
        self._ingests: list[Ingest] = []
        self._health: HealthTable | None = None
        self._told = -1

    def run(self, *, available_now: bool) -> None:
        """Follow the journals until `stop` is set, or to their present end. Raises JobwireError."""
        with self._running() as (session, tables):
            failures = 0
            while not self._stop.is_set():
                before = self._batches
                try:
                    self._query(session, tables, available_now=available_now)
                except JobwireError as error:
                    failures = 1 if self._batches > before else failures + 1
                    if failures >= _TRIES or not may_pass(error):
                        raise
                    if not _is_alive(session):
                        raise QueryError(
                            "the Spark JVM is gone", hint="its log tells why", cause="JVM", retry=True
                        ) from error
                    self._note(f"{error.message}; trying again")
                    self._stop.wait(_RETRY_SECONDS)
                else:
                    return

    def rebuild(self) -> None:
        """Compute tables and history anew, compare, and report the digests. Raises JobwireError."""
        with self._running() as (session, tables):
            before, digests = tables.progress(), tables.digests()
            journals = [self._whole(one, before) for one in open_journals(self._settings, before)]
            tables.clear()
            pipeline = Pipeline(session=session, settings=self._settings, journals=journals)
            rows = 0
            for journal in journals:
                place = before.get(journal.identity)
                end = place.next_offset if place else journal.start
                for first in range(journal.start, end, self._settings.max_rows):
                    last = min(end, first + self._settings.max_rows)
                    if self._stop.is_set():
                        self._note("stopped in the middle: the next run goes on with the rest of the journal")
                        return
                    counts = pipeline.replay(journal, first, last)
                    rows += sum(count.rows for count in counts)
                    self._tell_damage(sum(count.damaged for count in counts))
                    self._report({"kind": "batch", "batch": -1, "rows": last - first, "backlog": end - last})
            tables.drop_kept_sessions()
            again = tables.digests()
            self._sealer.seal(journals, now=True)
            self._report(
                {
                    "kind": "rebuilt",
                    "rows": rows,
                    "identical": again == digests,
                    "changed": sorted(table for table in digests if digests[table] != again[table]),
                    "digests": again,
                }
            )

    def _whole(self, journal: Journal, before: dict[str, AppliedRange]) -> Journal:
        with JournalReader(journal.directory) as reader:
            first, end = oldest(self._settings, reader), reader.durable_offset
        place = before.get(journal.identity)
        if place is not None and place.first_offset < first and not self._settings.allow_data_loss:
            raise truncated(place.first_offset, first, end)
        return journal._replace(start=max(first, place.first_offset if place else first))

    @contextlib.contextmanager
    def _running(self) -> Iterator[tuple[Any, AllShards]]:
        settings = self._settings
        with self._locked(), contextlib.ExitStack() as stack:
            tables = AllShards(settings.sink, clock=self._clock)
            present = tables.prepare(settings.shards)
            for ingest in self._recorders():
                stack.callback(ingest.close)
                ingest.start()
                self._ingests.append(ingest)
            # Its own connection, whose commits wait for no disk.
            health = open_database(settings.sink, durable=False)
            stack.callback(health.close)
            session = start_session(
                SparkSettings(
                    master=settings.master,
                    memory=settings.memory,
                    java=QUICK_JAVA,
                    log_file=settings.log_file,
                    home=settings.folder / "spark",
                    extra=QUERY_SETTINGS,
                )
            )
            stack.callback(_quietly, session.stop)
            self._health = HealthTable(health, clock=self._clock)
            self._report({"kind": "ready", "spark": session.version, "log": str(settings.log_file)})
            if present != settings.shards:
                self._divide(session, tables, present)
            yield session, tables

    def _recorders(self) -> Iterator[Ingest]:
        """Yield the embedded recorder of each journal, where that was asked for."""
        settings = self._settings
        for journal in settings.journals if settings.ingest else ():
            options = SourceOptions(
                journal,
                embedded=True,
                home=settings.home,
                topic_root=settings.topic_root,
                share_group=_share_group(settings),
            )
            yield Ingest(options, clock=self._clock)

    def _divide(self, session: Any, tables: AllShards, present: int) -> None:
        def catch_up(identity: str, start: int, end: int, shards: int) -> None:
            settings = self._settings._replace(shards=shards)
            journal = next((one for one in open_journals(settings, {}) if one.identity == identity), None)
            if journal is not None:
                Pipeline(session=session, settings=settings, journals=[]).replay(journal, start, end)

        self._note(f"dividing the tables: {present} shards become {self._settings.shards}")
        tables.divide(self._settings.shards, catch_up)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        folder = self._settings.folder
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._settings.log_file.parent.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise FolderError(f"cannot create {folder}: {error.strerror}", path=str(folder)) from error
        with self._settings.sole_driver(clock=self._clock, deadline_seconds=_LOCK_SECONDS):
            yield

    def _query(self, session: Any, tables: AllShards, *, available_now: bool) -> None:
        journals = open_journals(self._settings, tables.progress())
        for journal in journals:
            tables.begin(journal.identity, journal.start)
        pipeline = Pipeline(session=session, settings=self._settings, journals=journals, clock=self._clock)
        try:
            query = pipeline.start(available_now=available_now)
            self._told = -1
            while query.isActive and not self._stop.wait(_STEP_SECONDS):
                self._tell_batches(query)
                self._sealer.seal(journals)
                self._rest(tables, journals)
                for ingest in self._ingests:
                    ingest.keep_alive()
            failure = None if query.isActive else query.exception()
            if failure is None:
                pipeline.stop(query)
            self._tell_batches(query)
            if failure is None:
                self._rest(tables, journals, now=True)
                self._sealer.seal(journals, now=available_now)
        except JobwireError:
            raise
        except Exception as error:  # py4j's own errors: the JVM is gone
            raise failure_of(error) from error
        if failure is not None:
            raise failure_of(failure)

    def _rest(self, tables: AllShards, journals: Sequence[Journal], *, now: bool = False) -> None:
        """Let the windows become final in which a journal was idle, once in the time of the shortest."""
        if not now and self._clock.monotonic() < self._rested_at + WIDTHS_SECONDS[0]:
            return
        self._rested_at = self._clock.monotonic()
        for journal in journals:
            # The time first: what comes after the end that is read then is stamped later.
            at_us = int(self._clock.now() * _MICROSECONDS)
            with JournalReader(journal.directory) as reader:
                tables.rest(journal.identity, reader.durable_offset, at_us)

    def _tell_damage(self, damaged: int) -> None:
        if damaged:
            self._note(
                f"{damaged:,} journaled entries are damaged, and counted as such;"
                " `jobwire journal verify` tells where"
            )

    def _tell_batches(self, query: Any) -> None:
        """Report the batches that ended since the last look, and note them in the tables.

        Asked of the query, which has the latest reports until it is asked: a listener would be told when it
        suits Spark, and not at all where the query ends.
        """
        last = query.lastProgress
        if last is None or last.batchId <= self._told:
            return
        # Mostly it is the next one, and to ask for all of them takes as long as they are many.
        for progress in [last] if last.batchId == self._told + 1 else query.recentProgress:
            try:
                health = read_progress(json.loads(progress.json))
            except (ValueError, KeyError) as error:  # another Spark's; nobody misses the row
                self._told = max(self._told, progress.batchId)
                self._note(f"health of a batch not stored: {error!r}")
                continue
            if health.rows and health.batch_id > self._told:
                self._told = health.batch_id
                self._tell(health)

    def _tell(self, health: BatchHealth) -> None:
        self._batches += 1
        self._tell_damage(health.damaged)
        watermark = None
        try:
            watermark = self._health.put(health) if self._health is not None else None
        except SinkError as error:  # nobody misses the row
            self._note(f"health of a batch not stored: {error}")
        self._report(
            {
                "kind": "batch",
                "batch": health.batch_id,
                "rows": health.rows,
                "duration_ms": health.duration_ms,
                "backlog": health.backlog,
                "watermark_at": watermark,
            }
        )

    def _note(self, text: str) -> None:
        self._report({"kind": "note", "text": text})


def _share_group(settings: MetricsSettings) -> str:
    """Return the recorders' group: several that we start would each record everything without one."""
    return settings.share_group or (_OWN_GROUP if len(settings.journals) > 1 else "")


def _is_alive(session: Any) -> bool:
    """Tell whether the JVM answers; a fresh one needs a fresh process."""
    try:
        return not session.sparkContext._jsc.sc().isStopped()  # noqa: SLF001 - PySpark offers no such question
    except Exception:  # noqa: BLE001 - py4j tells a dead JVM in many ways
        return False


def _quietly(action: Callable[[], None]) -> None:
    # The JVM may be dead already, and py4j tells so in many ways.
    with contextlib.suppress(Exception):
        action()
