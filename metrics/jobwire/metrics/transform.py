"""What Spark computes of each message, as functions from DataFrame to DataFrame.

Everything here is narrow (no shuffle, no state), so a batch is one stage, and the same functions
serve streams, batch reads and tests.
"""

from functools import reduce
from typing import Any

# In the order of the history's own columns.
HISTORY_COLUMNS = (
    "offset",
    "received_at",
    "job_id",
    "seq",
    "event",
    "timestamp",
    "detail",
    "data",
    "verdict",
)


def union_of(shards: list[Any]) -> Any:
    """Return the compact rows of all shards as one DataFrame; the column `shard` tells them apart.

    Each comes from the source with parse=metrics. A single one is taken as it is, without a column that
    would cost a projection: `rows_of` takes it for shard 0.
    """
    if len(shards) == 1:
        return shards[0]
    numbered = [rows.selectExpr(f"{number} AS shard", "*") for number, rows in enumerate(shards)]
    return reduce(lambda left, right: left.unionAll(right), numbered)


def history_rows(events: Any) -> Any:
    """Return the accepted events as columns for the history, `date` (UTC) last.

    `events` has HISTORY_COLUMNS and comes from the source with parse=event.
    """
    return (
        events.where("verdict = 'accepted'").drop("verdict").selectExpr("*", "to_date(received_at) AS date")
    )
