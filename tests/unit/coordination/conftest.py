"""A store in memory, a clock that a test moves, and rows that other programs write."""

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jobwire.coordination.store import CoordinationStore
from jobwire.testing.clock import ManualClock

Foreign = Callable[[], sqlite3.Connection]


@pytest.fixture
def clock() -> ManualClock:
    """Give a clock that stands still."""
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[CoordinationStore]:
    """Give an empty store."""
    store = CoordinationStore(str(tmp_path), clock=clock)
    yield store
    store.close()


@pytest.fixture
def foreign(store: CoordinationStore) -> Iterator[sqlite3.Connection]:
    """Give another program's plain connection to the store, set up as S3's own."""
    store.latest_event()
    with contextlib.closing(sqlite3.connect(store.path, isolation_level=None)) as connection:
        for pragma in ("busy_timeout = 5000", "foreign_keys = ON", "journal_mode = WAL"):
            connection.execute(f"PRAGMA {pragma}")
        yield connection
