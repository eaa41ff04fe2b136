"""What the commands of `jobwire metrics` do."""

import argparse
import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobwire.core.clock import SystemClock
from jobwire.core.errors import ConfigError
from jobwire.core.exit_codes import ExitCode
from jobwire.core.terminal_text import table
from jobwire.metrics.settings import settings_of
from jobwire.storage.signals import stop_event

if TYPE_CHECKING:
    from jobwire.metrics.supervisor import Report

_ONCE_TRIES = 3
# A driver whose supervisor was killed a moment ago notices at once and needs as long to end.
_OTHERS_END_SECONDS = 2.0


def run(args: argparse.Namespace) -> int:
    """Follow the journal until stopped."""
    _supervised(args, "run", tries=None)
    return int(ExitCode.OK)


def once(args: argparse.Namespace) -> int:
    """Bring the tables up to the journal's present end."""
    settings, _ = _supervised(args, "once", tries=_ONCE_TRIES)
    if args.json:
        from jobwire.metrics.summary import summary  # noqa: PLC0415 - after the run only

        print(json.dumps(summary(settings.sink)))
    return int(ExitCode.OK)


def rebuild(args: argparse.Namespace) -> int:
    """Compute tables and history anew, and say whether they are the same."""
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
    check(settings, os.environ, patient=tries is None)
    with settings.sole_driver(clock=clock, deadline_seconds=_OTHERS_END_SECONDS):
        pass  # nobody else: the driver takes it for as long as it runs
    with ProgressLine(sys.stderr, clock=clock, as_json=args.json) as line, stop_event() as stop:
        supervisor = Supervisor(settings=settings, on_report=line, stop=stop)
        return settings, supervisor.run(mode, tries=tries)


def record(args: argparse.Namespace) -> int:
    """Write what the broker sends into one journal, until stopped."""
    from jobwire.metrics.source import recorder_main  # noqa: PLC0415 - as above

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

    recorder_main.log_to_stderr()
    with stop_event() as stop:
        recorder_main.record(words, stop, on_ready=ready)
    return int(ExitCode.OK)


def status(args: argparse.Namespace) -> int:
    """Print where the query stands."""
    from jobwire.metrics import status as standing  # noqa: PLC0415 - this command's only

    found = standing.status(settings_of(args, dict(os.environ)))
    print(json.dumps(found) if args.json else standing.render(found))
    return int(ExitCode.OK)


def show(args: argparse.Namespace) -> int:
    """Print the tables of the last minutes."""
    from jobwire.metrics.show import print_tables, tables  # noqa: PLC0415 - this command's only

    settings = settings_of(args, dict(os.environ))
    found = tables(settings.sink, now=SystemClock().now(), minutes=args.minutes, home=settings.home)
    if args.json:
        print(json.dumps(found))
    else:
        print_tables(found, home=settings.home)
    return int(ExitCode.OK)


def query(args: argparse.Namespace) -> int:
    """Print the answer to one SELECT."""
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


def plot(args: argparse.Namespace) -> int:
    """Draw the figures into a file."""
    from jobwire.metrics import plot as drawing  # noqa: PLC0415 - matplotlib takes a second

    settings = settings_of(args, dict(os.environ))
    out = drawing.plot(settings.sink, Path(args.out), now=SystemClock().now(), minutes=args.minutes)
    print(json.dumps({"file": str(out)}) if args.json else f"written: {out}")
    return int(ExitCode.OK)


def keys(args: argparse.Namespace) -> int:
    """Write the keys file."""
    from jobwire.metrics.keys import write_keys  # noqa: PLC0415 - this command's only

    jobs = write_keys(Path(args.home), Path(args.out))
    print(json.dumps({"file": args.out, "jobs": jobs}) if args.json else f"{jobs} jobs' keys in {args.out}")
    return int(ExitCode.OK)
