"""A model of the metric tables in plain loops, and rows as Spark would hand them over."""

import itertools
import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from jobwire.jobs.admission import ACCEPTED
from jobwire.journal.entry import Entry
from jobwire.metrics.fold import WIDTHS_SECONDS
from jobwire.metrics.rows import SCHEMA, Rows, rows_of

TableOf = Callable[..., Rows]


def _sent_us(timestamp: str) -> int:
    import datetime as dt  # noqa: PLC0415 - used here only

    moment = dt.datetime.fromisoformat(timestamp)
    return int((moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) / dt.timedelta(microseconds=1))


def _row(offset: int, entry: Entry) -> dict[str, Any]:
    event = json.loads(entry.payload) if entry.verdict == ACCEPTED else {}
    return {
        "offset": offset,
        "received_us": entry.received_at_us,
        "job_id": entry.topic.split("/")[-2],
        "seq": event.get("seq"),
        "label": event.get("event", entry.verdict),
        "sent_us": _sent_us(event["timestamp"]) if event else None,
        "note": entry.payload.decode() if entry.verdict == "suppressed" else None,
    }


@pytest.fixture
def table_of() -> TableOf:
    """Turn journal entries into the rows of one batch."""

    def make(entries: Sequence[Entry], first_offset: int = 0) -> Rows:
        rows = [_row(first_offset + place, entry) for place, entry in enumerate(entries)]
        return rows_of(pa.Table.from_pylist(rows, schema=SCHEMA))

    return make


@pytest.fixture
def model() -> Callable[[Sequence[Entry]], dict[str, Any]]:
    """Compute windows, rejections and jobs from entries with one loop and no cleverness."""

    def compute(entries: Sequence[Entry]) -> dict[str, Any]:
        windows: Counter[tuple[int, int, str]] = Counter()
        rejections: Counter[tuple[int, int, str]] = Counter()
        jobs: dict[str, dict[int, tuple[int, str]]] = {}
        for entry in entries:
            event = json.loads(entry.payload) if entry.verdict == ACCEPTED else {}
            seen = jobs.setdefault(event["job_id"], {}) if event else {}
            fresh = event and event["seq"] not in seen
            if fresh:
                seen[event["seq"]] = (entry.received_at_us, event["event"])
            for width in WIDTHS_SECONDS:
                start = entry.received_at_us // (width * 10**6) * width
                if fresh:
                    windows[width, start, event["event"]] += 1
                else:
                    rejections[width, start, "duplicate" if event else entry.verdict] += 1
        return {
            "windows": windows,
            "rejections": rejections,
            "jobs": {job_id: _job_model(seen) for job_id, seen in jobs.items()},
        }

    return compute


def _job_model(seen: dict[int, tuple[int, str]]) -> dict[str, Any]:
    ordered = sorted(seen.items())
    starts = [us for _, (us, event) in ordered if event == "started"]
    ends = [(us, event) for _, (us, event) in ordered if event in {"completed", "error"}]
    waits = [
        max(0, later - us)
        for (_, (us, event)), (_, (later, _)) in itertools.pairwise(ordered)
        if event == "permission_required"
    ]
    return {
        "started_us": min(starts) if starts else min(us for us, _ in seen.values()),
        "finished_us": ends[0][0] if ends else None,
        "outcome": ends[0][1] if ends else "open",
        "events": len(seen),
        "attempts": len(starts),
        "waiting_us": sum(waits),
        "terminal_seq": next((seq for seq, (_, event) in ordered if event in {"completed", "error"}), None),
        "last_seq": ordered[-1][0],
        "last_event_us": ordered[-1][1][0],
        "last_event": ordered[-1][1][1],
    }
