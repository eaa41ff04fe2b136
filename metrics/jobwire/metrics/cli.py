"""`jobwire metrics`: figures about the fleet, computed by Spark, read without it."""

import argparse
import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobwire.core.argument_types import number, whole
from jobwire.core.clock import SystemClock
from jobwire.core.commands import add_command
from jobwire.core.errors import ConfigError
from jobwire.core.exit_codes import ExitCode
from jobwire.core.terminal_text import table
from jobwire.metrics.arguments import (
    MAX_QUERY_ROWS,
    MAX_QUERY_SECONDS,
    add_run_arguments,
    add_share_argument,
    add_sink_argument,
    settings_of,
)
from jobwire.storage.signals import stop_event

if TYPE_CHECKING:
    from jobwire.metrics.supervisor import Report

_EXAMPLES = """\
examples:
  jobwire metrics run                    follow the journal until stopped
  jobwire metrics once                   up to the journal's current end, then stop
  jobwire metrics show                   the last hour, from the tables (no Spark)
  jobwire metrics plot --out fleet.png   throughput, durations, waiting"""
_ONCE_TRIES = 3
# A hundred years.
_MAX_MINUTES = 36_525 * 24 * 60.0
_MINUTES = number(_MAX_MINUTES, zero=False)
# A driver whose supervisor was killed a moment ago notices at once and needs as long to end.
_OTHERS_END_SECONDS = 2.0


