"""One connection to a database file.

House rules: WAL, private files, foreign keys, STRICT tables, no trust in the schema, BEGIN IMMEDIATE
for every change that reads first, a deadline for every wait. A component keeps one `SqliteFile` a
thread. SQLite forbids to carry a connection over fork(2) (sqlite.org/howtocorrupt.html, 2.6): here that
raises, because opening silently anew could continue half a transaction; the child opens its own.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import time
from typing import TYPE_CHECKING, Any, NoReturn

from jobwire.core.errors import ConfigError, InvalidInputError, StorageError
from jobwire.storage.failures import storage_failure
from jobwire.storage.sqlite.failures import DatabaseVersionError, sqlite_failure

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from jobwire.storage.files import StrPath
    from jobwire.storage.sqlite.schema import Schema

BUSY_SECONDS = 5.0
# STRICT tables (sqlite.org/stricttables.html).
OLDEST = (3, 37, 0)
# A log that one large transaction made long is cut to this when it begins anew.
_LOG_BYTES = 16 * 1024 * 1024
_FILES = ("", "-wal", "-shm")
_OTHERS = 0o077
# Five looks of SQLite's own, after 1, 3, 8, 18 and 33 ms.
_TURN_MS = 33
# Of an extended result code, the part that says what kind it is.
_PRIMARY_CODE = 0xFF
_AGAIN_SECONDS = 0.01
# Connections of the process that forked us: closing one would do its work a second time.
_inherited: list[sqlite3.Connection] = []


class SqliteFile:
    """A database of `schema` at `path`: made where missing, brought up to date, for one thread at a time.

    `read_only` neither makes nor changes it. `frozen` says as well that nobody else does meanwhile: so it can
    be read where nothing can be written, not even the memory that readers share; no log may be there. A
    commit is on the disk when it returns; of a `cache`, which can be made again, nothing is flushed, and a
    power cut may damage it. `guarded` says that a lock of the caller's lets one thread in at a time;
    without it only the thread that opened it may use it. Methods raise the errors of `failures`;
    LockTimeoutError after `deadline_seconds`. ConfigError where SQLite is too old.
    """

    def __init__(
        self,
        path: StrPath,
        schema: Schema,
        *,
        cache: bool = False,
        deadline_seconds: float = BUSY_SECONDS,
        read_only: bool = False,
        frozen: bool = False,
        guarded: bool = False,
    ) -> None:
        check_library(sqlite3.sqlite_version_info)
        self.path = os.path.abspath(path)
        self._schema = schema
        self._queries = schema.queries
        self._deadline_seconds = deadline_seconds
        self._pid = os.getpid()
        self._connection: sqlite3.Connection | None = None
        read_only = read_only or frozen
        if read_only:
            _check_regular(self.path)
        else:
            _make_private(self.path)
        try:
            with self._errors("open"):
                self._connection = sqlite3.connect(
                    f"file:{_quoted(self.path)}?mode={'ro' if read_only else 'rw'}{'&immutable=1' * frozen}",
                    uri=True,
                    timeout=deadline_seconds,
                    isolation_level=None,
                    check_same_thread=not guarded,
                )
                self._prepare(self._connection, cache=cache, read_only=read_only)
                status = os.stat(self.path)
        except BaseException:
            self.close()
            raise
        self._identity = (status.st_dev, status.st_ino)

    def rows(self, query: str, values: Mapping[str, object] | None = None) -> list[tuple[Any, ...]]:
        """Return all rows of the named query."""
        try:
            return self._live().execute(self._queries[query], values or {}).fetchall()
        except (sqlite3.DatabaseError, UnicodeEncodeError) as error:
            self._tell("use", error)

    def execute(self, query: str, values: Mapping[str, object] | None = None) -> int:
        """Run the named query, which returns nothing; return how many rows it changed."""
        try:
            return self._live().execute(self._queries[query], values or {}).rowcount
        except (sqlite3.DatabaseError, UnicodeEncodeError) as error:
            self._tell("change", error)

    def execute_many(self, query: str, values: Iterable[Mapping[str, object]]) -> int:
        """Run the named query for each of the values; return how many rows it changed."""
        try:
            return self._live().executemany(self._queries[query], values).rowcount
        except (sqlite3.DatabaseError, UnicodeEncodeError) as error:
            self._tell("change", error)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Run the block in one transaction that holds the right to write from its start.

        All of it is done, or on any exception nothing. Does not nest.
        """
        with self._transaction("BEGIN IMMEDIATE", waits=True):
            yield

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Run the block on one state of the database, whatever others commit meanwhile. Does not nest."""
        with self._transaction("BEGIN"):
            yield

    def checkpoint(self) -> bool:
        """Move the log into the database and empty it; False where a reader or writer was in the way."""
        with self._errors("flush"):
            busy, _, _ = self._live().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not busy

    def is_current(self) -> bool:
        """Tell whether it is open, in the process that opened it, and still the file at its path."""
        if self._connection is None or self._pid != os.getpid():
            return False
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise storage_failure("open", self.path, error) from error
        return (status.st_dev, status.st_ino) == self._identity

    def close(self) -> None:
        """Close it, undoing an unfinished transaction; idempotent. The last one to close empties the log."""
        connection, self._connection = self._connection, None
        if connection is not None and self._pid != os.getpid():
            _inherited.append(connection)
        elif connection is not None:
            connection.close()

    def __del__(self) -> None:
        # A connection and its cache of statements hold each other (CPython's connection.c): let go of, it
        # would stay open until garbage is looked for, which a short command does not do.
        with contextlib.suppress(AttributeError, sqlite3.ProgrammingError):
            self.close()  # neither one that was never opened, nor another thread's

    def _prepare(self, connection: sqlite3.Connection, *, cache: bool, read_only: bool) -> None:
        # So triggers and views reach no virtual table: full-text rows are written beside what they are of.
        connection.execute("PRAGMA trusted_schema = OFF")
        # Before anything is written: what is not ours stays as it is.
        found = self._schema.check(connection, self.path)
        if read_only and found < self._schema.version:
            raise DatabaseVersionError(
                f"{self.path} has version {found} still, and this program reads {self._schema.version}",
                hint="any command that writes brings it up to date",
                path=self.path,
                found=found,
                known=self._schema.version,
            )
        if read_only:
            return
        mode = self._log_mode(connection)
        if mode != "wal":
            raise StorageError(
                f"cannot keep a log beside {self.path}: SQLite stays in mode {mode}",
                hint="put it on a local disk: WAL needs memory that processes share",
                path=self.path,
            )
        connection.execute(f"PRAGMA synchronous = {'OFF' if cache else 'FULL'}")
        connection.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES}")
        if found < self._schema.version:
            self._schema.migrate(connection, self.path, found)
        connection.execute("PRAGMA foreign_keys = ON")

    @contextlib.contextmanager
    def _transaction(self, begin: str, *, waits: bool = False) -> Iterator[None]:
        connection = self._live()
        if connection.in_transaction:
            raise RuntimeError("transactions do not nest")
        try:
            with self._errors("change"):
                if waits:
                    self._begin_in_turn(connection, begin)
                else:
                    connection.execute(begin)
            yield
            with self._errors("change"):
                self._live().execute("COMMIT")
        except BaseException:
            self._roll_back(connection)
            raise

    def _begin_in_turn(self, connection: sqlite3.Connection, begin: str) -> None:
        """Begin once nobody else writes, within the deadline.

        SQLite looks less and less often, at last each 100 ms (sqliteDefaultBusyCallback in its main.c): of
        many that write without a pause, one would miss each gap for seconds. Here its steps begin anew.
        """
        give_up = time.monotonic() + self._deadline_seconds
        connection.execute(f"PRAGMA busy_timeout = {min(_TURN_MS, self._deadline_ms)}")
        try:
            while (busy := _busy(connection, begin)) is not None:
                if time.monotonic() >= give_up:
                    raise busy
        finally:
            connection.execute(f"PRAGMA busy_timeout = {self._deadline_ms}")

    @property
    def _deadline_ms(self) -> int:
        return int(self._deadline_seconds * 1000)

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        if self._pid != os.getpid():
            return  # the transaction is the parent's
        try:
            # SQLite has done so by itself where the disk is full.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.DatabaseError:
            # In an unknown state: closing undoes it for certain.
            self.close()

    def _live(self) -> sqlite3.Connection:
        if self._pid != os.getpid():
            raise StorageError(
                f"{self.path} was opened by process {self._pid}, before a fork",
                hint="open it again in the process that uses it",
                path=self.path,
            )
        if self._connection is None:
            raise StorageError(f"{self.path} is closed", hint="open it again", path=self.path)
        return self._connection

    def _log_mode(self, connection: sqlite3.Connection) -> object:
        """Switch the log on; SQLite does not wait by itself where two switch a new file at once."""
        give_up = time.monotonic() + self._deadline_seconds
        while True:
            try:
                return connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() >= give_up:
                    raise
                time.sleep(_AGAIN_SECONDS)

    @contextlib.contextmanager
    def _errors(self, action: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            self._tell(action, error)

    def _tell(self, action: str, error: sqlite3.DatabaseError | UnicodeEncodeError) -> NoReturn:
        if isinstance(error, UnicodeEncodeError):
            # A word of a command line may be bytes (os.fsdecode); no text here ever is.
            raise InvalidInputError(
                f"{str(error.object)[:80]!a} is not valid UTF-8", hint="is it a text?"
            ) from error
        # Without a code it is an error of use: a wrong thread, value or statement.
        if getattr(error, "sqlite_errorcode", None) is None:
            raise error
        raise sqlite_failure(action, self.path, error, deadline_seconds=self._deadline_seconds) from error


def _busy(connection: sqlite3.Connection, begin: str) -> sqlite3.OperationalError | None:
    """Begin; return the error where somebody else has what that needs."""
    try:
        connection.execute(begin)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & _PRIMARY_CODE != sqlite3.SQLITE_BUSY:
            raise
        return error
    return None


def check_library(version: tuple[int, ...]) -> None:
    """Raise ConfigError where this SQLite library cannot hold our tables."""
    if version < OLDEST:
        found, oldest = (".".join(map(str, one[:3])) for one in (version, OLDEST))
        raise ConfigError(
            f"SQLite {found} is too old: jobwire needs {oldest}",
            hint="update the system's libsqlite3, or use a Python that brings its own",
        )


def remove_database(path: StrPath) -> None:
    """Remove a database that can be made again, whatever it is; raises OSError."""
    for suffix in (*_FILES, "-journal"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{os.fspath(path)}{suffix}")


def _make_private(path: str) -> None:
    """Create the file before SQLite does, and close what is there to others; -wal and -shm take its mode.

    A file that is there is not opened: closing it would drop the locks of this process's other
    connections to it (fcntl(2)), and the next one to end would take the log for its own and delete
    it, with every later commit in it (sqlite.org/howtocorrupt.html, 2.2).
    """
    from jobwire.storage.files import FILE_MODE  # noqa: PLC0415 - brings threads, and a reader makes nothing

    try:
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))
            return
        for one, mode in _files_of(path):
            if mode & _OTHERS:
                with contextlib.suppress(FileNotFoundError):
                    os.chmod(one, FILE_MODE)
    except OSError as error:
        raise storage_failure("create", path, error) from error


def _check_regular(path: str) -> None:
    """Refuse what is no file: SQLite would wait for the writer of a pipe, and no signal ends that."""
    try:
        for _ in _files_of(path):
            pass
    except OSError as error:
        raise storage_failure("open", path, error) from error


def _files_of(path: str) -> Iterator[tuple[str, int]]:
    """Yield the database's files that are there, with their modes. Raises OSError, StorageError."""
    for one in (path + suffix for suffix in _FILES):
        try:
            mode = os.stat(one).st_mode
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(mode):
            raise StorageError(f"{one} is no file that a database could be in", hint="name another one")
        yield one, mode


def _quoted(path: str) -> str:
    """Return a path for a SQLite URI (sqlite.org/uri.html): ? # and % would end or change it."""
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
