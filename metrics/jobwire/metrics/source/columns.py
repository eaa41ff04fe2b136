"""The rows of a span as Spark wants them: columns, types, and where the bytes come from."""

import functools
import gc
import socket
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jobwire.core.topics import Topics
from jobwire.journal.errors import JournalNotFound, JournalTruncated
from jobwire.journal.scan import Span, load_span
from jobwire.journal.segment import list_segments
from jobwire.metrics.source.options import FOLD_COLUMNS, PARSE_EVENT, PARSE_FOLD, SourceOptions

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
    if options.parse == PARSE_FOLD:
        return FOLD_COLUMNS
    return _STORED | _EVENT if options.parse == PARSE_EVENT else _STORED


def read_span(options: SourceOptions, span: Span, data: bytes | None) -> Iterator[Any]:
    """Yield the span's rows as Arrow record batches of exactly the declared schema.

    `data` are the span's bytes where they were carried along; otherwise they are read from the
    journal's directory. Blocks for the disk only. Raises the errors of jobwire.journal.
    """
    # In an executor's worker only: the planner has no use for Arrow.
    import pyarrow as pa  # noqa: PLC0415

    from jobwire.journal.arrow import record_batches  # noqa: PLC0415

    judge = _judge(options)
    names = options.chosen(_kinds(options))
    needed, derive = _derivation(options, names)
    if judge is not None:
        needed |= _JUDGED
    stored_names = [name for name in STORED_COLUMNS if name in needed]
    batches = record_batches(
        data if data is not None else _load(options, span),
        span,
        topics=Topics(options.topic_root),
        topic_filters=options.topics,
        columns=stored_names,
    )
    for stored in batches:
        arrays = dict(zip(stored_names, stored.columns, strict=True))
        if judge is not None:
            arrays["verdict"] = judge.verdicts(stored)
        arrays |= derive(arrays)
        yield pa.RecordBatch.from_arrays([arrays[name] for name in names], names=list(names))
    _spare_the_collector()


def _derivation(
    options: SourceOptions, names: tuple[str, ...]
) -> tuple[set[str], Callable[[dict[str, Any]], dict[str, Any]]]:
    """Return the stored columns that are needed, and what computes the others from them."""
    if options.parse == PARSE_FOLD:
        from jobwire.metrics.source.fold_form import NEEDED, fold_columns  # noqa: PLC0415 - needs Arrow

        return set(NEEDED), fold_columns
    parsed = [name for name in names if name in _EVENT]
    if not parsed:
        return set(names), lambda _: {}
    from jobwire.metrics.source.parsing import parse_accepted  # noqa: PLC0415 - needs Arrow

    return (
        {"verdict", "payload", *names},
        lambda arrays: parse_accepted(arrays["verdict"], arrays["payload"], parsed),
    )


@functools.cache
def _spare_the_collector() -> None:
    """Take what is loaded by now out of the garbage collector's sight, once a process.

    PySpark's daemon collects after each task; with pyarrow and pandas loaded that takes 30 ms, three
    quarters of a worker's time in small batches.
    """
    gc.collect()
    gc.freeze()


def _load(options: SourceOptions, span: Span) -> bytes:
    try:
        return load_span(options.journal, span)
    except JournalTruncated:
        if options.journal.is_dir() and list_segments(options.journal):
            raise
        # The planner saw it a moment ago, so it is this host that does not.
        raise JournalNotFound(
            f"the executor on {socket.gethostname()} sees no journal in {options.journal}",
            hint="mount the directory there under the same name, or use --inline (option inline)",
            directory=str(options.journal),
        ) from None


def _judge(options: SourceOptions) -> Any:
    if not options.verify:
        return None
    from jobwire.metrics.source.verification import Judge, load_keys  # noqa: PLC0415

    return Judge(topics=Topics(options.topic_root), keys=load_keys())
