"""Unit tests write into memory where the system has such a directory: disks are for the other rings."""

import gc
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jobwire.storage.files import StrPath
from jobwire.storage.sqlite.schema import Schema
from jobwire.testing.memory import memory_directory


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Give an empty directory, like pytest's own, that is removed after the test."""
    with tempfile.TemporaryDirectory(dir=memory_directory(), prefix="jobwire-test-") as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def make_folder() -> Iterator[Callable[[], Path]]:
    """Give a function that makes an empty directory: each example of a property needs one of its own."""
    with tempfile.TemporaryDirectory(dir=memory_directory(), prefix="jobwire-test-") as folder:
        yield lambda: Path(tempfile.mkdtemp(dir=folder))


@pytest.fixture(scope="session")
def _first_databases() -> Iterator[dict[Schema, sqlite3.Connection]]:
    """Give what was made first of each schema."""
    made: dict[Schema, sqlite3.Connection] = {}
    yield made
    for connection in made.values():
        connection.close()


@pytest.fixture(autouse=True)
def _copied_databases(_first_databases: dict[Schema, sqlite3.Connection]) -> Iterator[None]:
    """Run the product's migrations once in a process: each later new database begins as a copy of the first.

    A hundred statements for each of a thousand tests would be a third of the ring. The migrations' own
    tests use schemas of their own or older databases, and run every step. Other rings in the same process
    open databases together with other processes, and get none of this.
    """
    made, migrate, guard = _first_databases, Schema.migrate, threading.Lock()

    def copied(schema: Schema, connection: sqlite3.Connection, path: StrPath, found: int) -> None:
        if found or not schema.package.startswith("jobwire."):
            migrate(schema, connection, path, found)
            return
        with guard:
            if schema not in made:
                made[schema] = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
                migrate(schema, made[schema], path, 0)
            # Of two threads at once the second finds the first one's work done, and what was written since.
            if not schema.check(connection, path):
                made[schema].backup(connection)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Schema, "migrate", copied)
        yield


@pytest.fixture(scope="session", autouse=True)
def _fewer_searches_for_garbage() -> None:
    """Look for garbage among what tests made, not each time among all that was imported."""
    gc.freeze()
