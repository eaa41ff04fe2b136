"""Real databases for the sink, real journals for Spark."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import psycopg
import pytest

from jobwire.core.clock import SystemClock
from jobwire.journal import Entry, JournalWriter
from jobwire.testing.ports import free_port
from jobwire.testing.waiting import wait_for

_DEBIAN_POSTGRES = "/usr/lib/postgresql"


def missing(what: str, remedy: str) -> None:
    """Skip the test, or fail it where CI=true."""
    message = f"{what} is not installed ({remedy})"
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)


def postgres_folder() -> Path:
    """Return the folder of initdb and postgres."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).parent
    versions = sorted(Path(_DEBIAN_POSTGRES).glob("*/bin/initdb"))
    if not versions:
        missing("PostgreSQL", "apt-get install postgresql")
    return versions[-1].parent


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """Run a private PostgreSQL on a free loopback port; the URL of its maintenance database."""
    folder = postgres_folder()
    home = Path(tempfile.mkdtemp(prefix="jobwire-postgres-"))
    # The server refuses to run as root.
    account = "nobody" if os.geteuid() == 0 else None
    if account is not None:
        user = pwd.getpwnam(account)
        os.chown(home, user.pw_uid, user.pw_gid)
    port = free_port()
    data = home / "data"
    subprocess.run(
        [folder / "initdb", "-D", data, "-U", "jobwire", "-A", "trust", "--no-sync"],
        user=account, cwd=home, check=True, capture_output=True,
    )  # fmt: skip
    settings = ("listen_addresses=127.0.0.1", f"port={port}", "unix_socket_directories=", "fsync=off")
    with (home / "log").open("wb") as log:
        server = subprocess.Popen(
            [folder / "postgres", "-D", data, *(word for setting in settings for word in ("-c", setting))],
            user=account, cwd=home, stdout=log, stderr=log,
        )  # fmt: skip
    url = f"postgresql://jobwire@127.0.0.1:{port}/postgres"

    def accepts() -> bool:
        try:
            psycopg.connect(url, connect_timeout=2).close()
        except psycopg.OperationalError:
            assert server.poll() is None, (home / "log").read_text()
            return False
        return True

    try:
        wait_for(accepts, what="PostgreSQL")
        yield url
    finally:
        server.terminate()
        server.wait(60)
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Give the URL of an empty database, of each kind in turn."""
    if request.param == "sqlite":
        return str(tmp_path / "metrics.db")
    url: str = request.getfixturevalue("postgres")
    name = f"t{os.urandom(6).hex()}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return url.removesuffix("postgres") + name


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
