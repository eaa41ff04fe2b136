"""The fold: whatever the batches, the same numbers as one plain loop over the journal."""

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobwire.journal.entry import Entry
from jobwire.metrics.fold import fold, watermark_us
from jobwire.metrics.job_totals import JobTotals
from jobwire.metrics.rows import Rows
from jobwire.testing.rehearsal import Mix, Rehearsal

Model = Callable[[Sequence[Entry]], dict[str, Any]]
TableOf = Callable[..., Rows]
# An example folds hundreds of rows.
_SETTINGS = settings(
    max_examples=settings().max_examples // 2, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def no_session(job_id: str) -> str:
    """Know no sessions."""
    return ""


def folded(batches: Sequence[Rows]) -> dict[str, Any]:
    """Fold batch after batch, as the sink does, and return the sums."""
    jobs: dict[str, JobTotals] = {}
    windows: Counter[Any] = Counter()
    rejections: Counter[Any] = Counter()
    delays: Counter[Any] = Counter()
    for rows in batches:
        changes = fold(rows, jobs, no_session)
        jobs |= {totals.job_id: totals for totals in changes.jobs}
        windows.update({(*window, event): n for (window, event, _), n in changes.windows.items()})
        rejections.update({(*window, reason): n for (window, reason), n in changes.rejections.items()})
        delays.update(changes.delays)
    return {"windows": windows, "rejections": rejections, "delays": delays, "jobs": jobs}


def job_values(totals: JobTotals) -> dict[str, Any]:
    """Return what the model knows of a job."""
    return {
        "started_us": totals.started_us,
        "finished_us": totals.finished_us,
        "outcome": totals.outcome,
        "events": totals.events,
        "attempts": totals.attempts,
        "waiting_us": totals.waiting_us,
        "last_seq": totals.last.last_seq,
    }


def doubled(entries: list[Entry], random: Random) -> list[Entry]:
    """Put copies of accepted messages in, accepted once more: what a journal without keys holds."""
    accepted = [entry for entry in entries if entry.verdict == "accepted"]
    copies = [entry._replace(received_at_us=entry.received_at_us + 5) for entry in accepted[::7]]
    return sorted([*entries, *copies], key=lambda entry: entry.received_at_us + random.randint(0, 9) * 1000)


@_SETTINGS
@given(seed=st.integers(0, 10_000), cuts=st.lists(st.integers(0, 400), max_size=6))
def test_any_batches_give_the_numbers_of_one_loop(
    seed: int, cuts: list[int], table_of: TableOf, model: Model
) -> None:
    """Cut anywhere, with repeated messages inside: windows, rejections and jobs equal the model's."""
    entries = doubled(list(Rehearsal(seed=seed, jobs=12, active=5)), Random(seed))  # noqa: S311 - a script
    expected = model(entries)
    places = sorted({0, len(entries), *(cut % (len(entries) + 1) for cut in cuts)})
    batches = [table_of(entries[a:b], a) for a, b in itertools.pairwise(places)]
    got = folded(batches)
    assert got["windows"] == expected["windows"]
    assert got["rejections"] == expected["rejections"]
    assert {job_id: job_values(totals) for job_id, totals in got["jobs"].items()} == expected["jobs"]


@_SETTINGS
@given(seed=st.integers(0, 10_000))
def test_a_jobs_totals_do_not_depend_on_the_order(seed: int, table_of: TableOf, model: Model) -> None:
    """Two shards that hold a job's events between them give the totals of one journal."""
    random = Random(seed)  # noqa: S311 - a script
    entries = [e for e in Rehearsal(seed=seed, jobs=6, active=3) if e.verdict == "accepted"]
    expected = model(entries)["jobs"]
    shards: tuple[list[Entry], list[Entry]] = ([], [])
    for entry in entries:
        shards[random.randint(0, 1)].append(entry)
    batches = [table_of([entry], n, shard=0) for n, entry in enumerate(shards[0])]
    batches += [table_of([entry], n, shard=1) for n, entry in enumerate(shards[1])]
    random.shuffle(batches)
    got = folded(batches)["jobs"]
    assert {job_id: job_values(totals) for job_id, totals in got.items()} == expected
    assert all(len(totals.runs) == 1 for totals in got.values())


def test_skewed_clocks_change_delays_only(table_of: TableOf) -> None:
    """A worker whose clock is hours off is counted in the window of receipt, and as ahead or late."""
    mix = Mix(refused=0, repeated=0, skewed=0.5, hostile=0)
    entries = list(Rehearsal(seed=3, jobs=10, mix=mix))
    changes = fold(table_of(entries), {}, no_session)
    starts = {start for (_, start), _, _ in changes.windows}
    assert min(starts) >= entries[0].received_at_us // 60_000_000 * 60
    assert max(starts) <= entries[-1].received_at_us // 1_000_000
    assert sum(n for (width, _), n in changes.ahead.items() if width == 10) > 0
    assert sum(n for ((width, _), _), n in changes.delays.items() if width == 10) == len(entries)


def test_a_clock_set_back_changes_its_old_window(table_of: TableOf) -> None:
    """A row received "before" the watermark is counted all the same, and the watermark never falls."""
    entries = list(Rehearsal(seed=1, jobs=3))
    late = entries[-1]._replace(
        received_at_us=entries[0].received_at_us - 3_600_000_000, verdict="malformed", payload=b"?"
    )
    rows = table_of([*entries, late])
    changes = fold(rows, {}, no_session)
    old = late.received_at_us // 10_000_000 * 10
    assert changes.rejections[(10, old), "malformed"] == 1
    high = watermark_us(table_of(entries), 0)
    assert watermark_us(table_of([late], len(entries)), high) == high


def test_strange_verdicts_share_one_name(table_of: TableOf) -> None:
    """A foreign journal's own words cannot fill the table with keys."""
    entry = next(iter(Rehearsal(seed=1, jobs=1)))
    rows = table_of([entry._replace(verdict=f"Reason {n}\x00") for n in range(5)])
    changes = fold(rows, {}, no_session)
    assert {reason for _, reason in changes.rejections} == {"other"}


def test_sessions_are_asked_once_a_job(table_of: TableOf) -> None:
    """The session of a job is looked up when its first event comes and kept with its totals."""
    entries = [e for e in Rehearsal(seed=5, jobs=4) if e.verdict == "accepted"]
    asked: list[str] = []

    def session_of(job_id: str) -> str:
        asked.append(job_id)
        return f"session-{job_id[-1]}"

    half = len(entries) // 2
    first = fold(table_of(entries[:half]), {}, session_of)
    known = {totals.job_id: totals for totals in first.jobs}
    second = fold(table_of(entries[half:], half), known, session_of)
    assert len(asked) == len(set(asked))
    assert all(session.startswith("session-") for _, _, session in second.windows)


def test_no_rows_change_nothing(table_of: TableOf) -> None:
    """An empty batch is a batch."""
    changes = fold(table_of([]), {}, no_session)
    assert not any(changes)
    assert watermark_us(table_of([]), 7) == 7


def test_what_the_recorder_did_not_store_is_counted(table_of: TableOf) -> None:
    """A note of suppressed messages adds its counts to the reasons, and is no message itself."""
    entry = next(iter(Rehearsal(seed=1, jobs=1)))
    notes = [
        entry._replace(verdict="suppressed", payload=b'{"bad_signature":40,"malformed":2}'),
        entry._replace(verdict="suppressed", payload=b'{"bad_signature":40,"malformed":2}'),
        entry._replace(verdict="suppressed", payload=b"[]"),
        entry._replace(verdict="malformed", payload=b"?"),
    ]
    changes = fold(table_of(notes), {}, no_session)
    window = (60, entry.received_at_us // 60_000_000 * 60)
    counts = {reason: n for (at, reason), n in changes.rejections.items() if at == window}
    assert counts == {"bad_signature": 80, "malformed": 5, "unreadable": 1}
