"""Accepted payloads as columns: seq, event, timestamp, detail, and `data` as JSON text.

Arrow's parser reads the flat fields at several times the speed of `json`. It is lenient, which is
harmless here: only what admission accepted, by a strict parser, comes to it.
"""

import datetime as dt
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from jobwire.jobs.admission import ACCEPTED
from jobwire.journal.canonical_columns import ends_of

_FLAT = pa.schema(
    [
        ("seq", pa.int64()),
        ("event", pa.string()),
        ("timestamp", pa.string()),
        ("detail", pa.string()),
    ]
)
DATA = "data"
_AT_THE_END = frozenset({"seq", "event", "timestamp"})
PARSED = (*_FLAT.names, DATA)
# In canonical form (RFC 8785) `data` is an event's first key and `detail` its second.
_CANONICAL_START = b'{"data":{'
_DATA_AT = len(_CANONICAL_START) - 1
# Between valid JSON's strings only: within one, a quote has a backslash before it.
_DATA_ENDS = b'},"detail":'
_DECODER = json.JSONDecoder()
_BLOCK_BYTES = 4 << 20
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
# YYYY-MM-DDTHH:MM:SS.ffffff; an event's time may have three digits more (core.fields).
_MICROSECOND_DIGITS = 26


def parse_accepted(verdicts: Any, payloads: Any, wanted: Sequence[str] = PARSED) -> dict[str, Any]:
    """Return the `wanted` ones of the parsed columns, null in every row that is not accepted.

    An accepted row that cannot be parsed after all (a damaged or foreign journal) is null as well.
    """
    accepted = pc.equal(verdicts, ACCEPTED)
    every = bool(pc.all(accepted).as_py())
    texts = payloads if every else payloads.filter(accepted)
    names = [name for name in wanted if name != DATA]
    columns = _ends(texts, names) if _AT_THE_END.issuperset(names) else _flat_columns(texts, names)
    if DATA in wanted:
        columns[DATA] = _data_column(texts)
    if every:
        return columns
    # Row i of all rows is accepted row number places[i], or null.
    numbers = pc.if_else(accepted, pc.subtract(pc.cumulative_sum(pc.cast(accepted, pa.int64())), 1), None)
    return {name: column.take(numbers) for name, column in columns.items()}


def microseconds(timestamps: Any) -> Any:
    """Return an event's times as microseconds since the epoch, what is finer cut off; null for no time."""
    try:
        short = pc.utf8_slice_codeunits(timestamps, 0, _MICROSECOND_DIGITS)
        if not pc.all(pc.ends_with(timestamps, "Z"), min_count=0).as_py():
            raise pa.ArrowInvalid("not all in UTC")  # noqa: TRY301 - row by row, as what Arrow cannot read
        return pc.utf8_rtrim(short, "Z").cast(pa.timestamp("us")).cast(pa.int64())
    except pa.ArrowInvalid:
        return pa.array([microsecond_of(text) for text in timestamps.to_pylist()], pa.int64())


def microsecond_of(timestamp: object) -> int | None:
    """Return one ISO 8601 time with a zone as microseconds since the epoch; None for anything else."""
    try:
        return (dt.datetime.fromisoformat(timestamp) - _EPOCH) // _MICROSECOND  # type: ignore[arg-type]  # TypeError is caught
    except (ValueError, TypeError):
        return None


