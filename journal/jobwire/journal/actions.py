"""What the commands of `jobwire journal` do."""

import argparse
import json
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from jobwire.core.clock import SystemClock
from jobwire.core.exit_codes import ExitCode
from jobwire.core.topics import Topics, check_job_id, filter_matches
from jobwire.journal.consumers import Consumers
from jobwire.journal.entry import Stored
from jobwire.journal.reader import MAX_ROWS, JournalReader
from jobwire.journal.render import as_json, as_line, moment
from jobwire.journal.retention import Retention, RetentionPolicy
from jobwire.journal.stat import stat
from jobwire.journal.verify import verify
from jobwire.storage.home_paths import HomePaths

_MICROSECONDS = 1_000_000


def _directory(args: argparse.Namespace) -> Path:
    return Path(args.journal) if args.journal else HomePaths(args.home).journal


class _Selection:
    """Which entries are wanted, and how they are printed."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._topics = Topics(args.topic_root)
        self._verdict: str | None = args.verdict
        self._filter: str | None = args.topic
        self._job: str | None = check_job_id(args.job) if args.job else None
        self._json = bool(args.json) or not sys.stdout.isatty()

    def wants(self, row: Stored) -> bool:
        """Tell whether the entry passes all filters."""
        if self._verdict is not None and row.verdict != self._verdict:
            return False
        if self._filter is not None and not filter_matches(self._filter, row.topic):
            return False
        if self._job is None:
            return True
        address = self._topics.parse(row.topic)
        return address is not None and address.job_id == self._job

    def show(self, rows: Iterable[Stored]) -> None:
        """Print what is wanted of `rows`, a line each, and flush: a follower's reader waits for it."""
        width = shutil.get_terminal_size().columns
        for row in rows:
            if self.wants(row):
                print(as_json(row, self._topics) if self._json else as_line(row, self._topics, width))
        sys.stdout.flush()


def _start(args: argparse.Namespace, reader: JournalReader) -> int | None:
    if args.start is not None:
        return int(args.start)
    if args.since is not None:
        return reader.offset_at(int((SystemClock().now() - args.since) * _MICROSECONDS))
    return None


def tail(args: argparse.Namespace) -> int:
    """Show the last entries, and what arrives."""
    selection = _Selection(args)
    with JournalReader(_directory(args)) as reader:
        start = _start(args, reader)
        if start is None:
            last, start = _last_wanted(reader, selection, args.lines)
            selection.show(last)
        end = reader.durable_offset
        _show_range(reader, selection, start, end)
        if args.follow:
            for rows in reader.follow(max(start, end), stop=lambda: False):
                selection.show(rows)
    return ExitCode.OK


def _last_wanted(reader: JournalReader, selection: _Selection, lines: int) -> tuple[list[Stored], int]:
    """Return the last `lines` wanted entries, looked for backwards, and the end."""
    end, first = reader.durable_offset, reader.first_offset
    found: list[Stored] = []
    upper, step = end, max(lines, 1)
    while upper > first and len(found) < lines:
        lower = max(first, upper - step)
        batches = _between(reader, lower, upper)
        found = [row for rows in batches for row in rows if selection.wants(row)] + found
        upper, step = lower, step * 2
    return found[max(0, len(found) - lines) :] if lines > 0 else [], end


def _between(reader: JournalReader, start: int, end: int) -> Iterator[list[Stored]]:
    while start < end:
        rows = reader.read(start, max_rows=min(end - start, MAX_ROWS))
        yield rows
        start = rows[-1].offset + 1


def _show_range(reader: JournalReader, selection: _Selection, start: int, end: int) -> None:
    for rows in _between(reader, start, end):
        selection.show(rows)


def cat(args: argparse.Namespace) -> int:
    """Print all entries."""
    selection = _Selection(args)
    with JournalReader(_directory(args)) as reader:
        start = _start(args, reader)
        _show_range(reader, selection, reader.first_offset if start is None else start, reader.durable_offset)
    return ExitCode.OK


