"""The questions of `jobwire metrics query` on both databases."""

import pytest

from jobwire.core.clock import SystemClock
from jobwire.core.errors import InvalidInputError
from jobwire.metrics.database import open_database
from jobwire.metrics.query import answer
from jobwire.metrics.sink import MetricsSink


@pytest.fixture
def tables_url(database_url: str) -> str:
    """Give empty tables."""
    with MetricsSink(open_database(database_url), clock=SystemClock()) as sink:
        sink.prepare()
    return database_url


def test_both_databases_answer(tables_url: str) -> None:
    """A statement with or without a semicolon, and with what a placeholder would look like."""
    found = answer(tables_url, "SELECT version, '100 %s ?' AS a FROM metrics_schema;", limit=5, seconds=5.0)
    assert (found.columns, found.rows[0][1], found.truncated) == (["version", "a"], "100 %s ?", False)


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM metrics_schema",
        "SELECT 1) AS a; DELETE FROM metrics_schema; SELECT * FROM (SELECT 1",
        "WITH gone AS (DELETE FROM metrics_schema RETURNING version) SELECT * FROM gone",
        "SELECT 1 FROM nowhere",
    ],
)
def test_no_database_is_changed(sql: str, tables_url: str) -> None:
    """A statement that hides a change in a query is refused by either."""
    with pytest.raises(InvalidInputError):
        answer(tables_url, sql, limit=5, seconds=5.0)
    assert answer(tables_url, "SELECT COUNT(*) FROM metrics_schema", limit=5, seconds=5.0).rows == [[1]]


def test_a_long_question_ends_on_both(tables_url: str) -> None:
    """Time is limited."""
    endless = "WITH RECURSIVE t(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM t) SELECT COUNT(*) FROM t"
    with pytest.raises(InvalidInputError, match="too long"):
        answer(tables_url, endless, limit=10, seconds=0.3)
