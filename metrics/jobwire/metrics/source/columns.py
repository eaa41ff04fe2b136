"""The rows of a span as Spark wants them: columns, types, and where the bytes come from."""

import socket
from collections.abc import Iterator
from typing import Any

from jobwire.core.topics import Topics
from jobwire.journal.errors import JournalNotFound, JournalTruncated
from jobwire.journal.scan import Span, load_span
from jobwire.journal.segment import list_segments
from jobwire.metrics.source.options import SourceOptions

# As Spark's DDL. Nothing is declared NOT NULL: Spark would plan on it before it has read anything.
_STORED = (
    "offset bigint, received_at timestamp, topic string, job_id string, retained boolean, "
    "verdict string, payload binary"
)
_PARSED = "seq bigint, event string, timestamp string, detail string, data string"
STORED_COLUMNS = tuple(part.split()[0] for part in _STORED.split(", "))


def ddl(options: SourceOptions) -> str:
    """Return the schema that these options give."""
    return f"{_STORED}, {_PARSED}" if options.parse else _STORED


def read_span(options: SourceOptions, span: Span, data: bytes | None) -> Iterator[Any]:
    """Yield the span's rows as Arrow record batches of exactly the declared schema.

    `data` are the span's bytes where they were carried along; otherwise they are read from the
    journal's directory. Blocks for the disk only. Raises the errors of jobwire.journal.
    """
    # In an executor's worker only: the planner has no use for Arrow.
    import pyarrow as pa  # noqa: PLC0415

    from jobwire.journal.arrow import record_batches  # noqa: PLC0415

    judge = _judge(options)
    batches = record_batches(
        data if data is not None else _load(options, span),
        span,
        topics=Topics(options.topic_root),
        topic_filters=options.topics,
        columns=STORED_COLUMNS,
    )
    for stored in batches:
        arrays = dict(zip(STORED_COLUMNS, stored.columns, strict=True))
        if judge is not None:
            arrays["verdict"] = judge.verdicts(stored)
        if options.parse:
            from jobwire.metrics.source.parsing import parse_accepted  # noqa: PLC0415

            arrays |= parse_accepted(arrays["verdict"], arrays["payload"])
        yield pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


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
