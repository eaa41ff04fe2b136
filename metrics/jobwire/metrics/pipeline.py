"""The metrics query: journals in, tables out.

One streaming query over all journals, without state in Spark. The source plans ranges; the task that has
one reads, checks, parses and folds it into the tables, in one transaction that holds the offset as well
(folding.py). Spark's report of a batch has their counts. docs/adr/0405 gives the measurements behind this.
"""

import shutil
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

from jobwire.core.clock import Clock, SystemClock
from jobwire.journal.errors import JournalRecreated, truncated
from jobwire.journal.reader import JournalReader
from jobwire.metrics.folding import FORMAT, SUMS, folding_source
from jobwire.metrics.health import OBSERVED
from jobwire.metrics.settings import MetricsSettings
from jobwire.metrics.sink import AppliedRange
from jobwire.metrics.source.options import SourceOptions
from jobwire.metrics.source.planning import oldest_offset

# Between two looks at whether a batch is over.
_LOOK_SECONDS = 0.02


class Journal(NamedTuple):
    """One journal of the query: where it is, whose it is, and the first offset the tables want."""

    directory: Path
    identity: str
    start: int


def open_journals(settings: MetricsSettings, progress: dict[str, AppliedRange]) -> list[Journal]:
    """Return the journals and where to go on in each, given what the tables have of each.

    Raises JournalNotFound; JournalTruncated when rows that the tables want are pruned, and
    JournalRecreated when a journal the tables know was replaced by another: both unless data loss
    is allowed.
    """
    journals = []
    for directory in settings.journals:
        with JournalReader(directory) as reader:
            identity, first, end = reader.identity, reader.first_offset, reader.durable_offset
            known = progress.get(identity)
            # The place of the sealed files is asked only where they are needed: it may be away.
            if known is None or known.next_offset < first:
                first = oldest(settings, reader)
        start = known.next_offset if known else first
        if not first <= start <= end:
            if not settings.allow_data_loss:
                raise truncated(start, first, end)
            start = first if start < first else end
        journals.append(Journal(directory, identity, start))
    folded = {name for name, place in progress.items() if place.first_offset < place.next_offset}
    _check_not_recreated(settings, journals, folded)
    return journals


def oldest(settings: MetricsSettings, reader: JournalReader) -> int:
    """Return the first offset that can be read, of the journal or of its sealed files."""
    return oldest_offset(reader, SourceOptions(reader.directory, history=settings.history or ""))


def _check_not_recreated(settings: MetricsSettings, journals: Sequence[Journal], known: set[str]) -> None:
    present = {journal.identity for journal in journals}
    gone, new = known - present, present - known
    if gone and new and not settings.allow_data_loss:
        raise JournalRecreated(
            f"the tables were computed from journal {min(gone)}; in its place is {min(new)}",
            hint="`jobwire metrics rebuild --allow-data-loss` begins anew with the new journal; "
            "`run --allow-data-loss` adds it to the old tables",
            expected=min(gone),
            found=min(new),
        )


class Pipeline:
    """The query, and the same tasks over ranges of a journal that is named."""

    def __init__(
        self,
        *,
        session: Any,
        settings: MetricsSettings,
        journals: Sequence[Journal],
        clock: Clock | None = None,
    ) -> None:
        self._session = session
        self._settings = settings
        self._journals = journals
        self._clock = clock if clock is not None else SystemClock()
        session.dataSource.register(folding_source(settings))

    def start(self, *, available_now: bool) -> Any:
        """Start the streaming query where the tables stand, and return it.

        Its checkpoint is begun anew: the offsets in the tables are the truth, and no task can take a range
        twice or leave one out.
        """
        from pyspark.sql import functions  # noqa: PLC0415 - as in session.py

        shutil.rmtree(self._settings.checkpoint, ignore_errors=True)
        counts = reduce(lambda left, right: left.unionAll(right), map(self._counts, self._journals))
        trigger = (
            {"availableNow": True}
            if available_now
            else {"processingTime": f"{int(self._settings.trigger_seconds * 1000)} milliseconds"}
        )
        sums = (functions.sum(name).alias(name) for name in SUMS)
        # The rows go nowhere, their sums into the report: foreachBatch plans each batch a second time, and
        # calls Python for it.
        return (
            counts.observe(OBSERVED, *sums)
            .writeStream.format("noop")
            .queryName("metrics")
            .option("checkpointLocation", self._settings.checkpoint.as_uri())
            .trigger(**trigger)
            .start()
        )

    def _counts(self, journal: Journal) -> Any:
        settings = self._settings
        return (
            self._reader(self._session.readStream, journal)
            .option("startingOffset", journal.start)
            .option("consumer", settings.consumer)
            .option("maxRowsPerBatch", settings.max_rows)
            .option("maxBytesPerBatch", settings.max_mib << 20)
            .option("failOnDataLoss", not settings.allow_data_loss)
            .load()
        )

    def _reader(self, read: Any, journal: Journal) -> Any:
        return (
            read.format(FORMAT)
            .option("journal", str(journal.directory))
            .option("topicRoot", self._settings.topic_root)
            .option("verify", self._settings.verify)
            .option("shards", self._settings.shards)
            .option("inline", self._settings.inline)
            .option("history", self._settings.history or "")
        )

    def replay(self, journal: Journal, start: int, end: int) -> list[Any]:
        """Fold [start, end) of one journal in by a batch read; return rows of COUNTS, one for each shard."""
        reader = self._reader(self._session.read, journal)
        counts: list[Any] = (
            reader.option("startingOffset", start).option("endingOffset", end).load().collect()
        )
        return counts

    def stop(self, query: Any, *, deadline_seconds: float = 60.0) -> None:
        """Let the present batch finish, then end the query; the next one, if it has begun, comes again."""
        deadline, last = self._clock.monotonic() + deadline_seconds, _batch_of(query)
        while query.isActive and query.status["isTriggerActive"] and _batch_of(query) == last:
            if self._clock.monotonic() >= deadline:
                break
            self._clock.sleep(_LOOK_SECONDS)
        query.stop()


def _batch_of(query: Any) -> int | None:
    progress = query.lastProgress
    return None if progress is None else int(progress.batchId)
