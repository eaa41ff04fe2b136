"""The SQL: `schema.sql` as a list of statements, `queries.sql` by name, and what puts rows into a table."""

import re
from collections.abc import Iterator
from functools import cache
from importlib import resources

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"--[^\n]*")
# Beside their key they hold numbers that add up.
SUMS = ("window_counts", "rejection_counts", "histograms", "fact_counts", "usage_counts")
# What each shard has rows of. `job_states` joins two of them, which stand in the same shard.
COUNTED = ("progress", *SUMS, "job_totals", "job_facts")


@cache
def queries() -> dict[str, str]:
    """Return every statement of queries.sql by its name."""
    parts = _NAME.split(_text("queries.sql"))
    return {name: _COMMENT.sub("", body).strip() for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def schema() -> Iterator[str]:
    """Yield the statements that make the tables, then the views; none holds a semicolon inside."""
    for statement in _COMMENT.sub("", _text("schema.sql")).split(";"):
        if statement.strip():
            yield statement.strip()


@cache
def upsert(table: str, source: str = "") -> str:
    """Return the statement that puts a whole row into the table, or those of `source`, which is a SELECT.

    Numbers are added to those of a row with the same key, everything else takes its place.
    """
    begin = f"CREATE TABLE IF NOT EXISTS {table} ("
    lines = next(text for text in schema() if text.startswith(begin)).splitlines()
    columns = [name for name, *_ in map(str.split, lines) if name.islower()]
    # The first column, where the table names none.
    told = [line.partition("PRIMARY KEY (")[2].rstrip(")") for line in lines if "PRIMARY KEY (" in line]
    (key,) = told or columns[:1]
    old = f"{table}.{{0}} + " if table in SUMS else ""
    rest = [name for name in columns if name not in key.split(", ")]
    changes = ", ".join(f"{name} = {old.format(name)}excluded.{name}" for name in rest)
    rows = source or f"VALUES ({', '.join('?' * len(columns))})"
    return f"INSERT INTO {table} {rows} ON CONFLICT ({key}) DO UPDATE SET {changes}"


def _text(name: str) -> str:
    return resources.files("jobwire.metrics").joinpath(name).read_text(encoding="utf-8")
