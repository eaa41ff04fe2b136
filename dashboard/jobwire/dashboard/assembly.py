"""Putting the fleet of a home directory together, for the page, the terminal and the status."""

import sys
from pathlib import Path

from jobwire.core.clock import Clock
from jobwire.dashboard.fleet import Thresholds
from jobwire.dashboard.inotify import DirectoryWatch
from jobwire.dashboard.journal_tail import JournalTail
from jobwire.dashboard.model import FleetModel
from jobwire.dashboard.records import RecordSource
from jobwire.registry.store import RecordStore
from jobwire.storage.home_paths import HomePaths


def warn(text: str) -> None:
    """Tell the operator, on stderr."""
    print(f"jobwire dashboard: {text}", file=sys.stderr, flush=True)  # noqa: T201 - a log line of a server


def new_source(store: RecordStore, limits: Thresholds) -> RecordSource:
    """Return the reader of the home directory's jobs."""
    return RecordSource(store, warn=warn, failed_seconds=limits.failed_seconds)


def new_model(
    source: RecordSource, *, home: Path, clock: Clock, limits: Thresholds, poll: bool
) -> FleetModel:
    """Return the fleet of a home directory."""
    return FleetModel(
        source=source,
        journal=JournalTail(HomePaths(home).journal, warn=warn),
        clock=clock,
        limits=limits,
        watch=None if poll else DirectoryWatch,
    )
