"""What the fold needs of each message, computed where the journal is read: numbers and short words.

The same values as `testing.plain_consumer` computes row by row; a test holds both equal. In Arrow it
spares Spark the payloads, a projection with code of its own, and the parsing of JSON row by row.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jobwire.jobs.admission import ACCEPTED
from jobwire.journal.evidence import SUPPRESSED, SUPPRESSED_TOPIC
from jobwire.metrics.source.parsing import microseconds, parse_accepted

NEEDED = ("offset", "received_at", "topic", "job_id", "verdict", "payload")
UNREADABLE = "unreadable"


def fold_columns(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of `options.FOLD_COLUMNS` that are not stored as they are."""
    verdicts, payloads = arrays["verdict"], arrays["payload"]
    said = parse_accepted(verdicts, payloads, ("seq", "event", "timestamp"))
    # Only what recorder and parser agree on is an event; null marks everything else.
    read = pc.and_(pc.is_valid(said["seq"]), pc.is_valid(said["event"]))
    label = pc.coalesce(
        pc.if_else(read, said["event"], pa.scalar(None, pa.string())),
        pc.if_else(pc.equal(verdicts, ACCEPTED), UNREADABLE, verdicts),
    )
    return {
        "received_us": arrays["received_at"].cast(pa.int64()),
        "seq": pc.if_else(read, said["seq"], pa.scalar(None, pa.int64())),
        "label": label,
        "sent_us": microseconds(said["timestamp"]),
        "note": _notes(arrays["topic"], verdicts, payloads),
    }


def _notes(topics: Any, verdicts: Any, payloads: Any) -> Any:
    """Return what the recorder counted without storing it: {"reason": number} (jobwire.journal.evidence)."""
    told = pc.equal(verdicts, SUPPRESSED)
    if not pc.any(told, min_count=0).as_py():
        return pa.nulls(len(verdicts), pa.string())
    told = pc.and_(told, pc.equal(topics, SUPPRESSED_TOPIC))
    return pa.array(
        [
            payload.decode(errors="replace") if wanted else None
            for wanted, payload in zip(told.to_pylist(), payloads.to_pylist(), strict=True)
        ],
        pa.string(),
    )
