"""The two databases behind one small surface: transactions, statements with `?`, and clear errors.

SQLite (WAL, one file below the home directory) is the default; PostgreSQL is for a fleet's common
dashboard. The statements are the same text; what differs stands here and nowhere else.
"""

import contextlib
import errno
import os
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jobwire.core.errors import ConfigError, NotFoundError
from jobwire.core.override import override
from jobwire.metrics.errors import FULL_HINT, SinkError
from jobwire.metrics.settings import split_url
from jobwire.metrics.statements import COUNTED, schema, upsert
from jobwire.storage.named_files import check_target

POSTGRES_SCHEMES = frozenset({"postgresql", "postgres"})
# SQLite's own limit of parameters was 999 in old builds.
_CHUNK = 500
_BUSY_SECONDS = 30.0
_FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT})
# SQLite's page cache, in KiB: where a job's row is in a table of a million is anybody's guess.
_CACHE_KIB = 64 * 1024
Row = tuple[Any, ...]


class Database(ABC):
    """One connection, used from one thread at a time. Every failure is a SinkError."""

    _connection: Any
    # Whether all that is in it belongs to one shard.
    one_shard: bool

    @abstractmethod
    def transaction(self, shard: int = 0) -> contextlib.AbstractContextManager[None]:
        """Run the block in one transaction that holds the shard's lock from its start."""

    @abstractmethod
    def tables(self) -> set[str]:
        """Return the names of the tables and views that are there."""

    @abstractmethod
    def drop_views(self) -> None:
        """Drop every view."""

    @abstractmethod
    def _errors(self) -> contextlib.AbstractContextManager[None]: ...

    def rows(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        """Return all rows of a query."""
        with self._errors():
            found: list[Row] = self._connection.execute(self._translated(statement), values).fetchall()
            return found

    def rows_of(self, statement: str, ids: Iterable[str]) -> list[Row]:
        """Return the rows of any number of ids: each `...` in the statement stands for some of them."""
        found: list[Row] = []
        for some in chunks(sorted(ids)):
            marks = ", ".join("?" * len(some))
            found += self.rows(statement.replace("...", marks), (*some,) * statement.count("..."))
        return found

    def scan(self, statement: str) -> Iterator[Row]:
        """Yield the rows of a query one by one, in bounded memory."""
        with self._errors():
            yield from self._connection.execute(statement)

    def execute(self, statement: str, values: Sequence[object] = ()) -> None:
        """Run one statement."""
        with self._errors():
            self._connection.execute(self._translated(statement), values)

    def execute_many(self, statement: str, values: Iterable[Sequence[object]]) -> None:
        """Run a statement once a row."""
        with self._errors():
            self._connection.cursor().executemany(self._translated(statement), values)

    def add(self, table: str, rows: Iterable[Row]) -> None:
        """Put whole rows into the table, in the order of its columns (`statements.upsert`)."""
        self.execute_many(upsert(table), rows)

    def change(self, table: str, rows: Iterable[Row], statement: str) -> None:  # noqa: ARG002 - SQLite's
        """Change rows that are there, given whole: by the statement, or as `add` does, what is quicker."""
        self.add(table, rows)

    def close(self) -> None:
        """Close the connection; idempotent."""
        self._connection.close()

    def _translated(self, statement: str) -> str:
        return statement


def open_database(url: str, *, durable: bool = True, read_only: bool = False) -> Database:
    """Connect to a file path (SQLite) or a postgresql:// URL.

    `durable` False gives up durability of the last transactions, never consistency: for the health
    table, whose rows nobody misses. Raises SinkError; ConfigError for a URL with another scheme.
    """
    scheme = split_url(url).scheme if "://" in url else ""
    if scheme in POSTGRES_SCHEMES:
        return PostgresDatabase(url, durable=durable, read_only=read_only)
    if scheme not in {"", "sqlite"}:
        raise ConfigError(
            f"no metric tables in {scheme}:// databases", hint="give a file path or a postgresql:// URL"
        )
    path = Path(url.removeprefix("sqlite://"))
    check_target(path, "file of the metric tables")
    return SqliteDatabase(path, durable=durable, read_only=read_only)


def shard_place(url: str, shard: int, shards: int) -> str:
    """Return where the tables of a shard are: with SQLite the first one's file, or one beside it."""
    if shard == 0 or _is_postgres(url):
        return url
    path = Path(url.removeprefix("sqlite://"))
    return str(path.with_name(f"{path.stem}-{shard}-of-{shards}{path.suffix}"))


def _is_postgres(url: str) -> bool:
    return "://" in url and split_url(url).scheme in POSTGRES_SCHEMES


def exists(url: str) -> bool:
    """Tell whether the database is there, as far as that can be told without asking it."""
    return "://" in url or Path(url).exists()


def open_tables(url: str) -> Database:
    """Connect to read the metric tables; raises NotFoundError before the first run has made them."""
    if exists(url):
        database = open_database(url, read_only=True)
        if "progress" in database.tables():
            return database
        database.close()
    raise NotFoundError(
        f"no metrics yet in {public_url(url)}",
        hint="`jobwire metrics once` computes them from the journal, `jobwire metrics run` keeps on",
    )


class SqliteDatabase(Database):
    """A file in WAL mode: readers never wait for the writer."""

    one_shard = True

    def __init__(self, path: Path, *, durable: bool, read_only: bool) -> None:
        self.path = path
        self._read_only = read_only
        with self._errors():
            if not read_only:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                _create_private(path)
            mode = "ro" if read_only else "rw"
            self._connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode={mode}",
                uri=True,
                timeout=_BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
            if not read_only:
                self._connection.execute("PRAGMA journal_mode=WAL")
                # FULL: the commit is on the disk before our place in the journal moves on. NORMAL would lose
                # the last transactions in a power cut, and retention might have taken their rows.
                self._connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'OFF'}")
                self._connection.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
                self._connection.execute("PRAGMA temp_store=MEMORY")
            else:
                self._join_shards()

    @property
    def connection(self) -> sqlite3.Connection:
        """Return what may be told to refuse more than a database here does."""
        connection: sqlite3.Connection = self._connection
        return connection

    @override
    @contextlib.contextmanager
    def transaction(self, shard: int = 0) -> Iterator[None]:  # noqa: ARG002 - a file has one writer
        """Begin IMMEDIATE: two writers take turns instead of failing in the middle."""
        with self._errors():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):  # a full disk rolls back by itself
                    self._connection.execute("ROLLBACK")
                raise

    @override
    def change(self, table: str, rows: Iterable[Row], statement: str) -> None:  # noqa: ARG002 - one by one
        """Run the statement: it leaves columns, and with them indexes, alone."""
        self.execute_many(statement, rows)

    def _join_shards(self) -> None:
        """Attach the other shards' files, and put views over all of them before the tables of this one."""
        if "metrics_schema" not in self.tables() or not self.rows("PRAGMA table_info(progress)"):
            return
        known = self.rows("SELECT * FROM metrics_schema")
        shards = known[0][1] if known and len(known[0]) > 1 else 1
        if shards == 1:
            return
        names = {f"shard{n}": Path(shard_place(str(self.path), n, shards)) for n in range(1, shards)}
        self.attach(names, shards)
        for name in (*COUNTED, "job_states"):
            parts = " UNION ALL ".join(f"SELECT * FROM {place}.{name}" for place in ("main", *names))  # noqa: S608 - names of ours
            self.execute(f"CREATE TEMP VIEW {name} AS {parts}")
        for statement in schema():
            if statement.startswith("CREATE VIEW") and not statement.startswith("CREATE VIEW job_states"):
                self.execute(statement.replace("CREATE VIEW", "CREATE TEMP VIEW", 1))

    def attach(self, places: Mapping[str, Path], shards: int) -> None:
        """Attach files by names, and give SQL the function that tells of which of `shards` a job is."""
        with self._errors():
            for name, path in places.items():
                mode = "ro" if self._read_only else "rw"
                self._connection.execute(f"ATTACH ? AS {name}", (f"{path.absolute().as_uri()}?mode={mode}",))
            self._connection.create_function(
                "shard_of", 1, lambda job_id: int(job_id[:8], 16) % shards, deterministic=True
            )

    @override
    def tables(self) -> set[str]:
        """Return the names of the tables and views that are there."""
        return {name for (name,) in self.rows("SELECT name FROM sqlite_master")}

    @override
    def drop_views(self) -> None:
        """Drop every view."""
        for (name,) in self.rows("SELECT name FROM sqlite_master WHERE type = 'view'"):
            self.execute(f"DROP VIEW {name}")

    @override
    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            full = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
            raise SinkError(
                f"the metric tables in {self.path}: {error}",
                hint=FULL_HINT if full else "check the file, its folder and its owner",
                disk_full=full,
            ) from error
        except OSError as error:
            full = error.errno in _FULL_ERRNOS
            raise SinkError(
                f"the metric tables in {self.path}: {error.strerror}",
                hint=FULL_HINT if full else "check the folder and its owner",
                disk_full=full,
            ) from error


