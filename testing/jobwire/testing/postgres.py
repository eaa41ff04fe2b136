"""A PostgreSQL server of one's own on a free loopback port, for the metrics tables."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from jobwire.testing.ports import free_port
from jobwire.testing.waiting import wait_for

_DEBIAN_POSTGRES = "/usr/lib/postgresql"
_MAINTENANCE = "postgres"


def postgres_folder() -> Path | None:
    """Return the folder of initdb and postgres; None where they are not installed."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).parent
    versions = sorted(Path(_DEBIAN_POSTGRES).glob("*/bin/initdb"))
    return versions[-1].parent if versions else None


@contextmanager
def postgres_server(*, durable: bool = False) -> Iterator[str]:
    """Run it for the block; give the URL of its maintenance database. `durable`: it flushes its commits."""
    folder = postgres_folder()
    if folder is None:
        raise AssertionError("PostgreSQL is not installed")
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
    flush = "on" if durable else "off"
    settings = ("listen_addresses=127.0.0.1", f"port={port}", "unix_socket_directories=", f"fsync={flush}")
    with (home / "log").open("wb") as log:
        server = subprocess.Popen(
            [folder / "postgres", "-D", data, *(word for setting in settings for word in ("-c", setting))],
            user=account, cwd=home, stdout=log, stderr=log,
        )  # fmt: skip
    url = f"postgresql://jobwire@127.0.0.1:{port}/{_MAINTENANCE}"

    def accepts() -> bool:
        try:
            psycopg.connect(url, connect_timeout=2).close()
        except psycopg.OperationalError:
            if server.poll() is not None:
                raise AssertionError((home / "log").read_text()) from None
            return False
        return True

    try:
        wait_for(accepts, what="PostgreSQL")
        yield url
    finally:
        server.terminate()
        server.wait(60)
        shutil.rmtree(home, ignore_errors=True)


def new_database(url: str) -> str:
    """Make an empty database on the server whose maintenance database is at `url`; return its URL."""
    name = f"t{os.urandom(6).hex()}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return url.removesuffix(_MAINTENANCE) + name