def verify_all(args: argparse.Namespace) -> int:
    """Check every stored byte."""
    found = verify(_directory(args))
    if args.json:
        values = found._asdict() | {"damage": [place._asdict() for place in found.damage]}
        print(json.dumps(values))
    else:
        for place in found.damage:
            lost = f"offsets {place.first_offset} up to {place.end_offset} unreadable"
            print(f"DAMAGED {place.segment} byte {place.position}: {place.reason}; {lost}")
        print(
            f"{'damaged' if found.damage else 'sound'}: {found.entries} entries in {found.blocks} blocks, "
            f"{found.segments} segments, {found.bytes} bytes; "
            f"offsets {found.first_offset} up to {found.durable_offset}"
        )
    return ExitCode.INTERNAL if found.damage else ExitCode.OK


def stat_all(args: argparse.Namespace) -> int:
    """Show size, range, verdicts and consumers."""
    found = stat(_directory(args))
    consumers = [_consumer_values(c._asdict(), found.durable_offset) for c in found.consumers]
    values = found._asdict() | {"consumers": consumers}
    for name in ("received_first", "received_last"):
        values[name] = moment(values[name]) if values[name] is not None else None
    if args.json:
        print(json.dumps(values))
        return ExitCode.OK
    for name in ("identity", "segments", "bytes", "blocks", "entries", "first_offset", "durable_offset"):
        print(f"{name:<16} {values[name]}")
    print(f"{'received':<16} {values['received_first'] or '-'} to {values['received_last'] or '-'}")
    for verdict, entries in found.verdicts.items():
        print(f"  {verdict:<18} {entries:>12}")
    _print_consumers(consumers)
    return ExitCode.OK


def _consumer_values(values: dict[str, object], durable_offset: int) -> dict[str, object]:
    return values | {"lag": durable_offset - int(str(values["offset"]))}


def _print_consumers(consumers: list[dict[str, object]]) -> None:
    for values in consumers:
        print(
            f"consumer {values['name']:<20} at {values['offset']}, {values['lag']} behind, "
            f"since {values['committed_at']}"
        )


def prune(args: argparse.Namespace) -> int:
    """Remove what all consumers have read."""
    limits = RetentionPolicy(args.keep, args.max_bytes, lag_seconds=args.max_lag)
    report = Retention(_directory(args), clock=SystemClock(), limits=limits).prune(
        force=args.force, dry_run=args.dry_run
    )
    if args.json:
        print(json.dumps(report._asdict() | {"dry_run": args.dry_run}))
        return ExitCode.OK
    verb = "would remove" if args.dry_run else "removed"
    print(f"{verb} {len(report.segments)} segments, {report.bytes} bytes; {report.kept_bytes} bytes left")
    if report.held_by:
        print(f"consumer {report.held_by} has not read further: older segments stay (--force removes them)")
    if report.damaged:
        print(
            f"WARNING: {report.damaged} segments have a damaged header; `jobwire journal verify` names them",
            file=sys.stderr,
        )
    for name, entries in report.lost.items():
        print(f"WARNING: consumer {name} loses {entries} entries it has not read", file=sys.stderr)
    return ExitCode.OK


def list_consumers(args: argparse.Namespace) -> int:
    """List the consumers."""
    directory = _directory(args)
    with JournalReader(directory) as reader:
        end = reader.durable_offset
    consumers = [_consumer_values(c._asdict(), end) for c in Consumers(directory).all()]
    if args.json:
        for values in consumers:
            print(json.dumps(values))
    else:
        _print_consumers(consumers)
    return ExitCode.OK


def remove_consumer(args: argparse.Namespace) -> int:
    """Forget a consumer."""
    gone = Consumers(_directory(args)).remove(args.name)
    if args.json:
        print(json.dumps(gone._asdict()))
    else:
        print(f"removed consumer {gone.name}; it stood at {gone.offset}")
    return ExitCode.OK
