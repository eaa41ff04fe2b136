"""What is counted at each look is counted from an index, and from no row."""

import sqlite3

import pytest

from jobwire.coordination.tables import TABLES


@pytest.mark.parametrize("query", ["unread_figures", "unread_by", "unread_by_all", "unread_in"])
def test_unread_messages_are_counted_from_the_index_alone(foreign: sqlite3.Connection, query: str) -> None:
    """SQLite needs no row of a delivery for it, whatever it holds."""
    values = {"agent_id": "ann", "thread_id": "t", "limit": 1, "agents": "[]"}
    plan = foreign.execute(f"EXPLAIN QUERY PLAN {TABLES.queries[query]}", values).fetchall()
    assert any("COVERING INDEX deliveries_unread" in row[3] for row in plan), plan
