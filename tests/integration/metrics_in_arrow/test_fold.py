"""The fold and its store: whatever the batches, the same tables as one plain loop over the journal."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobwire.core.clock import SystemClock
from jobwire.journal.entry import Entry
from jobwire.metrics.buckets import buckets_of
from jobwire.metrics.database import Database, open_database
from jobwire.metrics.fold import WIDTHS_SECONDS, watermark_us
from jobwire.metrics.rows import Rows
from jobwire.metrics.sink import MetricsSink
from jobwire.testing.rehearsal import Mix, Rehearsal

Model = Callable[[Sequence[Entry]], dict[str, Any]]
TableOf = Callable[..., Rows]
# An example folds hundreds of rows.
_SETTINGS = settings(
    max_examples=settings().max_examples // 2, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
_JOB_COLUMNS = (
    "started_us finished_us outcome events attempts waiting_us terminal_seq last_seq last_event_us last_event"
)


class Tables:
    """Metric tables in a file of their own, without flushes."""

    def __init__(self, path: Path, session_of: Callable[[str], str] | None = None) -> None:
        self.database: Database = open_database(str(path), durable=False)
        self.sink = MetricsSink(self.database, clock=SystemClock(), session_of=session_of)
        self.sink.prepare()

    def apply(self, batches: Sequence[Rows], journal: str = "j") -> "Tables":
        """Fold batch after batch."""
        for rows in batches:
            self.sink.apply(rows, journal)
        return self

    def counts(self, query: str) -> dict[Any, int]:
        """Return the rows of a query: all but the last column is the key."""
        return {tuple(key): number for *key, number in self.database.rows(query)}

    def jobs(self) -> dict[str, dict[str, Any]]:
        """Return what the model knows of each job."""
        names = _JOB_COLUMNS.split()
        found = self.database.rows(f"SELECT job_id, {', '.join(names)} FROM job_totals")  # noqa: S608 - ours
        return {job_id: dict(zip(names, values, strict=True)) for job_id, *values in found}


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[Tables]:
    """Give empty tables."""
    made = Tables(tmp_path / "metrics.db")
    yield made
    made.sink.close()


def folded(batches: Sequence[Rows], session_of: Callable[[str], str] | None = None) -> dict[str, Any]:
    """Fold the batches into new tables and return what is in them."""
    with TemporaryDirectory() as folder:
        found = Tables(Path(folder) / "metrics.db", session_of).apply(batches)
        with found.sink:
            return {
                "windows": found.counts(
                    "SELECT width_seconds, window_start, event_type, SUM(events) FROM windows"
                    " GROUP BY width_seconds, window_start, event_type"
                ),
                "rejections": found.counts(
                    "SELECT width_seconds, window_start, reason, events FROM rejections"
                ),
                "histograms": found.counts(
                    "SELECT width_seconds, measure, window_start, outcome, bucket, events FROM measured"
                    " WHERE dimension = '' AND measure NOT IN ('delay', 'ahead')"
                ),
                "jobs": found.jobs(),
            }


def ends_of(jobs: dict[str, dict[str, Any]]) -> dict[Any, int]:
    """Return the histograms that these jobs give, one by one."""
    found: Counter[Any] = Counter()
    for job in jobs.values():
        if job["finished_us"] is None:
            continue
        lengths = {
            "duration": job["finished_us"] - job["started_us"],
            "waiting": job["waiting_us"],
            "begun": 0,
        }
        for measure, length in lengths.items():
            moment = job["started_us" if measure == "begun" else "finished_us"]
            bucket = int(buckets_of(np.array([length], np.int64))[0])
            if measure != "waiting" or length:
                for width in WIDTHS_SECONDS:
                    start = moment // 1_000_000 // width * width
                    found[width, measure, start, job["outcome"], bucket] += 1
    return found


def disturbed(entries: list[Entry], random: Random, trouble: float) -> list[Entry]:
    """Lose, repeat and swap accepted messages: what several recorders and resent events make of a journal."""
    kept: list[Entry] = []
    for entry in entries:
        if entry.verdict != "accepted" or random.random() > trouble:
            kept.append(entry)
        elif random.random() < 0.5:
            kept += [entry, entry._replace(received_at_us=entry.received_at_us + 5)]
    for place in range(len(kept) - 9):
        if random.random() < trouble:
            other = place + random.randint(1, 8)
            kept[place], kept[other] = kept[other], kept[place]
    return kept


@_SETTINGS
@given(
    seed=st.integers(0, 10_000),
    trouble=st.sampled_from((0.0, 0.02, 0.3)),
    cuts=st.lists(st.integers(0, 400), max_size=9),
)
def test_any_batches_give_the_tables_of_one_loop(
    seed: int, trouble: float, cuts: list[int], table_of: TableOf, model: Model
) -> None:
    """Cut anywhere, with gaps, repeated and swapped messages inside: every table equals the model's."""
    entries = disturbed(list(Rehearsal(seed=seed, jobs=12, active=5)), Random(seed), trouble)  # noqa: S311 - a script
    expected = model(entries)
    places = sorted({0, len(entries), *(cut % (len(entries) + 1) for cut in cuts)})
    got = folded([table_of(entries[a:b], a) for a, b in itertools.pairwise(places)], lambda job: job[-1])
    assert got["windows"] == expected["windows"]
    assert got["rejections"] == expected["rejections"]
    assert got["jobs"] == expected["jobs"]
    assert got["histograms"] == ends_of(expected["jobs"])


