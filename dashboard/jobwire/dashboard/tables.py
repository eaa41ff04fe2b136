"""Where the metric tables are: SQLite below the home directory, or a PostgreSQL named in the settings."""

from pathlib import Path
from typing import Any

from jobwire.core.errors import StorageError
from jobwire.dashboard.figures import Database, SqliteTables

_FOLDER = "metrics"


class TablesAt:
    """Finds the tables anew at each call: they may appear while the page is open."""

    def __init__(self, *, home: Path, location: str | None) -> None:
        self._home = home
        self._location = location

    def __call__(self) -> Database | None:
        """Return the tables, or None where there are none yet."""
        if self._location is not None and self._location.startswith(("postgresql://", "postgres://")):
            return PostgresTables(self._location)
        folder = (self._home / _FOLDER).absolute()
        path = Path(self._location) if self._location else next(iter(sorted(folder.glob("*.sqlite"))), None)
        return SqliteTables(path.absolute()) if path is not None and path.exists() else None


class PostgresTables:
    """The tables in PostgreSQL."""

    def __init__(self, url: str) -> None:
        self._url = url

    def ask(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Return all rows; one connection a question."""
        try:
            import psycopg  # noqa: PLC0415 - an optional library
        except ModuleNotFoundError as error:
            raise StorageError(
                "PostgreSQL tables need psycopg", hint="pip install 'jobwire[metrics]'"
            ) from error
        try:
            with psycopg.connect(self._url, connect_timeout=3) as link:
                found = link.execute(query.replace("?", "%s"), values or None).fetchall()
        except psycopg.Error as error:
            # The message may hold the URL with its password.
            raise StorageError("cannot read the metric tables in PostgreSQL") from error
        return [tuple(row) for row in found]
