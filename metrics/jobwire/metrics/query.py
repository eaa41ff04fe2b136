"""One SQL question to the metric tables, which can change nothing and ends in time."""

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from jobwire.core.bounds import check_text
from jobwire.core.errors import InvalidInputError
from jobwire.metrics.database import POSTGRES_SCHEMES, SqliteDatabase, open_tables
from jobwire.metrics.settings import split_url

# Of one value and of the statement; zeroblob() and group_concat() can make any size from nothing.
_LONGEST = 1 << 20
_STEPS = 10_000
_ALLOWED = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
_HINT = "one SELECT over jobs, open_jobs, windows, facts, error_rates, measured, usage; see docs/metrics.md"


class QueryResult(NamedTuple):
    """Rows as they came; `truncated` says that there are more."""

    columns: list[str]
    rows: list[list[Any]]
    truncated: bool


def answer(sink: str, sql: str, *, limit: int, seconds: float) -> QueryResult:
    """Return up to `limit` rows of a reading statement.

    Raises NotFoundError without tables, SinkError where they cannot be opened, InvalidInputError for a
    statement that is wrong, would change something, or takes longer than `seconds`.
    """
    open_tables(sink).close()
    check_text("statement", sql, _LONGEST)
    if "://" in sink and split_url(sink).scheme in POSTGRES_SCHEMES:
        return _of_postgres(sink, sql, limit, seconds)
    return _of_sqlite(Path(sink.removeprefix("sqlite://")), sql, limit, seconds)


def _of_sqlite(path: Path, sql: str, limit: int, seconds: float) -> QueryResult:
    until = time.monotonic() + seconds
    with (
        contextlib.closing(SqliteDatabase(path, durable=False, read_only=True)) as database,
        _wrong_statements(sqlite3.Error, lambda: time.monotonic() >= until),
    ):
        connection = database.connection
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
        # sqlite.org/security.html: what comes from outside may read, and nothing else.
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.set_authorizer(
            lambda action, *_: sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY
        )
        connection.set_progress_handler(lambda: time.monotonic() >= until, _STEPS)
        return _fetched(connection.execute(sql), limit)


def _of_postgres(url: str, sql: str, limit: int, seconds: float) -> QueryResult:
    import psycopg  # noqa: PLC0415 - an extra that only this database needs

    options = f"-c default_transaction_read_only=on -c statement_timeout={int(seconds * 1000)}"
    timeout = psycopg.errors.QueryCanceled
    with (
        _wrong_statements(psycopg.Error, lambda error: isinstance(error, timeout)),
        psycopg.connect(url, connect_timeout=10, options=options) as connection,
    ):
        connection.read_only = True
        # Within a SELECT nothing but a query fits, and prepared there is one statement only.
        wrapped = f"SELECT * FROM (\n{sql.rstrip().removesuffix(';')}\n) AS answer LIMIT {limit + 1}"  # noqa: S608 - a person's own question
        return _fetched(connection.execute(wrapped.encode(), prepare=True), limit)


def _fetched(cursor: Any, limit: int) -> QueryResult:
    if cursor.description is None:
        raise InvalidInputError("the statement gives no rows", hint=_HINT)
    rows = cursor.fetchmany(limit + 1)
    columns = [str(column[0]) for column in cursor.description]
    return QueryResult(columns, [[_plain(value) for value in row] for row in rows[:limit]], len(rows) > limit)


def _plain(value: object) -> object:
    if isinstance(value, bytes | memoryview):
        return bytes(value).hex()
    return value if value is None or isinstance(value, str | int | float) else str(value)


@contextlib.contextmanager
def _wrong_statements(failure: type[Exception], is_late: Callable[..., bool]) -> Iterator[None]:
    try:
        yield
    except failure as error:
        late = is_late(error) if failure is not sqlite3.Error else is_late()
        if late:
            raise InvalidInputError(
                "the question takes too long", hint="ask for a shorter range, or allow more with --seconds"
            ) from error
        first = (str(error).strip().splitlines() or [""])[0]
        raise InvalidInputError(f"cannot answer that: {first}", hint=_HINT) from error