@_SETTINGS
@given(seed=st.integers(0, 10_000))
def test_a_jobs_totals_do_not_depend_on_the_order(seed: int, table_of: TableOf, model: Model) -> None:
    """Two journals that hold a job's events between them give the totals of one, and no run is left apart."""
    random = Random(seed)  # noqa: S311 - a script
    entries = [e for e in Rehearsal(seed=seed, jobs=6, active=3) if e.verdict == "accepted"]
    expected = model(entries)["jobs"]
    halves: tuple[list[Entry], list[Entry]] = ([], [])
    for entry in entries:
        halves[random.randint(0, 1)].append(entry)
    turns = list("a" * len(halves[0]) + "b" * len(halves[1]))
    random.shuffle(turns)
    batches = {name: iter(range(len(half))) for name, half in zip("ab", halves, strict=True)}
    with TemporaryDirectory() as folder:
        tables = Tables(Path(folder) / "metrics.db")
        for name in turns:
            place = next(batches[name])
            tables.apply([table_of([halves["ab".index(name)][place]], place)], name)
        assert tables.jobs() == expected
        assert tables.database.rows("SELECT COUNT(*) FROM job_totals WHERE runs IS NOT NULL") == [(0,)]
        tables.sink.close()


def test_skewed_clocks_change_delays_only(tables: Tables, table_of: TableOf) -> None:
    """A worker whose clock is hours off is counted in the window of receipt, and as ahead or late."""
    mix = Mix(refused=0, repeated=0, skewed=0.5, hostile=0)
    entries = list(Rehearsal(seed=3, jobs=10, mix=mix))
    tables.apply([table_of(entries)])
    starts = [start for (start,) in tables.database.rows("SELECT window_start FROM window_counts")]
    assert min(starts) >= entries[0].received_at_us // 3_600_000_000 * 3600
    assert max(starts) <= entries[-1].received_at_us // 1_000_000
    told = "SELECT measure, SUM(events) FROM measured WHERE width_seconds = 10 GROUP BY measure"
    found: dict[str, int] = dict(tables.database.rows(told))
    assert found["ahead"] > 0
    assert found["delay"] == len(entries)


