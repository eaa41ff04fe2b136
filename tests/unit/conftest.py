"""Unit tests write into memory where the system has such a directory: disks are for the other rings."""

import contextlib
import gc
import sqlite3
import tempfile
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


@pytest.fixture(scope="session", autouse=True)
def _copied_databases() -> Iterator[None]:
    """Run the product's migrations once in a process: each later new database begins as a copy of the first.

    A hundred statements for each of a thousand tests would be a third of the ring. The migrations' own
    tests use schemas of their own or older databases, and run every step.
    """
    made: dict[Schema, sqlite3.Connection] = {}
    migrate = Schema.migrate

    def copied(schema: Schema, connection: sqlite3.Connection, path: StrPath, found: int) -> None:
        if found or not schema.package.startswith("jobwire."):
            migrate(schema, connection, path, found)
            return
        if schema not in made:
            made[schema] = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            migrate(schema, made[schema], path, 0)
        made[schema].backup(connection)

    with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as opened:
        patch.setattr(Schema, "migrate", copied)
        yield
        for connection in made.values():
            opened.callback(connection.close)


@pytest.fixture(scope="session", autouse=True)
def _fewer_searches_for_garbage() -> None:
    """Look for garbage among what tests made, not each time among all that was imported."""
    gc.freeze()
