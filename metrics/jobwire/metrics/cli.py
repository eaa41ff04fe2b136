"""`jobwire metrics`: the arguments of each command. What they do stands in `actions`."""

import argparse
from functools import partial

from jobwire.core.argument_types import number, whole
from jobwire.core.commands import CommandRow, Subparsers, add_group
from jobwire.metrics.arguments import add_run_arguments, add_share_argument, add_sink_argument

_DESCRIPTION = "Figures about the fleet, computed by Spark, read without it."
_EXAMPLES = """\
examples:
  jobwire metrics run                    follow the journal until stopped
  jobwire metrics once                   up to the journal's current end, then stop
  jobwire metrics show                   the last hour, from the tables (no Spark)
  jobwire metrics plot --out fleet.png   throughput, durations, waiting"""
_command = partial(CommandRow, bodies="jobwire.metrics.actions")
# Of one answer of `query`.
_MAX_ROWS = 100_000
_MAX_SECONDS = 3600.0
# A hundred years.
_MINUTES = number(36_525 * 24 * 60.0, zero=False)


def _record(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--journal",
        dest="journals",
        metavar="DIR",
        action="append",
        help="this shard (default: HOME/journal)",
    )
    add_share_argument(parser)


def _show(parser: argparse.ArgumentParser) -> None:
    add_sink_argument(parser)
    parser.add_argument("--minutes", type=_MINUTES, default=60.0, help="how far back (60)")


def _query(parser: argparse.ArgumentParser) -> None:
    add_sink_argument(parser)
    add = parser.add_argument
    add("sql", metavar="SQL", help="the statement; docs/metrics.md names tables and columns")
    add("--limit", type=whole(1, _MAX_ROWS), default=1000, help="rows at most (1000)")
    seconds = number(_MAX_SECONDS, zero=False)
    add("--seconds", type=seconds, default=10.0, help="time it may take (10)")


def _plot(parser: argparse.ArgumentParser) -> None:
    add_sink_argument(parser)
    parser.add_argument("--out", metavar="FILE", required=True, help="a .png or .svg file")
    parser.add_argument("--minutes", type=_MINUTES, default=60.0, help="how far back (60)")


def _keys(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", metavar="FILE", required=True)


_COMMANDS = (
    _command(
        "run",
        "follow the journal and keep the tables up to date",
        "jobwire metrics run --home .hermes",
        add_run_arguments,
    ),
    _command(
        "once",
        "bring the tables up to the journal's present end",
        "jobwire metrics once --json",
        add_run_arguments,
    ),
    _command(
        "rebuild",
        "compute tables and history anew from the journal, and compare",
        "jobwire metrics rebuild",
        add_run_arguments,
    ),
    _command(
        "record",
        "record without keys: one shard of several, no Spark",
        "jobwire metrics record --journal /shards/a --share-group fleet",
        _record,
    ),
    _command(
        "status",
        "where the query stands, without starting Spark",
        "jobwire metrics status --json",
        add_sink_argument,
    ),
    _command("show", "the tables of the last hour", "jobwire metrics show --minutes 10", _show),
    _command(
        "query",
        "answer one SQL SELECT over the tables, read-only",
        "jobwire metrics query 'SELECT outcome, COUNT(*) FROM jobs GROUP BY outcome'",
        _query,
    ),
    _command(
        "plot", "draw throughput, durations and waiting time", "jobwire metrics plot --out fleet.png", _plot
    ),
    _command(
        "keys",
        "write the keys file that --verify reads, mode 0600",
        "jobwire metrics keys --out keys.json",
        _keys,
    ),
)


def add_commands(subparsers: Subparsers) -> None:
    """Add `metrics` and its commands."""
    add_group(
        subparsers,
        "metrics",
        "figures about the fleet, computed by Spark",
        _COMMANDS,
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )
