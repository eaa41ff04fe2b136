"""Where the metric tables are, as `jobwire metrics` itself says: SQLite below the home, or PostgreSQL."""

import contextlib
import os
from pathlib import Path
from typing import Any

from jobwire.core.errors import JobwireError
from jobwire.dashboard.figures import MetricTables
from jobwire.metrics.database import open_database
from jobwire.metrics.settings import LOCK_NAME, load_metrics_settings
from jobwire.metrics.unjournaled import missing_sentence, unjournaled_jobs
from jobwire.storage.file_lock import is_held
from jobwire.storage.home_paths import HomePaths


class TablesLocator:
    """Finds the tables anew at each call: they may appear while the page is open.

    `location` is a file or a postgresql:// URL and outweighs the settings of the home directory.
    """

    def __init__(self, *, home: Path, location: str | None) -> None:
        self._home = home
        self._location = location

    def __call__(self) -> MetricTables | None:
        """Return the tables, or None where there are none yet. Raises ConfigError for bad settings."""
        sink = load_metrics_settings(self._home, {"sink": self._location}, os.environ).sink
        if "://" not in sink and not Path(sink).exists():
            return None
        return Tables(sink)

    def missing_jobs(self) -> str:
        """Say how many jobs of this registry the figures miss; "" for none, and without tables."""
        try:
            tables = self()
            if tables is None:
                return ""
            count = unjournaled_jobs(self._home, lambda query, ids: tables.ask(query, *ids))
        except JobwireError:
            # What is wrong with the tables, the figures say themselves.
            return ""
        return missing_sentence(count) if count else ""

    def query_runs(self) -> bool | None:
        """Tell whether the streaming query of this home runs; None where its tables are elsewhere."""
        folder = HomePaths(self._home).metrics
        return is_held(folder / LOCK_NAME) if folder.exists() and self._location is None else None


class Tables:
    """Asks the tables and never changes them; one connection a question."""

    def __init__(self, sink: str) -> None:
        self._sink = sink

    def ask(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Return all rows. Raises SinkError."""
        with contextlib.closing(open_database(self._sink, read_only=True)) as database:
            return database.rows(query, values)
