"""Accepted payloads as columns: seq, event, timestamp, detail, and `data` as JSON text.

Arrow's parser reads the flat fields at several times the speed of `json`. It is lenient, which is
harmless here: only what admission accepted, by a strict parser, comes to it.
"""

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from jobwire.core.admission import ACCEPTED

_FLAT = pa.schema(
    [
        ("seq", pa.int64()),
        ("event", pa.string()),
        ("timestamp", pa.string()),
        ("detail", pa.string()),
    ]
)
# In canonical form (RFC 8785) `data` is an event's first key.
_CANONICAL_START = '{"data":{'
_DATA_AT = len(_CANONICAL_START) - 1
_DECODER = json.JSONDecoder()
_BLOCK_BYTES = 4 << 20


def parse_accepted(verdicts: Any, payloads: Any) -> dict[str, Any]:
    """Return the parsed columns, null in every row that is not accepted.

    An accepted row that cannot be parsed after all (a damaged or foreign journal) is null as well.
    """
    accepted = pc.equal(verdicts, ACCEPTED)
    wanted = payloads.filter(accepted).to_pylist()
    columns = _flat_columns(wanted)
    columns["data"] = pa.array([_data_of(payload) for payload in wanted], pa.string())
    if len(wanted) == len(payloads):
        return columns
    # Row i of all rows is accepted row number places[i], or null.
    numbers = pc.if_else(accepted, pc.subtract(pc.cumulative_sum(pc.cast(accepted, pa.int64())), 1), None)
    return {name: column.take(numbers) for name, column in columns.items()}


def _flat_columns(payloads: Sequence[bytes]) -> dict[str, Any]:
    if not payloads:
        return {name: pa.array([], _FLAT.field(name).type) for name in _FLAT.names}
    # A line break can only stand between two tokens: inside a JSON string it is escaped (RFC 8259, 7).
    lines = b"\n".join(payloads)
    if lines.count(b"\n") != len(payloads) - 1:
        lines = b"\n".join(payload.replace(b"\n", b" ") for payload in payloads)
    try:
        table = pa.json.read_json(
            pa.BufferReader(lines),
            read_options=pa.json.ReadOptions(
                use_threads=False, block_size=max(_BLOCK_BYTES, 2 * max(map(len, payloads)))
            ),
            parse_options=pa.json.ParseOptions(explicit_schema=_FLAT, unexpected_field_behavior="ignore"),
        )
    except pa.ArrowInvalid:
        return _one_by_one(payloads)
    if table.num_rows != len(payloads):
        return _one_by_one(payloads)
    return {name: table.column(name).combine_chunks() for name in _FLAT.names}


def _one_by_one(payloads: Sequence[bytes]) -> dict[str, Any]:
    """Parse each payload by itself, so that a bad one costs only its own row."""
    events = [_event(payload) for payload in payloads]
    return {
        "seq": pa.array([_typed(event.get("seq"), int) for event in events], pa.int64()),
        **{
            name: pa.array([_typed(event.get(name), str) for event in events], pa.string())
            for name in ("event", "timestamp", "detail")
        },
    }


def _event(payload: bytes) -> dict[str, Any]:
    try:
        value = json.loads(payload)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _typed(value: object, kind: type) -> object:
    return value if type(value) is kind else None


def _data_of(payload: bytes) -> str | None:
    """Return the text of the member `data`, without decoding it where its place is known."""
    try:
        text = payload.decode()
        if text.startswith(_CANONICAL_START):
            return text[_DATA_AT : _DECODER.raw_decode(text, _DATA_AT)[1]]
        data = _event(payload).get("data")
        return json.dumps(data, separators=(",", ":"), ensure_ascii=False) if isinstance(data, dict) else None
    except (ValueError, RecursionError):
        return None
