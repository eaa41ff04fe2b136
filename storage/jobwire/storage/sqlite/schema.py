"""The tables of one kind of database: numbered migrations and named queries, in .sql files of a package.

`<folder>/0001_first.sql`, `0002_....sql` and so on bring an empty database up to date, each in one
transaction; `PRAGMA user_version` is the number of the last one. `<folder>/queries.sql` holds what is
asked and changed. The rule of the house: STRICT tables.
"""

from __future__ import annotations

import functools
import importlib
import os
import re
from typing import TYPE_CHECKING, NamedTuple

from jobwire.storage.sqlite.failures import DamagedDatabaseError, DatabaseVersionError
from jobwire.storage.sqlite.sql_text import NamedQueries, SqlFormatError, statements

if TYPE_CHECKING:
    import sqlite3

    from jobwire.storage.files import StrPath

_MIGRATION = re.compile(r"(\d{4})_\w+\.sql")


class Schema(NamedTuple):
    """Where the .sql files are; `application_id` tells our files from others', `version` is the last number.

    `version` stands here because listing a package's files costs milliseconds, and a short command
    opens a database that is up to date; a test holds it to the files.
    """

    package: str
    folder: str
    application_id: int
    version: int

    @property
    def queries(self) -> NamedQueries:
        """Return the statements of queries.sql by name, read once in a process."""
        return _queries(self.package, self.folder)

    def migrations(self) -> dict[int, str]:
        """Return the scripts by number, from 1 to `version`; raises SqlFormatError where one is missing."""
        from importlib import resources  # noqa: PLC0415 - slow to import, and needed once a database

        scripts: dict[int, str] = {}
        for file in sorted(resources.files(self.package).joinpath(self.folder).iterdir(), key=str):
            found = _MIGRATION.fullmatch(file.name)
            number = int(found[1]) if found is not None else 0
            if number in scripts:
                raise SqlFormatError(f"{self.package}: two migrations have the number {number}")
            if 0 < number <= self.version:
                scripts[number] = file.read_text(encoding="utf-8")
        if list(scripts) != list(range(1, self.version + 1)):
            raise SqlFormatError(f"{self.package}: migrations {list(scripts)}, not 1 to {self.version}")
        return scripts

    def check(self, connection: sqlite3.Connection, path: StrPath) -> int:
        """Return the version found in the file, changing nothing; 0 is an empty database.

        Raises DamagedDatabaseError for another program's, DatabaseVersionError for a newer one.
        """
        owner, found, tables = _kept(connection)
        place = os.fspath(path)
        if owner != self.application_id and (owner or found or tables):
            raise DamagedDatabaseError(
                f"{place} is a database of another kind (application_id {owner})",
                hint="name another file; this one is left as it is",
                path=place,
            )
        if found > self.version:
            raise DatabaseVersionError(
                f"{place} has version {found}, and this program knows {self.version} at most",
                hint="update this program; the database is left as it is",
                path=place,
                found=found,
                known=self.version,
            )
        return found

    def migrate(self, connection: sqlite3.Connection, path: StrPath, found: int) -> None:
        """Bring the database from version `found` up to date, one transaction a step; raises `sqlite3.Error`.

        Foreign keys are not enforced meanwhile, so that a table may be made anew, and are checked
        before each commit. Of two processes at once the second finds the first one's work done.
        """
        for number, script in list(self.migrations().items())[found:]:
            connection.execute("BEGIN IMMEDIATE")
            try:
                if self.check(connection, path) < number:
                    self._step(connection, path, number, script)
                connection.execute("COMMIT")
            except BaseException:
                # A full disk rolls back by itself.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def _step(self, connection: sqlite3.Connection, path: StrPath, number: int, script: str) -> None:
        for statement in statements(script):
            connection.execute(statement)
        self._check_references(connection, path)
        # Neither takes a parameter; both are part of the transaction.
        connection.execute(f"PRAGMA application_id = {self.application_id}")
        connection.execute(f"PRAGMA user_version = {number}")

    def _check_references(self, connection: sqlite3.Connection, path: StrPath) -> None:
        broken = connection.execute("PRAGMA foreign_key_check").fetchone()
        if broken is not None:
            raise DamagedDatabaseError(
                f"{os.fspath(path)}: a row of {broken[0]} refers to one of {broken[2]} that is not there",
                hint="the database stays as it was; repair it with the version that wrote it",
                path=os.fspath(path),
            )


@functools.cache
def _queries(package: str, folder: str) -> NamedQueries:
    # By the module's own loader: importlib.resources costs a command that asks once 3 ms.
    module = importlib.import_module(package)
    loader, home = module.__spec__ and module.__spec__.loader, os.path.dirname(module.__file__ or "")
    get_data = getattr(loader, "get_data", None)
    if get_data is None:
        raise SqlFormatError(f"{package} is not a package with files")
    text: str = get_data(os.path.join(home, folder, "queries.sql")).decode("utf-8")
    return NamedQueries(text)


def _kept(connection: sqlite3.Connection) -> tuple[int, int, bool]:
    """Return whose it is, its version, and whether it has tables: of one state, others may be making it."""
    alone = not connection.in_transaction
    if alone:
        connection.execute("BEGIN")
    try:
        owner, found = (_pragma(connection, name) for name in ("application_id", "user_version"))
        tables = connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone() is not None
    finally:
        # SQLite may have ended it by itself: the disk's error is told, and not that nothing is to be ended.
        if alone and connection.in_transaction:
            connection.execute("COMMIT")
    return owner, found, tables


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
