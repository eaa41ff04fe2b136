"""What the fold needs of each message, computed where the journal is read: numbers and short words.

The same values as `testing.plain_consumer` computes row by row; a test holds both equal.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jobwire.jobs.admission import ACCEPTED
from jobwire.jobs.fact import FACT, decode_fact, encode_fact, facts_in
from jobwire.jobs.usage import KEYS, usage_of
from jobwire.journal.entry import STATE_VERDICT
from jobwire.journal.evidence import SUPPRESSED, SUPPRESSED_TOPIC
from jobwire.journal.parsing import microseconds, parse_accepted
from jobwire.metrics.rows import SCHEMA, UNREADABLE, Rows, rows_of
from jobwire.metrics.source.columns import stored_in_order
from jobwire.metrics.source.options import SourceOptions
from jobwire.metrics.source.planning import Piece

NO_FACT = (None, None)
_TOLD = (FACT, STATE_VERDICT)
# Most events say nothing of it, and are not parsed for it.
_USAGE = f'"({"|".join(KEYS)})"'
NEEDED = ("offset", "received_at", "topic", "job_id", "verdict", "payload")


def rows_in(options: SourceOptions, piece: Piece, shard: int | None) -> Rows:
    """Read a piece of a journal: what the shard's jobs have there. Raises the errors of jobwire.journal."""
    newest, tables = 0, []
    for newest, arrays in stored_in_order(options, piece, NEEDED, shard):  # noqa: B007 - the last one's counts
        columns = fold_columns(arrays)
        tables.append(pa.Table.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA))
    table = pa.concat_tables(tables) if tables else SCHEMA.empty_table()
    return rows_of(table, (piece.span.first_offset, piece.span.end_offset, newest))


def fold_columns(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of `rows.SCHEMA`; `arrays` has those of NEEDED."""
    verdicts, payloads = arrays["verdict"], arrays["payload"]
    said = parse_accepted(verdicts, payloads, ("seq", "event", "timestamp"))
    facts = _facts(arrays)
    # Only what recorder and parser agree on is an event; null marks everything else.
    read = pc.and_(pc.is_valid(said["seq"]), pc.is_valid(said["event"]))
    label = pc.coalesce(
        pc.if_else(read, said["event"], pa.scalar(None, pa.string())),
        pc.if_else(pc.equal(verdicts, ACCEPTED), UNREADABLE, verdicts),
    )
    received_us = arrays["received_at"].cast(pa.int64())
    notes = _notes(arrays["topic"], verdicts, payloads)
    used = _usage(payloads, read)
    if used is not None:
        notes = pc.coalesce(used, notes)
    if facts is not None:
        label = pc.coalesce(facts["kind"], label)
        notes = pc.coalesce(facts["text"], notes)
    return {
        "offset": arrays["offset"],
        "job_id": arrays["job_id"],
        "received_us": received_us,
        "seq": pc.if_else(read, said["seq"], pa.scalar(None, pa.int64())),
        "label": label,
        "sent_us": microseconds(said["timestamp"]),
        "note": notes,
    }


def _usage(payloads: Any, events: Any) -> Any:
    """Return what events say was used, null in other rows; None where none does."""
    named = pc.and_(pc.match_substring_regex(payloads, _USAGE), events)
    if not pc.any(named, min_count=0).as_py():
        return None
    return _texts(named, payloads, usage_text)


def usage_text(payload: bytes) -> str | None:
    """Return what an event says was used as a JSON list of `Usage`; None for nothing."""
    try:
        data = json.loads(payload)["data"]
        usage = usage_of(data) if isinstance(data, dict) else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return None if usage is None else json.dumps(usage)


def _facts(arrays: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return kind and text of the registry's facts and states, null in other rows; None without any."""
    told = pc.is_in(arrays["verdict"], pa.array(_TOLD, pa.string()))
    if not pc.any(told, min_count=0).as_py():
        return None
    rows = zip(*(arrays[name].to_pylist() for name in ("verdict", "topic", "job_id", "payload")), strict=True)
    kinds, texts = zip(*(fact_of(*row) if row[0] in _TOLD else NO_FACT for row in rows), strict=True)
    return {
        "kind": pa.array(kinds, pa.string()),
        "text": pa.array(texts, pa.string()),
    }


def fact_of(verdict: str, topic: str, job_id: str | None, payload: bytes) -> tuple[str | None, str | None]:
    """Return kind and text of an entry with the verdict of facts; "unreadable" for what is none.

    Of a state its verdict, and a line for each fact that it says (canonical JSON has no line breaks).
    """
    if verdict == STATE_VERDICT:
        facts = facts_in(payload, job_id=job_id or "") if topic.endswith("/state") else []
        return STATE_VERDICT, "\n".join(encode_fact(fact).decode() for fact in facts) or None
    fact = decode_fact(payload, job_id=job_id or "") if topic.endswith("/facts") else None
    if fact is None:
        return UNREADABLE, None
    return str(fact.kind), payload.decode()


def _notes(topics: Any, verdicts: Any, payloads: Any) -> Any:
    """Return what the recorder counted without storing it: {"reason": number} (jobwire.journal.evidence)."""
    told = pc.equal(verdicts, SUPPRESSED)
    if not pc.any(told, min_count=0).as_py():
        return pa.nulls(len(verdicts), pa.string())
    told = pc.and_(told, pc.equal(topics, SUPPRESSED_TOPIC))
    return _texts(told, payloads, lambda payload: payload.decode(errors="replace"))


def _texts(wanted: Any, payloads: Any, text_of: Callable[[bytes], str | None]) -> Any:
    """Return the text of each payload that is wanted, null in other rows."""
    rows = zip(wanted.to_pylist(), payloads.to_pylist(), strict=True)
    return pa.array([text_of(payload) if row else None for row, payload in rows], pa.string())
