"""Real databases for the sink, real journals for Spark."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest

from jobwire.core.clock import SystemClock
from jobwire.journal.entry import Entry
from jobwire.journal.writer import JournalWriter
from jobwire.testing.postgres import new_database, postgres_folder, postgres_server

_DEBIAN_POSTGRES = "/usr/lib/postgresql"


def missing(what: str, remedy: str) -> None:
    """Skip the test, or fail it where CI=true."""
    message = f"{what} is not installed ({remedy})"
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """Run a private PostgreSQL; the URL of its maintenance database."""
    if postgres_folder() is None:
        missing("PostgreSQL", "apt-get install postgresql")
    with postgres_server() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Give the URL of an empty database, of each kind in turn."""
    if request.param == "sqlite":
        return str(tmp_path / "metrics.db")
    return new_database(request.getfixturevalue("postgres"))


class MakeJournal(Protocol):
    """Writes a journal and returns its directory."""

    def __call__(self, entries: Sequence[Entry], *, batch: int = 50, **options: Any) -> Path: ...  # noqa: D102


@pytest.fixture
def make_journal(tmp_path: Path) -> MakeJournal:
    """Write entries into a new journal below the test's directory."""

    def make(entries: Sequence[Entry], *, batch: int = 50, **options: Any) -> Path:
        directory = tmp_path / f"journal{len(list(tmp_path.glob('journal*')))}"
        with JournalWriter(directory, clock=SystemClock(), **options) as writer:
            for start in range(0, len(entries), batch):
                writer.append(entries[start : start + batch])
        return directory

    return make
