"""What the source gives the fold, against the plain loop that computes the same row by row."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from jobwire.core.clock import SystemClock
from jobwire.core.topics import Topics
from jobwire.jobs.fact import FACT, Fact, FactKind, encode_fact
from jobwire.jobs.record import JobRecord
from jobwire.jobs.snapshot import encode_snapshot
from jobwire.journal.entry import STATE_VERDICT, Entry
from jobwire.journal.evidence import SUPPRESSED, SUPPRESSED_TOPIC
from jobwire.journal.parsing import microsecond_of, microseconds
from jobwire.journal.reader import JournalReader
from jobwire.journal.writer import JournalWriter
from jobwire.metrics.rows import rows_of
from jobwire.metrics.source.fold_form import rows_in
from jobwire.metrics.source.options import SourceOptions
from jobwire.metrics.source.planning import plan
from jobwire.testing.plain_consumer import table_of
from jobwire.testing.rehearsal import Rehearsal

ENTRIES = list(Rehearsal(seed=5, jobs=40))
LATER_US = ENTRIES[-1].received_at_us
STAMP = "2026-01-31T12:00:00.000Z"
STATED = JobRecord("0000abcd", "t" * 43, STAMP, STAMP)
FACTS = [
    Fact(STATED.job_id, STAMP, 1, FactKind.REGISTERED, STAMP, 1, "docs", labels={"note": "a\u2028b"}),
    Fact(STATED.job_id, STAMP, 2, FactKind.CANCELLED, STAMP, 1, "docs", "ana", "two\nlines"),
]
ODD = [
    ENTRIES[0]._replace(verdict="accepted", payload=b"not json at all"),
    ENTRIES[1]._replace(verdict="accepted", payload=b'{"event":5,"seq":1,"timestamp":"2026-01-01T00:00Z"}'),
    ENTRIES[2]._replace(topic="elsewhere", verdict="malformed", payload=b"\xff\x00"),
    Entry(ENTRIES[-1].received_at_us, SUPPRESSED_TOPIC, b'{"malformed": 7}', False, SUPPRESSED),
    Entry(ENTRIES[-1].received_at_us, "a/b", b"a forged note", False, SUPPRESSED),
    *(
        Entry(LATER_US, Topics().state(STATED.job_id), state, True, STATE_VERDICT)
        for state in (
            encode_snapshot(STATED, confirmed_seq=0),
            encode_snapshot(STATED, confirmed_seq=0, facts=FACTS),
            b"",
        )
    ),
    Entry(LATER_US, Topics().facts(STATED.job_id), encode_fact(FACTS[0]), False, FACT),
    Entry(LATER_US, Topics().events(STATED.job_id), encode_fact(FACTS[0]), False, FACT),
]


def test_the_source_gives_what_the_plain_loop_computes(tmp_path: Path) -> None:
    """Every column of every row is equal: accepted, refused, facts, states, counts of what was not stored."""
    path = tmp_path / "journal"
    with JournalWriter(path, clock=SystemClock()) as writer:
        writer.append(ENTRIES)
        writer.append(ODD)
    options = SourceOptions(path, shards=1)
    end = len(ENTRIES) + len(ODD)
    with JournalReader(path) as reader:
        pieces = [piece for task in plan(reader, options, 0, end) for piece in task.pieces]
        stored = reader.read(0, max_rows=end, max_bytes=1 << 30)
    assert len(pieces) == 1
    found, expected = rows_in(options, pieces[0], 0), rows_of(table_of(stored, Topics()))
    assert [fact.again for fact in found.facts] == [True, True, False]
    names = found._fields
    assert all(np.array_equal(getattr(found, name), getattr(expected, name)) for name in names)


@pytest.mark.parametrize(
    "odd", ["2026-02-30T00:00:00Z", "yesterday", "2026-01-01T00:00:00", "2026-01-01T02:00:00+02:00", "", None]
)
def test_times_are_read_alike_in_bulk_and_one_by_one(odd: str | None) -> None:
    """Down to the microsecond, finer digits cut off; one bad time costs only itself."""
    good = [
        "2026-01-01T00:00:00Z",
        "2026-01-01T23:59:59.1Z",
        "2026-01-01T00:00:00.123456Z",
        "2026-01-01T00:00:00.123456789Z",
        "1969-12-31T23:59:59.9999999Z",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999999999Z",
    ]
    for texts in (good, [*good, odd]):
        found = microseconds(pa.array(texts, pa.string())).to_pylist()
        assert found == [microsecond_of(text) for text in texts]
    assert microsecond_of(good[3]) == microsecond_of(good[2])


def test_no_rows_are_no_rows() -> None:
    """An empty column of times is an empty column."""
    assert microseconds(pa.array([], pa.string())).to_pylist() == []
