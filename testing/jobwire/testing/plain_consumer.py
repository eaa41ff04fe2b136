"""The same tables without Spark: one process, one loop, `json` instead of executors.

The yardstick beside Spark in the benchmarks, and the second opinion in the tests: both must give the
same tables. It is not offered as a command; docs/scaling.md says from where on Spark pays.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from jobwire.core.topics import Topics
from jobwire.jobs.admission import ACCEPTED
from jobwire.jobs.fact import FACT
from jobwire.journal.entry import STATE_VERDICT, Stored
from jobwire.journal.evidence import SUPPRESSED, SUPPRESSED_TOPIC
from jobwire.journal.parsing import microsecond_of
from jobwire.journal.reader import JournalReader
from jobwire.metrics.rows import SCHEMA, UNREADABLE, rows_of
from jobwire.metrics.sink import MetricsSink
from jobwire.metrics.source.fold_form import fact_of, usage_text

_BATCH_ROWS = 20_000
_BATCH_BYTES = 64 << 20


class PlainConsumer:
    """Folds a journal into the tables of `sink`, from where they stand."""

    def __init__(self, directory: Path, *, sink: MetricsSink, topics: Topics | None = None) -> None:
        self._reader = JournalReader(directory)
        self._sink = sink
        self._topics = topics if topics is not None else Topics()
        place = sink.progress().get(self._reader.identity)
        self.offset = place.next_offset if place else self._reader.first_offset

    def step(self, *, max_rows: int = _BATCH_ROWS) -> int:
        """Fold in one batch of what is there; return its rows. Raises the errors of journal and sink."""
        rows = self._reader.read(self.offset, max_rows=max_rows, max_bytes=_BATCH_BYTES)
        if rows:
            self._sink.apply(rows_of(table_of(rows, self._topics)), self._reader.identity)
            self.offset = rows[-1].offset + 1
        return len(rows)

    def catch_up(self) -> int:
        """Fold in everything that is there; return the rows."""
        total = 0
        while rows := self.step():
            total += rows
        return total

    def close(self) -> None:
        """Close the journal."""
        self._reader.close()


def table_of(rows: Sequence[Stored], topics: Topics) -> Any:
    """Return the rows as an Arrow table with `rows.SCHEMA`'s columns."""
    columns: list[list[Any]] = [[] for _ in SCHEMA.names]
    for row in rows:
        for column, value in zip(columns, _values(row, topics), strict=True):
            column.append(value)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _values(row: Stored, topics: Topics) -> tuple[Any, ...]:
    address = topics.parse(row.topic)
    job_id = address.job_id if address else None
    place = (row.offset, row.received_at_us, job_id)
    if row.verdict in {FACT, STATE_VERDICT}:
        kind, text = fact_of(row.verdict, row.topic, job_id, row.payload)
        return (*place, None, kind, None, text)
    if row.verdict != ACCEPTED:
        told = row.verdict == SUPPRESSED and row.topic == SUPPRESSED_TOPIC
        return (*place, None, row.verdict, None, row.payload.decode() if told else None)
    try:
        event = json.loads(row.payload)
        seq, label, sent_us = event["seq"], event["event"], microsecond_of(event["timestamp"])
    except (ValueError, KeyError, TypeError):
        return (*place, None, UNREADABLE, None, None)
    if type(seq) is not int or type(label) is not str:
        return (*place, None, UNREADABLE, sent_us, None)
    return (*place, seq, label, sent_us, usage_text(row.payload))