@pytest.mark.parametrize("batches", [1, 2])
def test_a_clock_set_back_changes_no_final_window(tables: Tables, table_of: TableOf, batches: int) -> None:
    """A row received "before" the watermark counts at the watermark, in whichever batch it comes."""
    entries = list(Rehearsal(seed=1, jobs=3))
    late = entries[-1]._replace(
        received_at_us=entries[0].received_at_us - 3_600_000_000, verdict="set_back", payload=b"?"
    )
    high = watermark_us(table_of(entries), 0)
    parts = [[*entries, late]] if batches == 1 else [entries, [late]]
    starts = [0, len(entries)]
    tables.apply([table_of(part, start) for part, start in zip(parts, starts, strict=False)])
    found = tables.counts("SELECT width_seconds, window_start, reason, events FROM rejections")
    assert {key: count for key, count in found.items() if key[2] == "set_back"} == {
        (width, high // 1_000_000 // width * width, "set_back"): 1 for width in WIDTHS_SECONDS
    }
    assert watermark_us(table_of([late], len(entries)), high) == high


def test_strange_verdicts_share_one_name(tables: Tables, table_of: TableOf) -> None:
    """A foreign journal's own words cannot fill the table with keys."""
    entry = next(iter(Rehearsal(seed=1, jobs=1)))
    tables.apply([table_of([entry._replace(verdict=f"Reason {n}\x00") for n in range(5)])])
    assert tables.database.rows("SELECT DISTINCT reason FROM rejections") == [("other",)]


def test_sessions_are_asked_once_a_job(tmp_path: Path, table_of: TableOf) -> None:
    """The session of a job is looked up when its first event comes and kept with its totals."""
    entries = [e for e in Rehearsal(seed=5, jobs=4) if e.verdict == "accepted"]
    asked: list[str] = []

    def session_of(job_id: str) -> str:
        asked.append(job_id)
        return f"session-{job_id[-1]}"

    half = len(entries) // 2
    tables = Tables(tmp_path / "metrics.db", session_of)
    tables.apply([table_of(entries[:half]), table_of(entries[half:], half)])
    assert len(asked) == len(set(asked))
    sessions = [name for (name,) in tables.database.rows("SELECT DISTINCT session FROM windows")]
    assert set(sessions) == {session_of(job) for job in tables.jobs()}
    shares: dict[str, int] = dict(
        tables.database.rows(
            "SELECT value, SUM(events) FROM measured"
            " WHERE dimension = 'session' AND measure = 'duration' AND width_seconds = 60 GROUP BY value"
        )
    )
    ended = Counter(session_of(name) for name, job in tables.jobs().items() if job["finished_us"])
    assert shares == ended
    tables.sink.close()


def test_jobs_without_a_session_count_alike_in_any_batches(tmp_path: Path, table_of: TableOf) -> None:
    """Whether a job with a session ends in the same batch changes nothing for one that has none."""
    entries = [e for e in Rehearsal(seed=6, jobs=12, active=4) if e.verdict == "accepted"]
    digests = []
    for size in (len(entries), 3):
        tables = Tables(tmp_path / f"{size}.db", lambda job: "docs" if int(job, 16) % 3 == 0 else "")
        tables.apply([table_of(entries[at : at + size], at) for at in range(0, len(entries), size)])
        digests.append(tables.sink.digests())
        tables.sink.close()
    assert digests[0] == digests[1]


def test_no_rows_change_nothing(tables: Tables, table_of: TableOf) -> None:
    """An empty batch is a batch."""
    tables.apply([table_of([])])
    assert tables.sink.progress() == {}
    assert tables.jobs() == {}
    assert watermark_us(table_of([]), 7) == 7


def test_what_the_recorder_did_not_store_is_counted(tables: Tables, table_of: TableOf) -> None:
    """A note of suppressed messages adds its counts to the reasons, and is no message itself."""
    entry = next(iter(Rehearsal(seed=1, jobs=1)))
    notes = [
        entry._replace(verdict="suppressed", payload=b'{"bad_signature":40,"malformed":2}'),
        entry._replace(verdict="suppressed", payload=b'{"bad_signature":40,"malformed":2}'),
        entry._replace(verdict="suppressed", payload=b"[]"),
        entry._replace(verdict="malformed", payload=b"?"),
    ]
    tables.apply([table_of(notes)])
    counts: dict[str, int] = dict(
        tables.database.rows("SELECT reason, events FROM rejections WHERE width_seconds = 60")
    )
    assert counts == {"bad_signature": 80, "malformed": 5, "unreadable": 1}
