"""Unit tests write into memory where the system has such a directory: disks are for the other rings."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

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