def _create_private(path: Path) -> None:
    """Create the file before SQLite opens it, mode 0600; -wal and -shm take the file's mode.

    A file that is there is not even opened: closing it would drop the locks of this process's other
    connections to it (fcntl(2)), and the next reader to end would take the log for its own and delete
    it, with every later commit in it (sqlite.org/howtocorrupt.html, 2.2).
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


class PostgresDatabase(Database):
    """A PostgreSQL database; the tables are made in the first schema of the search path."""

    one_shard = False
    # 53100: disk_full (PostgreSQL's table of error codes).
    _DISK_FULL = "53100"

    def __init__(self, url: str, *, durable: bool, read_only: bool) -> None:
        import psycopg  # noqa: PLC0415 - an extra that only this database needs

        self._failure = psycopg.Error
        self._name = public_url(url)
        with self._errors():
            self._connection = psycopg.connect(url, autocommit=True, connect_timeout=10)
            if read_only:
                self._connection.read_only = True
            if not durable:
                self._connection.execute("SET synchronous_commit TO off")

    @override
    @contextlib.contextmanager
    def transaction(self, shard: int = 0) -> Iterator[None]:
        """Begin, and wait for our turn: a lock that ends with the transaction."""
        with self._errors(), self._connection.transaction():
            # The first number is "jobw": other programs' locks are not ours.
            self._connection.execute(
                "SELECT pg_advisory_xact_lock(1785684855, hashtext(current_schema() || %s))", (f":{shard}",)
            )
            yield

    @override
    def add(self, table: str, rows: Iterable[Row]) -> None:
        """Put the rows in by one statement, out of a table of this connection's own."""
        with self._errors():
            self._connection.execute(f"CREATE TEMP TABLE IF NOT EXISTS staged_{table} (LIKE {table})")
            self._connection.execute(f"TRUNCATE staged_{table}")
            with self._connection.cursor().copy(f"COPY staged_{table} FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
            self._connection.execute(upsert(table, f"SELECT * FROM staged_{table}"))  # noqa: S608 - names of ours

    @override
    def scan(self, statement: str) -> Iterator[Row]:
        """Yield the rows of a query through a cursor on the server."""
        with (
            self._errors(),
            self._connection.transaction(),
            self._connection.cursor(name="jobwire_scan") as cursor,
        ):
            yield from cursor.execute(self._translated(statement))

    @override
    def tables(self) -> set[str]:
        """Return the names of the tables and views that are there."""
        found = self.rows(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()"
        )
        return {name for (name,) in found}

    @override
    def drop_views(self) -> None:
        """Drop every view; CASCADE takes those that read it, which come later or never."""
        for (name,) in self.rows("SELECT viewname FROM pg_views WHERE schemaname = current_schema()"):
            self.execute(f"DROP VIEW IF EXISTS {name} CASCADE")

    @override
    def _translated(self, statement: str) -> str:
        # psycopg wants %s; no statement of ours holds a literal % or ?.
        return statement.replace("?", "%s")

    @override
    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except self._failure as error:
            full = getattr(error, "sqlstate", None) == self._DISK_FULL
            raise SinkError(
                f"the metric tables in {self._name}: {str(error).strip().splitlines()[0]}",
                hint=FULL_HINT if full else "check that PostgreSQL runs and lets this user in",
                disk_full=full,
            ) from error


def chunks(values: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield `values` in pieces that fit one statement's parameters."""
    for start in range(0, len(values), _CHUNK):
        yield values[start : start + _CHUNK]


def public_url(url: str) -> str:
    """Return the URL without its password, for messages."""
    if "://" not in url:
        return url
    parts = split_url(url)
    user = f"{parts.username}@" if parts.username else ""
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{user}{parts.hostname or ''}{port}{parts.path}"
