"""The metrics query: journals in, tables out.

One streaming query over all journals, without state in Spark. The source plans ranges; the task that has
one reads, checks, parses and folds it into the tables, in one transaction that holds the offset as well
(folding.py). The driver learns counts. docs/adr/0405 gives the measurements behind this.
"""

import shutil
import threading
from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

from jobwire.journal.errors import JournalRecreated, truncated
from jobwire.journal.reader import JournalReader
from jobwire.metrics.folding import COUNTS, FoldTask
from jobwire.metrics.settings import MetricsSettings
from jobwire.metrics.sink import AppliedRange
from jobwire.metrics.source.options import PARSE_RANGES, SourceOptions
from jobwire.metrics.source.planning import oldest_offset


class Journal(NamedTuple):
    """One journal of the query: where it is, whose it is, and the first offset the tables want."""

    directory: Path
    identity: str
    start: int


class StoppingError(Exception):
    """A batch came after the query was asked to stop; it will come again at the next start."""


def open_journals(settings: MetricsSettings, progress: dict[str, AppliedRange]) -> list[Journal]:
    """Return the journals and where to go on in each, given what the tables have of each.

    Raises JournalNotFound; JournalTruncated when rows that the tables want are pruned, and
    JournalRecreated when a journal the tables know was replaced by another: both unless data loss
    is allowed.
    """
    journals = []
    for directory in settings.journals:
        with JournalReader(directory) as reader:
            identity, first, end = reader.identity, oldest(settings, reader), reader.durable_offset
        known = progress.get(identity)
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
    """The query, and the same tasks over ranges of a journal that is named.

    `on_batch` gets the number of each batch (-1: a range) and its rows of COUNTS, one for each shard of each
    journal.
    """

    def __init__(
        self,
        *,
        session: Any,
        settings: MetricsSettings,
        journals: Sequence[Journal],
        on_batch: Callable[[int, Sequence[Any]], None] = lambda *_: None,
    ) -> None:
        self._session = session
        self._settings = settings
        self._journals = journals
        self._on_batch = on_batch
        self._task = FoldTask.of(settings)
        self._busy = threading.Lock()
        self._stopping = False

    def start(self, *, available_now: bool) -> Any:
        """Start the streaming query where the tables stand, and return it.

        Its checkpoint is begun anew: the offsets in the tables are the truth, and no task can take a range
        twice or leave one out.
        """
        self._stopping = False
        shutil.rmtree(self._settings.checkpoint, ignore_errors=True)
        ranges = reduce(lambda left, right: left.unionAll(right), map(self._ranges, self._journals))
        trigger = (
            {"availableNow": True}
            if available_now
            else {"processingTime": f"{int(self._settings.trigger_seconds * 1000)} milliseconds"}
        )
        return (
            ranges.mapInArrow(self._task.fold, COUNTS)
            .writeStream.queryName("metrics")
            .option("checkpointLocation", self._settings.checkpoint.as_uri())
            .foreachBatch(self._run)
            .trigger(**trigger)
            .start()
        )

    def _ranges(self, journal: Journal) -> Any:
        settings = self._settings
        reader = self._reader(self._session.readStream, journal).option("parse", PARSE_RANGES)
        return (
            reader.option("startingOffset", journal.start)
            .option("consumer", settings.consumer)
            .option("maxRowsPerBatch", settings.max_rows)
            .option("maxBytesPerBatch", settings.max_mib << 20)
            .option("failOnDataLoss", not settings.allow_data_loss)
            .load()
        )

    def _reader(self, read: Any, journal: Journal) -> Any:
        return (
            read.format("mqtt")
            .option("journal", str(journal.directory))
            .option("topicRoot", self._settings.topic_root)
            .option("shards", self._settings.shards)
            .option("inline", self._settings.inline)
            .option("history", self._settings.history or "")
        )

    def _run(self, counts: Any, batch_id: int) -> None:
        """Run one micro-batch; called by Spark, from a thread of its own."""
        with self._busy:
            if self._stopping:
                raise StoppingError
            self._on_batch(batch_id, counts.collect())

    def replay(self, journal: Journal, start: int, end: int) -> int:
        """Fold [start, end) of one journal in by a batch read, and return the rows counted."""
        reader = self._reader(self._session.read, journal).option("parse", PARSE_RANGES)
        ranges = reader.option("startingOffset", start).option("endingOffset", end).load()
        counts = ranges.mapInArrow(self._task.fold, COUNTS).collect()
        self._on_batch(-1, counts)
        return sum(row.rows for row in counts)

    def stop(self, query: Any, *, deadline_seconds: float = 60.0) -> None:
        """Let the present batch finish, then end the query."""
        self._stopping = True
        if self._busy.acquire(timeout=deadline_seconds):
            self._busy.release()
        query.stop()
