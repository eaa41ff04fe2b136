"""The rows of a span as Spark wants them: columns, types, and where the bytes come from."""

import functools
import gc
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import InputPartition

from jobwire.core.topics import Topics, filter_matches
from jobwire.journal.arrow import lost_batch, record_batches
from jobwire.journal.index import SegmentIndex
from jobwire.journal.parsing import parse_accepted
from jobwire.journal.scan import is_sealed
from jobwire.metrics.rows import in_order
from jobwire.metrics.source.options import PARSE_EVENT, SourceOptions
from jobwire.metrics.source.planning import Piece, load, planned
from jobwire.metrics.source.verification import Judge, load_keys

# As Spark's DDL. Nothing is declared NOT NULL: Spark would plan on it before it has read anything.
_STORED = {
    "offset": "bigint",
    "received_at": "timestamp",
    "topic": "string",
    "job_id": "string",
    "retained": "boolean",
    "verdict": "string",
    "payload": "binary",
}
_EVENT = {"seq": "bigint", "event": "string", "timestamp": "string", "detail": "string", "data": "string"}
STORED_COLUMNS = tuple(_STORED)
# What the judge of signatures looks at, and what it changes.
_JUDGED = frozenset({"verdict", "topic", "payload", "retained"})


def ddl(options: SourceOptions) -> str:
    """Return the schema that these options give. Raises ConfigError for a column that is not there."""
    kinds = _kinds(options)
    return ", ".join(f"{name} {kinds[name]}" for name in options.chosen(kinds))


def _kinds(options: SourceOptions) -> Mapping[str, str]:
    return _STORED | _EVENT if options.parse == PARSE_EVENT else _STORED


def read_partition(options: SourceOptions, partition: InputPartition) -> Iterator[Any]:
    """Yield the task's rows as Arrow record batches of exactly the declared schema.

    Blocks for the disk only. Raises the errors of jobwire.journal.
    """
    task = planned(partition)
    names = options.chosen(_kinds(options))
    parsed = [name for name in names if name in _EVENT]
    needed = {*names, *(("verdict", "payload") if parsed else ())} - _EVENT.keys()
    for piece in task.pieces:
        for stored in _batches(options, piece, _stored_names(options, needed)):
            arrays = _columns_of(options, stored, task.shard)
            if parsed:
                arrays.update(parse_accepted(arrays["verdict"], arrays["payload"], parsed))
            yield pa.RecordBatch.from_arrays([arrays[name] for name in names], names=list(names))
    spare_the_collector()


def stored_in_order(
    options: SourceOptions, piece: Piece, needed: Iterable[str], shard: int | None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the `needed` columns of the shard's rows, with times that do not go back, whoever has the rows.

    With them goes when the latest of all rows so far was received, in microseconds since the epoch.
    """
    newest = 0
    for stored in _batches(options, piece, _stored_names(options, needed)):
        place = stored.schema.get_field_index("received_at")
        received = in_order(np.asarray(stored.column(place).cast(pa.int64())), newest)
        newest = max(newest, int(received.max(initial=0)))
        field = stored.schema.field(place)
        stored = stored.set_column(place, field, pa.array(received).cast(field.type))  # noqa: PLW2901 - the same rows
        yield newest, _columns_of(options, stored, shard)


def _stored_names(options: SourceOptions, needed: Iterable[str]) -> list[str]:
    wanted = {*needed, *(_JUDGED if options.verify else ()), *(("job_id",) if options.shards > 1 else ())}
    return [name for name in STORED_COLUMNS if name in wanted]


def _columns_of(options: SourceOptions, stored: Any, shard: int | None) -> dict[str, Any]:
    rows = stored
    if shard is not None and options.shards > 1:
        rows = stored.filter(_of_shard(stored.column("job_id"), shard, options.shards))
    arrays = dict(zip(rows.schema.names, rows.columns, strict=True))
    if options.verify:
        arrays["verdict"] = Judge(topics=Topics(options.topic_root), keys=load_keys()).verdicts(rows)
    return arrays


def _batches(options: SourceOptions, piece: Piece, names: list[str]) -> Iterator[Any]:
    needed = [*names, *({"topic"} - set(names) if options.topics else ())]
    for batch in _every_batch(options, piece, needed):
        yield (batch.filter(_matching(batch, options.topics)) if options.topics else batch).select(names)


def _every_batch(options: SourceOptions, piece: Piece, names: list[str]) -> Iterator[Any]:
    data, span = piece.data if piece.data is not None else load(options, piece.span), piece.span
    if not is_sealed(span):
        index = SegmentIndex.load(options.journal, span.segment_base) if options.skips_damage else None
        return record_batches(data, span, topics=Topics(options.topic_root), columns=names, skip=index)
    if not data:  # a file that is damaged anywhere cannot be read anywhere
        return iter([lost_batch(span.first_offset, span.end_offset, names)])
    from jobwire.journal.history import sealed_batches  # noqa: PLC0415 - Parquet, for who has a history

    return sealed_batches(data, span, names)


def _matching(batch: Any, filters: Iterable[str]) -> Any:
    """Return which rows have a topic that matches a filter."""
    topics = batch.column("topic")
    found = [name for name in topics.unique().to_pylist() if any(filter_matches(f, name) for f in filters)]
    return pc.is_in(topics, pa.array(found, pa.string()))


def _of_shard(job_ids: Any, shard: int | None, shards: int) -> Any:
    """Return which jobs are the shard's: an id is 8 random hex digits. What is of no job is 0's."""
    digits = pc.fill_null(job_ids, "0" * 8).cast(pa.binary(8))
    text = np.frombuffer(digits.buffers()[1], np.uint8)[digits.offset * 8 :][: len(digits) * 8].reshape(-1, 8)
    digit = text - np.where(text >= ord("a"), ord("a") - 10, ord("0"))
    numbers = digit.astype(np.int64) @ (16 ** np.arange(7, -1, -1))
    return pa.array(numbers % shards == shard)


@functools.cache
def spare_the_collector() -> None:
    """Take what is loaded by now out of the garbage collector's sight, once a process.

    PySpark's daemon collects after each task; with pyarrow and pandas loaded that takes 30 ms, three
    quarters of a worker's time in small batches.
    """
    gc.collect()
    gc.freeze()
