"""Where do jobs spend their time? Answered by pandas from the sealed journal: without Spark, without jobwire.

    python examples/sealed_parquet.py [.hermes/metrics/history | s3://bucket/folder]

The time between two events of a job belongs to the first of them: behind `permission_required` people were
waited for, behind `error` another attempt. What is not sealed yet is not looked at.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

import pyarrow.dataset
import pyarrow.fs


def accepted(place: str) -> Any:
    """Return a data frame of the accepted events, each once. Raises OSError and ValueError (pyarrow's)."""
    filesystem, path = pyarrow.fs.LocalFileSystem(), place
    if "://" in place:
        filesystem, path = pyarrow.fs.FileSystem.from_uri(place)
    sealed = pyarrow.dataset.dataset(path, filesystem=filesystem, format="parquet", partitioning="hive")
    # Of each file only these columns, and of its row groups those that may hold such rows, are read.
    table = sealed.to_table(
        columns=["journal", "job_id", "seq", "event", "received_at"],
        filter=pyarrow.dataset.field("verdict") == "accepted",
    )
    return table.to_pandas().drop_duplicates(["job_id", "seq"]).sort_values(["job_id", "seq"])


def times(events: Any) -> list[dict[str, Any]]:
    """Return for each event, in seconds, what passed until the job's next one; the most in all first."""
    following = events.groupby("job_id")["received_at"].shift(-1)
    passed = (following - events["received_at"]).dt.total_seconds()
    grouped = passed.dropna().groupby(events["event"])
    answer = grouped.agg(
        times="count", p50=lambda s: s.quantile(0.5), p95=lambda s: s.quantile(0.95), total="sum"
    )
    found: list[dict[str, Any]] = (
        answer.round(3).sort_values("total", ascending=False).reset_index().to_dict("records")
    )
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Ask and print; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("place", nargs="?", default=".hermes/metrics/history", help="folder, or s3:// URI")
    parser.add_argument("--json", action="store_true", help="JSON on standard output")
    args = parser.parse_args(argv)
    try:
        found = times(accepted(args.place))
    except (OSError, ValueError) as error:
        print(f"sealed_parquet: {error}\nhint: `jobwire metrics once` seals the journal", file=sys.stderr)
        return 40
    if args.json:
        print(json.dumps(found))
        return 0
    print(f"{'seconds after':24}{'times':>8}{'p50':>12}{'p95':>12}{'total':>14}")
    for row in found:
        print("{event:24}{times:>8,}{p50:>12,.3f}{p95:>12,.3f}{total:>14,.3f}".format(**row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
