"""The query's own health: what Spark reports after each batch, as a row of the table `health`."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from jobwire.core.clock import Clock
from jobwire.metrics.database import Database
from jobwire.metrics.statements import queries, upsert

# Rows are trimmed now and then: deleting with every batch would double its writes.
_TRIM_EVERY = 100
_MICROSECONDS = 1_000_000
# Where Spark's report has the sums of what the tasks gave.
OBSERVED = "counts"


class BatchHealth(NamedTuple):
    """One micro-batch. `rows`, of which `damaged` are: what its tasks were given (Spark counts ranges).

    `backlog`: rows in the journals that were not read yet.
    """

    run_id: str
    batch_id: int
    rows: int
    duration_ms: int
    backlog: int
    phases: Mapping[str, int]
    damaged: int = 0


def read_progress(progress: Mapping[str, Any]) -> BatchHealth:
    """Return the health in one of Spark's progress reports (its JSON form)."""
    phases = {str(name): int(value) for name, value in progress.get("durationMs", {}).items()}
    # Of a batch without tasks the sums are null.
    observed = progress.get("observedMetrics", {}).get(OBSERVED, {})
    sums = {name: int(number or 0) for name, number in observed.items()}
    return BatchHealth(
        run_id=str(progress["runId"]),
        batch_id=int(progress["batchId"]),
        rows=sums.get("rows", 0) + sums.get("repeated", 0),
        duration_ms=phases.get("triggerExecution", 0),
        backlog=sum(_backlog(source) for source in progress.get("sources", ())),
        phases=phases,
        damaged=sums.get("damaged", 0),
    )


def _backlog(source: Mapping[str, Any]) -> int:
    end, latest = _offset(source.get("endOffset")), _offset(source.get("latestOffset"))
    return max(0, latest - end)


def _offset(stored: object) -> int:
    value = json.loads(stored) if isinstance(stored, str) else stored
    return int(value["offset"]) if isinstance(value, dict) and "offset" in value else 0


class HealthTable:
    """Writes rows of `health`, for which nobody waits."""

    def __init__(self, database: Database, *, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._written = 0

    def put(self, health: BatchHealth) -> float | None:
        """Write one row; return the tables' watermark in seconds since the epoch, None before the first."""
        places = [row[3] for row in self._database.rows(queries()["all_progress"])]
        watermark = min(places) / _MICROSECONDS if places else None
        *told, phases, _ = health
        row = (*told, watermark or 0.0, self._clock.now(), json.dumps(dict(phases)))
        self._database.execute(upsert("health"), row)
        self._written += 1
        if self._written % _TRIM_EVERY == 0:
            self._database.execute(queries()["trim_health"])
        return watermark