def add_commands(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `metrics` and its sub-commands."""
    parser = subparsers.add_parser(
        "metrics", help="figures about the fleet, computed by Spark", description=__doc__, epilog=_EXAMPLES
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, text, body in (
        ("run", "follow the journal and keep the tables up to date", _run),
        ("once", "bring the tables up to the journal's present end", _once),
        ("rebuild", "compute tables and history anew from the journal, and compare", _rebuild),
    ):
        command = add_command(commands, name, text, _EXAMPLE[name], run=body)
        add_run_arguments(command)
    record = add_command(
        commands,
        "record",
        "record without keys: one shard of several, no Spark",
        _EXAMPLE["record"],
        run=_record,
    )
    record.add_argument(
        "--journal", metavar="DIR", action="append", help="this shard (default: HOME/journal)"
    )
    add_share_argument(record)
    status = add_command(
        commands, "status", "where the query stands, without starting Spark", _EXAMPLE["status"], run=_status
    )
    add_sink_argument(status)
    show = add_command(commands, "show", "the tables of the last hour", _EXAMPLE["show"], run=_show)
    add_sink_argument(show)
    show.add_argument("--minutes", type=_MINUTES, default=60.0, help="how far back (60)")
    query = add_command(
        commands, "query", "answer one SQL SELECT over the tables, read-only", _EXAMPLE["query"], run=_query
    )
    add_sink_argument(query)
    query.add_argument("sql", metavar="SQL", help="the statement; docs/metrics.md names tables and columns")
    query.add_argument("--limit", type=whole(1, MAX_QUERY_ROWS), default=1000, help="rows at most (1000)")
    query.add_argument(
        "--seconds", type=number(MAX_QUERY_SECONDS, zero=False), default=10.0, help="time it may take (10)"
    )
    plot = add_command(
        commands, "plot", "draw throughput, durations and waiting time", _EXAMPLE["plot"], run=_plot
    )
    add_sink_argument(plot)
    plot.add_argument("--out", metavar="FILE", required=True, help="a .png or .svg file")
    plot.add_argument("--minutes", type=_MINUTES, default=60.0, help="how far back (60)")
    keys = add_command(
        commands, "keys", "write the keys file that --verify reads, mode 0600", _EXAMPLE["keys"], run=_keys
    )
    keys.add_argument("--out", metavar="FILE", required=True)


_EXAMPLE = {
    "run": "jobwire metrics run --home .hermes",
    "once": "jobwire metrics once --json",
    "rebuild": "jobwire metrics rebuild",
    "record": "jobwire metrics record --journal /shards/a --share-group fleet",
    "status": "jobwire metrics status --json",
    "show": "jobwire metrics show --minutes 10",
    "query": "jobwire metrics query 'SELECT outcome, COUNT(*) FROM jobs GROUP BY outcome'",
    "plot": "jobwire metrics plot --out fleet.png",
    "keys": "jobwire metrics keys --out keys.json",
}


def _run(args: argparse.Namespace) -> int:
    _supervised(args, "run", tries=None)
    return int(ExitCode.OK)


def _once(args: argparse.Namespace) -> int:
    settings, _ = _supervised(args, "once", tries=_ONCE_TRIES)
    if args.json:
        from jobwire.metrics.summary import summary  # noqa: PLC0415 - after the run only

        print(json.dumps(summary(settings.sink)))
    return int(ExitCode.OK)


def _rebuild(args: argparse.Namespace) -> int:
    _, last = _supervised(args, "rebuild", tries=1)
    if args.json:
        print(json.dumps({key: value for key, value in last.items() if key != "kind"}))
    elif last.get("kind") == "rebuilt":
        same = "identical to before" if last["identical"] else f"different: {', '.join(last['changed'])}"
        print(f"{last['rows']} rows folded in again; the tables are {same}")
    return int(ExitCode.OK)


def _supervised(args: argparse.Namespace, mode: str, *, tries: int | None) -> tuple[Any, "Report"]:
    from jobwire.metrics.preflight import check  # noqa: PLC0415 - only commands that start Spark pay for it
    from jobwire.metrics.progress_line import ProgressLine  # noqa: PLC0415 - as above
    from jobwire.metrics.supervisor import Supervisor  # noqa: PLC0415 - as above

    settings = settings_of(args, dict(os.environ))
    clock = SystemClock()
    check(settings, os.environ)
    with settings.sole_driver(clock=clock, deadline_seconds=_OTHERS_END_SECONDS):
        pass  # nobody else: the driver takes it for as long as it runs
    with ProgressLine(sys.stderr, clock=clock, as_json=args.json) as line, stop_event() as stop:
        supervisor = Supervisor(settings=settings, clock=clock, on_report=line, stop=stop)
        return settings, supervisor.run(mode, tries=tries)


def _record(args: argparse.Namespace) -> int:
    from jobwire.metrics.source.recorder_main import log_to_stderr, record  # noqa: PLC0415 - as above

    settings = settings_of(args, dict(os.environ))
    if len(settings.journals) != 1:
        raise ConfigError("a recorder writes one journal", hint="start one process for each --journal")
    words = {
        "journal": str(settings.journals[0]),
        "home": str(settings.home),
        "topics": [],
        "topic_root": settings.topic_root,
        "broker": {},
        "share_group": settings.share_group,
    }

    def ready() -> None:
        say = {"recording": words["journal"], "share_group": settings.share_group}
        print(json.dumps(say) if args.json else f"recording into {words['journal']}", flush=True)

    log_to_stderr()
    with stop_event() as stop:
        record(words, stop, on_ready=ready)
    return int(ExitCode.OK)


def _status(args: argparse.Namespace) -> int:
    from jobwire.metrics.status import render, status  # noqa: PLC0415 - this command's only

    found = status(settings_of(args, dict(os.environ)))
    print(json.dumps(found) if args.json else render(found))
    return int(ExitCode.OK)


def _show(args: argparse.Namespace) -> int:
    from jobwire.metrics.show import print_tables, tables  # noqa: PLC0415 - this command's only

    settings = settings_of(args, dict(os.environ))
    found = tables(settings.sink, now=SystemClock().now(), minutes=args.minutes, home=settings.home)
    if args.json:
        print(json.dumps(found))
    else:
        print_tables(found, home=settings.home)
    return int(ExitCode.OK)


def _query(args: argparse.Namespace) -> int:
    settings = settings_of(args, dict(os.environ))
    from jobwire.metrics.query import answer  # noqa: PLC0415 - brings the tables

    found = answer(settings.sink, args.sql, limit=args.limit, seconds=args.seconds)
    if args.json:
        print(json.dumps(found._asdict()))
        return int(ExitCode.OK)
    rows = [tuple(found.columns), *(tuple(map(_cell, row)) for row in found.rows)]
    print("\n".join(table(rows, shutil.get_terminal_size((120, 24)).columns)))
    if found.truncated:
        sys.stderr.write(f"jobwire: these are the first {len(found.rows)} rows; --limit shows more\n")
    return int(ExitCode.OK)


def _cell(value: object) -> str:
    return "-" if value is None else str(value)


def _plot(args: argparse.Namespace) -> int:
    from jobwire.metrics.plot import plot  # noqa: PLC0415 - matplotlib takes a second

    settings = settings_of(args, dict(os.environ))
    out = plot(settings.sink, Path(args.out), now=SystemClock().now(), minutes=args.minutes)
    print(json.dumps({"file": str(out)}) if args.json else f"written: {out}")
    return int(ExitCode.OK)


def _keys(args: argparse.Namespace) -> int:
    from jobwire.metrics.keys import write_keys  # noqa: PLC0415 - this command's only

    jobs = write_keys(Path(args.home), Path(args.out))
    print(json.dumps({"file": args.out, "jobs": jobs}) if args.json else f"{jobs} jobs' keys in {args.out}")
    return int(ExitCode.OK)
