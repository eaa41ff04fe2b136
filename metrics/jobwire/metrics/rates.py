"""What an operator asks: rates, how long things take and by what, and what was used."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

from jobwire.metrics.buckets import DURATION, EVERYTHING, PICKUP, QUEUED, WAITED, percentiles
from jobwire.metrics.database import Database, Row
from jobwire.metrics.statements import queries

# How a job ends that did not do what it was to do; a cancellation is a person's wish.
WRONG_OUTCOMES = frozenset({"error", "timed_out", "failed"})
_SPREAD_ROWS = 20
_HOUR_SECONDS = 3600.0
_MEASURES = {
    QUEUED: "queued: registered to claimed",
    PICKUP: "pickup: claimed to started",
    DURATION: "run time",
    WAITED: "waiting for permission",
}


def rates(database: Database, since: int, seconds: float) -> list[dict[str, Any]]:
    """Return jobs by what happened to them: number, number an hour, and share.

    The share is of the jobs that ended, that of `requeued` of those that were claimed.
    """
    decided: dict[str, int] = {}
    for kind, timeout, number in database.rows(queries()["show_facts"], (since,)):
        decided[kind] = decided.get(kind, 0) + number
        if timeout:
            decided[f"timed_out: {timeout}"] = decided.get(f"timed_out: {timeout}", 0) + number
    ended: dict[str, int] = dict(database.rows(queries()["show_ends"], (since,)))
    total = sum(ended.values())
    wrong = sum(number for outcome, number in ended.items() if outcome in WRONG_OUTCOMES)
    rows: list[tuple[str, int, int | None]] = []
    rows += [(kind, decided.get(kind, 0), None) for kind in ("registered", "claimed")]
    rows.append(("requeued", decided.get("requeued", 0), decided.get("claimed", 0)))
    rows.append(("ended", total, None))
    rows += [(outcome, ended.get(outcome, 0), total) for outcome in ("completed", "error", "timed_out")]
    rows += [(kind, number, total) for kind, number in sorted(decided.items()) if ": " in kind]
    rows += [(outcome, ended.get(outcome, 0), total) for outcome in ("failed", "cancelled")]
    rows.append(("wrong", wrong, total))
    return [
        {
            "jobs": name,
            "number": number,
            "per_hour": number * _HOUR_SECONDS / seconds,
            "share": number / whole if whole else None,
        }
        for name, number, whole in rows
    ]


def spreads(database: Database, since: int) -> dict[str, list[dict[str, Any]]]:
    """Return percentiles in seconds: `lengths` of every measure, and `run_by`, `wait_by` what they were."""
    counts: dict[tuple[str, str, str], list[Row]] = {}
    for measure, dimension, value, bucket, number in database.rows(queries()["show_spreads"], (since, since)):
        counts.setdefault((dimension, value, measure), []).append((bucket, number))
    lengths = [
        {"measure": words, **_spread(counts.get((EVERYTHING, "", measure), ()))}
        for measure, words in _MEASURES.items()
    ]
    return {
        "lengths": [row for row in lengths if row["jobs"]],
        "run_by": _by(counts, DURATION),
        "wait_by": _by(counts, WAITED),
    }


def usage(database: Database, since: int) -> list[dict[str, Any]]:
    """Return what was used by day (UTC, its first epoch second), session and model, the newest day first."""
    columns = ("day_start", "session", "model", "events", "tokens_in", "tokens_out", "cost_usd")
    rows: Iterable[Row] = database.rows(queries()["show_usage"], (since,))
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _by(counts: Mapping[tuple[str, str, str], Sequence[Row]], measure: str) -> list[dict[str, Any]]:
    """Return the percentiles of one measure for the values with the most jobs of each dimension."""
    rows = [
        {"by": dimension, "value": value, **_spread(buckets)}
        for (dimension, value, found), buckets in counts.items()
        if found == measure and dimension != EVERYTHING
    ]
    rows.sort(key=lambda row: (row["by"], -row["jobs"], row["value"]))
    return [row for _, some in groupby(rows, itemgetter("by")) for row in islice(some, _SPREAD_ROWS)]


def _spread(counts: Iterable[Row]) -> dict[str, Any]:
    pairs = [(int(bucket), int(number)) for bucket, number in counts]
    found = percentiles(pairs)
    names = ("p50", "p95", "p99")
    return {
        "jobs": sum(number for _, number in pairs),
        **{f"{name}_s": getattr(found, f"{name}_ms") / 1000 if found else None for name in names},
    }
