"""The options that `jobwire metrics run | once | rebuild` and the spark-submit entry share."""

import argparse

from jobwire.core.argument_types import number, whole

MAX_SHARDS = 64
_MAX_ROWS = 10**9


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what a run can be told; each option also stands in `[metrics]` of jobwire.toml."""
    add_sink_argument(parser)
    parser.add_argument(
        "--journal",
        dest="journals",
        metavar="DIR",
        action="append",
        help="a journal; once for each shard (default: HOME/journal)",
    )
    parser.add_argument(
        "--history", metavar="PLACE", help="folder or URI of the sealed journal, as Parquet; '' for none"
    )
    parser.add_argument(
        "--shards",
        metavar="N",
        type=whole(1, MAX_SHARDS),
        help="how many tasks fold the jobs, each its own, into tables of its own (1)",
    )
    parser.add_argument("--master", metavar="URL", help="local[2] (default), or spark://HOST:PORT")
    parser.add_argument("--memory", metavar="SIZE", help="heap of the Spark driver (default: 1g)")
    parser.add_argument(
        "--trigger",
        dest="trigger_seconds",
        metavar="SECONDS",
        type=number(86400),
        help="shortest time between two batches (0.4)",
    )
    parser.add_argument(
        "--max-rows", metavar="N", type=whole(1, _MAX_ROWS), help="the most rows that a batch reads (100000)"
    )
    parser.add_argument(
        "--max-mib", metavar="N", type=whole(1, 1024), help="about how much a batch reads at most (64)"
    )
    parser.add_argument(
        "--verify",
        action="store_true",
        default=None,
        help="check signatures with the keys in $JOBWIRE_KEYS_FILE",
    )
    parser.add_argument(
        "--inline",
        action="store_true",
        default=None,
        help="send the bytes to executors that do not see the journal",
    )
    parser.add_argument(
        "--ingest", action="store_true", default=None, help="start the recorder as well, if none is running"
    )
    add_share_argument(parser)
    parser.add_argument(
        "--allow-data-loss",
        action="store_true",
        default=None,
        help="go on where rows are gone from the journal",
    )


def add_share_argument(parser: argparse.ArgumentParser) -> None:
    """Add the group of recorders that share the messages among them."""
    parser.add_argument(
        "--share-group",
        metavar="NAME",
        help="recorders of this MQTT 5 group each get a part of the messages (default: all of them; "
        "with --ingest and several journals a group of their own)",
    )


def add_sink_argument(parser: argparse.ArgumentParser) -> None:
    """Add the place of the tables."""
    parser.add_argument(
        "--sink",
        metavar="URL",
        help="tables: a SQLite file (default: HOME/metrics/metrics.db) or postgresql://...; a URL with a "
        "password goes into $JOBWIRE_METRICS_SINK",
    )
