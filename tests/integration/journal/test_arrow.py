"""Arrow batches say exactly what the reader says."""

import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from jobwire.core.topics import Topics  # noqa: E402 - only where pyarrow is installed
from jobwire.journal.arrow import SCHEMA, record_batches  # noqa: E402 - as above
from jobwire.journal.entry import (  # noqa: E402 - as above
    DAMAGED,
    DAMAGED_TOPIC,
    Entry,
)
from jobwire.journal.index import SegmentIndex  # noqa: E402 - as above
from jobwire.journal.reader import JournalReader  # noqa: E402 - as above
from jobwire.journal.scan import load_span  # noqa: E402 - as above
from jobwire.journal.writer import JournalWriter  # noqa: E402 - as above
from jobwire.testing import ManualClock  # noqa: E402 - as above

_TOPICS = Topics("root")
_SIZES = [1, 1, 30, 1, 200, 2, 2, 60, 1]
_TOTAL = sum(_SIZES)
_NAMES = ["root/0000000a/events", "root/0000000b/state", "other/ü", "root/0000000c/events"]


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a journal with blocks of many sizes, one of them too large to be copied."""
    directory = tmp_path_factory.mktemp("arrow") / "j"
    with JournalWriter(directory, clock=ManualClock(), segment_bytes=60_000) as writer:
        for count in _SIZES:
            start = writer.next_offset
            writer.append(
                [
                    Entry(
                        1_700_000_000_000_000 + i,
                        _NAMES[i % 4],
                        b"\x00\xff%d" % i * (i % 200),
                        i % 3 == 0,
                        ["accepted", "late", "bad_signature"][i % 7 % 3],
                        i % 5 == 0,
                    )
                    for i in range(start, start + count)
                ]
            )
    return directory


@settings(deadline=None)
@given(st.data())
def test_what_damage_took_is_a_row_of_its_own(
    journal: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Whatever byte is wrong: each offset comes once and in order, as it was stored or said to be damaged."""
    with JournalReader(journal) as reader:
        wanted = reader.read(0, max_rows=_TOTAL, max_bytes=1 << 30)
    copy = tmp_path_factory.mktemp("damaged") / "j"
    shutil.copytree(journal, copy)
    path = data.draw(st.sampled_from(sorted(p for p in copy.iterdir() if p.suffix in {".seg", ".idx"})))
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1)) if content else 0
    if content:
        content[place] ^= data.draw(st.integers(1, 255))
        path.write_bytes(content)
    found: list[tuple[object, ...]] = []
    with JournalReader(copy) as reader:
        for span in reader.scan(0, _TOTAL, max_bytes=data.draw(st.sampled_from([1, 20_000, 1 << 24]))):
            index = SegmentIndex.load(copy, span.segment_base)
            loaded = load_span(copy, span, skip=True)
            for batch in record_batches(loaded, span, topics=_TOPICS, skip=index):
                names = ("offset", "topic", "payload", "verdict")
                found += zip(*(batch.column(name).to_pylist() for name in names), strict=True)
    assert [row[0] for row in found] == list(range(_TOTAL))
    for row, stored in zip(found, wanted, strict=True):
        sound = (stored.offset, stored.topic, stored.payload, stored.verdict)
        assert row in {sound, (stored.offset, DAMAGED_TOPIC, b"", DAMAGED)}
    took = sum(row[3] == DAMAGED for row in found)
    assert took == 0 if path.suffix == ".idx" else took < _TOTAL


@settings(deadline=None)
@given(
    st.integers(0, _TOTAL - 1),
    st.integers(1, _TOTAL),
    st.integers(1, 80),
    st.sampled_from([1, 20_000, 1 << 24]),
)
def test_batches_equal_rows(journal: Path, start: int, length: int, rows: int, span_bytes: int) -> None:
    """Every column of every row, over any range, cut into spans and batches in any way."""
    end = min(_TOTAL, start + length)
    with JournalReader(journal) as reader:
        wanted = reader.read(start, max_rows=end - start, max_bytes=1 << 30)
        spans = list(reader.scan(start, end, max_bytes=span_bytes))
    batches = [
        batch
        for span in spans
        for batch in record_batches(load_span(journal, span), span, topics=_TOPICS, max_rows=rows)
    ]
    for batch in batches:
        batch.validate(full=True)
        assert batch.schema == SCHEMA
    table = pa.Table.from_batches(batches, SCHEMA)
    got = table.set_column(1, "received_at", table["received_at"].cast(pa.int64())).to_pylist()
    assert [
        (
            g["offset"],
            g["received_at"],
            g["topic"],
            g["payload"],
            g["retained"],
            g["verdict"],
            g["redelivered"],
        )
        for g in got
    ] == [tuple(row) for row in wanted]
    addresses = [_TOPICS.parse(row.topic) for row in wanted]
    assert [g["job_id"] for g in got] == [a.job_id if a else None for a in addresses]


def test_a_large_block_is_not_copied(tmp_path: Path) -> None:
    """The payload column of a span of one large block lies on the loaded bytes themselves."""
    with JournalWriter(tmp_path / "j", clock=ManualClock()) as writer:
        writer.append([Entry(1, "t", b"x" * 1000, False, "accepted")] * 500)
    with JournalReader(tmp_path / "j") as reader:
        (span,) = reader.scan(0, 500)
    data = load_span(tmp_path / "j", span)
    (batch,) = record_batches(data, span, topics=_TOPICS)
    base = pa.py_buffer(data)
    for name in ("payload", "received_at"):
        buffer = batch[name].buffers()[-1]
        assert base.address <= buffer.address < base.address + base.size
