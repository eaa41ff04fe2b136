"""Putting the fleet of a home directory together, for the page, the terminal and the status."""

import sys

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


def new_model(store: RecordStore, *, limits: Thresholds, poll: bool) -> FleetModel:
    """Return the fleet of the home directory of `store`, not started."""
    return FleetModel(
        source=RecordSource(store, warn=warn, failed_seconds=limits.failed_seconds),
        journal=JournalTail(HomePaths(store.home).journal, warn=warn),
        clock=store.clock,
        limits=limits,
        watch=None if poll else DirectoryWatch,
    )
