"""States say everything again and again: in the tables it counts once, whoever says it, in whatever order."""

import tempfile
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.core.clock import SystemClock, utc_timestamp
from jobwire.core.topics import Topics
from jobwire.jobs.fact import FACT, Fact, FactKind, encode_fact
from jobwire.jobs.record import JobRecord
from jobwire.jobs.snapshot import encode_snapshot
from jobwire.journal.entry import STATE_VERDICT, Stored
from jobwire.metrics.database import open_database
from jobwire.metrics.rows import rows_of
from jobwire.metrics.sink import MetricsSink
from jobwire.metrics.source.verification import Judge
from jobwire.testing.plain_consumer import table_of

TOPICS = Topics()
BEGAN = 1_800_000_000
STAMP = utc_timestamp(BEGAN)
OLD, NEW = "o" * 43, "n" * 43
RECORD = JobRecord("0000abcd", NEW, STAMP, STAMP, attempt=2, previous_tokens=(OLD,))
LIFE = [
    Fact(RECORD.job_id, STAMP, 1 + line, kind, utc_timestamp(BEGAN + line), attempt, "docs", "ana")
    for line, (kind, attempt) in enumerate(
        (
            (FactKind.REGISTERED, 1),
            (FactKind.CLAIMED, 1),
            (FactKind.REQUEUED, 2),
            (FactKind.CLAIMED, 2),
            (FactKind.CANCELLED, 2),
            (FactKind.PURGED, 2),
        )
    )
]
# What is told within ten seconds counts in the window in which it happened.
TOLD_US = (BEGAN + 9) * 1_000_000


def state(count: int) -> bytes:
    """Return the state after so many decisions."""
    return encode_snapshot(RECORD, confirmed_seq=0, facts=LIFE[:count])


def digests(journals: Sequence[Sequence[tuple[str, bytes, str]]], batch: int) -> dict[str, str]:
    """Return the digests of tables into which the journals were folded, so many rows at a time, in turn."""
    with tempfile.TemporaryDirectory() as folder:
        sink = MetricsSink(open_database(str(Path(folder) / "metrics.db")), clock=SystemClock())
        with sink:
            sink.prepare()
            for begin in range(0, max(map(len, journals)), batch):
                for name, journal in enumerate(journals):
                    rows = [
                        Stored(begin + place, TOLD_US, topic, payload, False, verdict)
                        for place, (topic, payload, verdict) in enumerate(journal[begin : begin + batch])
                    ]
                    if rows:
                        sink.apply(rows_of(table_of(rows, TOPICS)), str(name))
            return sink.digests()


def stated(counts: Iterable[int]) -> list[tuple[str, bytes, str]]:
    """Return entries of states after so many decisions each."""
    return [(TOPICS.state(RECORD.job_id), state(count), STATE_VERDICT) for count in counts]


@cache
def told_once() -> dict[str, str]:
    """Return the digests of tables from the registry's own journal."""
    return digests([[(TOPICS.facts(RECORD.job_id), encode_fact(fact), FACT) for fact in LIFE]], len(LIFE))


said = st.lists(st.integers(0, len(LIFE)), max_size=8)


@given(first=said, second=said, last=st.integers(0, 8), batch=st.integers(1, 9))
def test_states_again_and_in_any_order(first: list[int], second: list[int], last: int, batch: int) -> None:
    """Where the last state is among them, the tables are those of the registry's own facts."""
    first.insert(min(last, len(first)), len(LIFE))
    assert digests([stated(first), stated(second)], batch) == told_once()


@pytest.mark.parametrize(
    ("keys", "payload", "verdict"),
    [
        ((OLD, NEW), state(3), "state"),
        ((OLD,), state(3), "state"),
        ((OLD, NEW), b"", "state"),
        (("x" * 43,), state(3), "bad_signature"),
        ((OLD, NEW), state(3).replace(b'"ana"', b'"bob"'), "bad_signature"),
        ((OLD, NEW), b"{", "bad_signature"),
        ((), state(3), "unknown_job"),
    ],
)
def test_a_state_is_believed_by_its_signature(keys: tuple[str, ...], payload: bytes, verdict: str) -> None:
    """It is sealed for the holders of the present attempt and of earlier ones; anything else is refused."""
    judge = Judge(topics=TOPICS, keys={RECORD.job_id: keys} if keys else {})
    batch = pa.RecordBatch.from_pylist(
        [
            {"verdict": told, "topic": TOPICS.state(job), "payload": payload, "retained": True}
            for told, job in (("unverified", RECORD.job_id), ("malformed", RECORD.job_id))
        ]
    )
    assert judge.verdicts(batch).to_pylist() == [verdict, "malformed"]
