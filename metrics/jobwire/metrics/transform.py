"""What Spark computes of each message, as functions from DataFrame to DataFrame.

Everything here is narrow (no shuffle, no state), so a batch is one stage, and the same functions
serve streams, batch reads and tests.
"""

from functools import reduce
from typing import Any

from jobwire.journal.evidence import SUPPRESSED, SUPPRESSED_TOPIC

_ACCEPTED = "verdict = 'accepted'"
_EVENT = "seq bigint, event string, timestamp timestamp"
# Only what recorder and parser agree on is an event; null marks everything else.
_SEQ = f"CASE WHEN {_ACCEPTED} AND said.event IS NOT NULL THEN said.seq END AS seq"
_LABEL = f"""
CASE
    WHEN NOT {_ACCEPTED} THEN verdict
    WHEN said.seq IS NULL OR said.event IS NULL THEN 'unreadable'
    ELSE said.event
END AS label"""
_SENT = f"CASE WHEN {_ACCEPTED} THEN unix_micros(said.timestamp) END AS sent_us"
# What the recorder counted without storing it: {"reason": number} (jobwire.journal.evidence).
_NOTE = (
    f"CASE WHEN verdict = '{SUPPRESSED}' AND topic = '{SUPPRESSED_TOPIC}' THEN CAST(payload AS STRING) END"
)
_COMPACT = (
    "offset",
    "unix_micros(received_at) AS received_us",
    "job_id",
    _SEQ,
    _LABEL,
    _SENT,
    "note",
)
_HISTORY = "seq bigint, event string, timestamp string, detail string, data string"


def compact(messages: Any, *, shard: int = 0) -> Any:
    """Return one small row a message: the columns of `rows.SCHEMA`.

    `messages` has the columns of the source `mqtt`. JSON is parsed by Spark itself, which is lenient;
    what it reads was accepted by our strict parser before.
    """
    said = f"from_json(CASE WHEN {_ACCEPTED} THEN CAST(payload AS STRING) END, '{_EVENT}') AS said"
    parsed = messages.selectExpr("offset", "received_at", "job_id", "verdict", said, f"{_NOTE} AS note")
    return parsed.selectExpr(f"{shard} AS shard", *_COMPACT)


def union_of(shards: list[Any]) -> Any:
    """Return all shards' compact rows as one DataFrame; the column `shard` tells them apart."""
    return reduce(lambda left, right: left.unionAll(right), shards)


def history_rows(messages: Any) -> Any:
    """Return the accepted events as columns for the history, `date` (UTC) last."""
    return (
        messages.where(_ACCEPTED)
        .selectExpr(
            "offset", "received_at", "job_id", f"from_json(CAST(payload AS STRING), '{_HISTORY}') AS said"
        )
        .selectExpr(
            "offset",
            "received_at",
            "job_id",
            "said.seq",
            "said.event",
            "said.timestamp",
            "said.detail",
            "said.data",
            "to_date(received_at) AS date",
        )
    )
