"""Parsing accepted payloads into columns: Arrow's parser, checked against `json`."""

import json

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from jobwire.core.canonical import canonical_json
from jobwire.jobs.event import EVENT_TYPES, Event, compose, encode_signed
from jobwire.journal.parsing import parse_accepted

TOKEN = "t" * 43
AT_THE_END = ("seq", "event", "timestamp")
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
DATA = st.dictionaries(
    TEXT.filter(lambda key: key != "hmac_sig"),
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**53) + 1, 2**53 - 1), TEXT, st.lists(TEXT, max_size=2)
    ),
    max_size=4,
)
EVENTS = st.builds(
    lambda seq, event, detail, data: compose(
        seq=seq, job_id="0a1b2c3d", event=event, timestamp="2026-01-01T00:00:00Z", detail=detail, data=data
    ),
    st.integers(1, 2**53 - 1),
    st.sampled_from(sorted(EVENT_TYPES)),
    TEXT,
    DATA,
)


def parsed(verdicts: list[str], payloads: list[bytes]) -> list[dict[str, object]]:
    """Return the parsed columns as rows."""
    columns = parse_accepted(pa.array(verdicts, pa.string()), pa.array(payloads, pa.binary()))
    rows: list[dict[str, object]] = pa.table(columns).to_pylist()
    return rows


@given(st.lists(st.tuples(EVENTS, st.sampled_from(["signed", "indented", "refused"])), max_size=8))
def test_columns_equal_what_json_reads(events: list[tuple[object, str]]) -> None:
    """Any event, in canonical or any other form, has the same fields as `json` gives; refused ones none."""
    payloads, verdicts = [], []
    for event, form in events:
        signed = encode_signed(event, TOKEN)  # type: ignore[arg-type]  # built above
        payloads.append(json.dumps(json.loads(signed), indent=1).encode() if form == "indented" else signed)
        verdicts.append("late" if form == "refused" else "accepted")
    for row, payload, verdict in zip(parsed(verdicts, payloads), payloads, verdicts, strict=True):
        said = json.loads(payload)
        if verdict == "late":
            assert set(row.values()) == {None}
            continue
        data = row.pop("data")
        assert row == {name: said[name] for name in row}
        assert isinstance(data, str)
        assert json.loads(data) == said["data"]


@given(
    st.lists(
        st.tuples(
            EVENTS,
            st.sampled_from(["", ".1", ".123", ".123456", ".123456789"]),
            st.sampled_from(["signed", "indented", "refused", "longer", "without seq", "text"]),
        ),
        max_size=12,
    )
)
def test_what_stands_at_the_end_of_an_event_is_read_as_json_reads_it(
    events: list[tuple[Event, str, str]],
) -> None:
    """Times of any length, other forms, and texts that only look like the end: the same as `json` gives."""
    verdicts, payloads, expected = [], [], []
    for event, fraction, form in events:
        stamped = event._replace(timestamp=f"2026-01-01T00:00:00{fraction}Z")
        if form == "text":
            stamped = stamped._replace(detail=encode_signed(event, TOKEN).decode())
        said = json.loads(encode_signed(stamped, TOKEN))
        if form == "longer":
            said["unknown"] = 1
        if form == "without seq":
            del said["seq"]
        whole = form not in {"refused", "without seq"}
        verdicts.append("late" if form == "refused" else "accepted")
        payloads.append(json.dumps(said, indent=1).encode() if form == "indented" else canonical_json(said))
        expected.append([said[name] if whole else said.get(name) for name in AT_THE_END])
        if form == "refused":
            expected[-1] = [None] * len(AT_THE_END)
    arrays = pa.array(verdicts, pa.string()), pa.array(payloads, pa.binary())
    columns = parse_accepted(*arrays, AT_THE_END)
    rows = list(zip(*(columns[name].to_pylist() for name in AT_THE_END), strict=True))
    assert [list(row) for row in rows] == expected


def test_a_bad_row_costs_itself_only() -> None:
    """Bytes that are no event, though marked accepted, are null; their neighbours are read."""
    good = encode_signed(
        compose(
            seq=7, job_id="0a1b2c3d", event="progress", timestamp="2026-01-01T00:00:00Z", detail="x", data={}
        ),
        TOKEN,
    )
    bad = [
        b"",
        b"\xff\xfe",
        b"[1]",
        b'{"seq":"7","event":3}',
        b'{"data":{"a":',
        b"{}{}",
        b'{"seq":1}\n{"seq":2}',
    ]
    rows = parsed(["accepted"] * (len(bad) + 2), [good, *bad, good])
    assert [rows[0]["seq"], rows[-1]["seq"]] == [7, 7]
    assert all(row["event"] is None for row in rows[1:-1])


def test_no_rows() -> None:
    """An empty batch has the columns."""
    assert parsed([], []) == []
    assert parsed(["late"], [b"x"])[0]["seq"] is None


@given(
    st.lists(
        st.recursive(
            TEXT,
            lambda inner: st.dictionaries(
                st.sampled_from(["detail", "data", '},"detail":', "{", "x"]), inner, max_size=3
            ),
            max_leaves=6,
        ),
        max_size=6,
    )
)
def test_data_is_cut_out_whole(values: list[object]) -> None:
    """Objects within `data`, with keys and texts that look like its end, do not shorten it."""
    payloads = [
        encode_signed(
            compose(
                seq=1, job_id="0a1b2c3d", event="progress", timestamp="2026-01-01T00:00:00Z",
                detail='"},"detail":', data={"value": value},
            ),
            TOKEN,
        )
        for value in values
    ]  # fmt: skip
    found = [row["data"] for row in parsed(["accepted"] * len(payloads), payloads)]
    assert [json.loads(str(data)) for data in found] == [json.loads(p)["data"] for p in payloads]
