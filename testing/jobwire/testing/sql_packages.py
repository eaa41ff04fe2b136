"""Packages of .sql files made for a test, and a look at what a component's .sql files hold."""

import contextlib
import itertools
import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path

from jobwire.storage.sqlite.schema import Schema
from jobwire.storage.sqlite.sqlite_file import SqliteFile

APPLICATION_ID = 0x7E57_7E57
_numbers = itertools.count()


def make_schema(folder: Path, migrations: Sequence[str], queries: str = "") -> Schema:
    """Return a schema whose files are written into a package of its own below `folder`.

    The package is found by this process; another one needs `folder` on its path.
    """
    package = f"jobwire_sql_{next(_numbers)}"
    place = folder / package / "sql"
    place.mkdir(parents=True)
    (place.parent / "__init__.py").write_text("")
    for number, script in enumerate(migrations, 1):
        (place / f"{number:04}_step.sql").write_text(script)
    (place / "queries.sql").write_text(queries)
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    return Schema(package, "sql", APPLICATION_ID, len(migrations))


class _Anything(dict[str, object]):
    """A value for every parameter: NULL."""

    def __missing__(self, name: str) -> None:
        return None


def plans(schema: Schema, path: Path) -> dict[str, list[str]]:
    """Return SQLite's plan of each query on an empty database at `path`: each is compiled, none is run."""
    SqliteFile(path, schema).close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return {
            name: [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}", _Anything())]
            for name, query in schema.queries.all().items()
        }