def _ends(payloads: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return columns that stand at the end of canonical payloads; other payloads are parsed."""
    if not len(payloads):
        return _flat_columns(payloads, names)
    ends = ends_of(payloads)
    if ends.found.all():
        return {name: ends.columns[name] for name in names}
    others = _flat_columns(payloads.filter(pa.array(~ends.found)), names)
    places = np.where(ends.found, np.cumsum(ends.found), ends.found.sum() + np.cumsum(~ends.found)) - 1
    return {
        name: pa.concat_arrays([ends.columns[name], others[name]]).take(pa.array(places)) for name in names
    }


def _flat_columns(payloads: Any, names: Sequence[str]) -> dict[str, Any]:
    schema = pa.schema([_FLAT.field(name) for name in names])
    if not len(payloads) or not names:
        return {name: pa.array([], schema.field(name).type) for name in names}
    lines = _lines(payloads)
    try:
        table = pa.json.read_json(
            pa.BufferReader(lines),
            read_options=pa.json.ReadOptions(use_threads=False, block_size=_block_bytes(payloads)),
            parse_options=pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
    except pa.ArrowInvalid:
        return _one_by_one(payloads, names)
    if table.num_rows != len(payloads):
        return _one_by_one(payloads, names)
    return {name: table.column(name).combine_chunks() for name in names}


def _lines(payloads: Any) -> Any:
    """Return the payloads as one buffer of lines."""
    # A line break can only stand between two tokens: inside a JSON string it is escaped (RFC 8259, 7).
    if pc.any(pc.match_substring(payloads, b"\n")).as_py():
        payloads = pc.replace_substring(payloads, b"\n", b" ")
    whole = pa.ListArray.from_arrays(pa.array([0, len(payloads)], pa.int32()), payloads)
    return pc.binary_join(whole, b"\n")[0].as_buffer()


def _block_bytes(payloads: Any) -> int:
    return max(_BLOCK_BYTES, 2 * int(pc.max(pc.binary_length(payloads)).as_py()))


def _one_by_one(payloads: Any, names: Sequence[str]) -> dict[str, Any]:
    """Parse each payload by itself, so that a bad one costs only its own row."""
    events = [_event(payload) for payload in payloads.to_pylist()]
    return {
        name: pa.array(
            [_typed(event.get(name), int if name == "seq" else str) for event in events],
            _FLAT.field(name).type,
        )
        for name in names
    }


def _event(payload: bytes) -> dict[str, Any]:
    try:
        value = json.loads(payload)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _typed(value: object, kind: type) -> object:
    return value if type(value) is kind else None


def _data_column(payloads: Any) -> Any:
    """Return the text of each member `data`."""
    if bool(pc.all(pc.starts_with(payloads, _CANONICAL_START)).as_py()):
        ends = np.asarray(pc.find_substring(payloads, _DATA_ENDS), dtype="i4")
        flat = _flat_data(payloads, ends) if len(ends) and int(ends.min()) >= _DATA_AT else None
        if flat is not None:
            return flat
    return pa.array([_data_of(payload) for payload in payloads.to_pylist()], pa.string())


def _flat_data(payloads: Any, ends: Any) -> Any:
    """Cut `data` out of canonical payloads where it holds no object itself; None where one does."""
    _, places, values = payloads.buffers()
    starts = np.frombuffer(places, dtype="<i4")[payloads.offset : payloads.offset + len(payloads)]
    sizes = ends + np.int32(1 - _DATA_AT)
    everything = pa.Array.from_buffers(pa.uint8(), values.size, [None, values])
    pieces = pa.ListViewArray.from_arrays(pa.array(starts + np.int32(_DATA_AT)), pa.array(sizes), everything)
    text = np.asarray(pieces.flatten())
    # Each piece begins with { and ends with }; no more of them means that those two are a pair.
    if np.count_nonzero(text == ord("{")) != len(sizes) or np.count_nonzero(text == ord("}")) != len(sizes):
        return None
    limits = np.concatenate((np.zeros(1, "i8"), np.cumsum(sizes, dtype="i8"))).astype("<i4")
    cut = pa.Array.from_buffers(pa.binary(), len(sizes), [None, pa.py_buffer(limits), pa.py_buffer(text)])
    try:
        return cut.cast(pa.string())
    except pa.ArrowInvalid:  # not UTF-8: a damaged or foreign journal
        return None


def _data_of(payload: bytes) -> str | None:
    """Return the text of the member `data`, without decoding it where its place is known."""
    try:
        text = payload.decode()
        if payload.startswith(_CANONICAL_START):
            return text[_DATA_AT : _DECODER.raw_decode(text, _DATA_AT)[1]]
        data = _event(payload).get("data")
        return json.dumps(data, separators=(",", ":"), ensure_ascii=False) if isinstance(data, dict) else None
    except (ValueError, RecursionError):
        return None
