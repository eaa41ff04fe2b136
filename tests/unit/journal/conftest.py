"""A directory in memory for tests of the journal."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def memory_path(tmp_path: Path) -> Iterator[Path]:
    """Give a directory in memory where there is one: thousands of fsyncs belong on no disk."""
    shared = Path("/dev/shm")
    if not shared.is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=shared, prefix="jobwire-test-") as name:
        yield Path(name)
