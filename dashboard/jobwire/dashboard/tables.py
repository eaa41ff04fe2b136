"""Where the metric tables are, as `jobwire metrics` itself says: SQLite below the home, or PostgreSQL."""

import contextlib
import os
from pathlib import Path

from jobwire.core.errors import JobwireError
from jobwire.metrics.database import Database, open_tables
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

    def open(self) -> Database:
        """Open them to be read. Raises NotFoundError where there are none yet, ConfigError, SinkError."""
        return open_tables(load_metrics_settings(self._home, {"sink": self._location}, os.environ).sink)

    def missing_jobs(self) -> str:
        """Say how many jobs of this registry the figures miss; "" for none, and without tables."""
        try:
            with contextlib.closing(self.open()) as tables:
                count = unjournaled_jobs(self._home, tables.rows)
        except JobwireError:
            # What is wrong with the tables, the figures say themselves.
            return ""
        return missing_sentence(count) if count else ""

    def query_runs(self) -> bool | None:
        """Tell whether the streaming query of this home runs; None where its tables are elsewhere."""
        folder = HomePaths(self._home).metrics
        return is_held(folder / LOCK_NAME) if folder.exists() and self._location is None else None
