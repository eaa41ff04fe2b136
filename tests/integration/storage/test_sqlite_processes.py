"""A database of ours among processes: killed, forked, racing, out of space."""

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from jobwire.storage.file_lock import LockTimeoutError
from jobwire.storage.sqlite.schema import Schema
from jobwire.storage.sqlite.sqlite_file import SqliteFile
from jobwire.testing.sql_packages import APPLICATION_ID, make_schema

FIRST = "CREATE TABLE notes (name TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT;"
QUERIES = """
-- name: add
-- Add a note.
INSERT INTO notes VALUES (:name, :body);
-- name: count
-- How many notes there are.
SELECT count(*) FROM notes;
-- name: check
-- SQLite's own look at every page.
SELECT integrity_check FROM pragma_integrity_check;
"""
BEGIN = f"""
import json, os, sys
sys.path.append(sys.argv[1])
from jobwire.core.errors import JobwireError
from jobwire.storage.sqlite.schema import Schema
from jobwire.storage.sqlite.sqlite_file import SqliteFile
schema = Schema(sys.argv[2], "sql", {APPLICATION_ID}, int(sys.argv[3]))
path = sys.argv[4]
def note(file, name):
    file.execute("add", {{"name": str(name), "body": "x" * 1000}})
"""


@pytest.fixture
def schema(tmp_path: Path) -> Schema:
    """Give a schema with one table."""
    return make_schema(tmp_path, [FIRST], QUERIES)


def _command(script: str, folder: Path, schema: Schema, path: Path) -> list[str]:
    return [sys.executable, "-c", BEGIN + script, str(folder), schema.package, str(schema.version), str(path)]


def _answer(command: list[str]) -> list[Any]:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    answer: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _count(path: Path, schema: Schema) -> int:
    with closing(SqliteFile(path, schema)) as file:
        assert file.rows("check") == [("ok",)]
        return int(file.rows("count")[0][0])


@pytest.mark.parametrize("committed", [0, 1, 40])
def test_killed_in_a_transaction(tmp_path: Path, schema: Schema, committed: int) -> None:
    """SIGKILL in the middle of a change leaves all that was committed and nothing else; its pid is named."""
    script = f"""
file = SqliteFile(path, schema)
for number in range({committed}):
    note(file, number)
with file.writing():
    for number in range(5000):  # more than SQLite's cache: pages are in the log already
        note(file, -1 - number)
    print("held", flush=True)
    sys.stdin.read()
"""
    path = tmp_path / "a.db"
    command = _command(script, tmp_path, schema, path)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        with (
            closing(SqliteFile(path, schema, deadline_seconds=0.05)) as file,
            pytest.raises(LockTimeoutError) as caught,
            file.writing(),
        ):
            pass
        assert caught.value.facts["pid"] == child.pid
        child.send_signal(signal.SIGKILL)
    assert _count(path, schema) == committed


def test_killed_in_an_update(tmp_path: Path, schema: Schema) -> None:
    """SIGKILL while tables are made anew leaves the old version, which the next opening brings up to date."""
    path = tmp_path / "a.db"
    with closing(SqliteFile(path, schema)) as file, file.writing():
        for number in range(20):
            file.execute("add", {"name": str(number), "body": "x" * 1000})
    second = """
    CREATE TABLE copies (name TEXT, body TEXT) STRICT;
    INSERT INTO copies SELECT a.name, a.body FROM notes a, notes b, notes c;
    DROP TABLE notes;
    SELECT wait();
    ALTER TABLE copies RENAME TO notes;
    """
    newer = make_schema(tmp_path, [FIRST, second], QUERIES)
    script = """
import sqlite3
connect = sqlite3.connect
def connect_waiting(*arguments, **options):
    connection = connect(*arguments, **options)
    connection.create_function("wait", 0, lambda: print("held", flush=True) or sys.stdin.read())
    return connection
sqlite3.connect = connect_waiting
SqliteFile(path, schema)
"""
    command = _command(script, tmp_path, newer, path)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        child.send_signal(signal.SIGKILL)
    assert _count(path, schema) == 20
    whole = make_schema(tmp_path, [FIRST, second.replace("SELECT wait();", "")], QUERIES)
    assert _count(path, whole) == 8000


def test_many_processes_make_one_database(tmp_path: Path, schema: Schema) -> None:
    """Of eight processes that make, fill and close a database at once none fails and no row is lost."""
    script = """
for turn in range(5):
    file = SqliteFile(path, schema)
    with file.writing():
        note(file, f"{os.getpid()}-{turn}")
    file.close()
"""
    path = tmp_path / "a.db"
    command = _command(script, tmp_path, schema, path)
    children = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(8)]
    errors = [child.communicate(timeout=60)[1] for child in children]
    assert errors == [""] * 8
    assert _count(path, schema) == 40


def test_a_forked_child_opens_its_own(tmp_path: Path, schema: Schema) -> None:
    """A child of fork(2) is refused the parent's connection, and leaves the parent's transaction whole."""
    script = """
file = SqliteFile(path, schema)
with file.writing():
    note(file, "parent")
    child = os.fork()
    if not child:
        told = []
        try:
            note(file, "child")
        except JobwireError as error:
            told.append("before a fork" in error.message)
        told.append(file.is_current())
        file.close()
        os._exit(0 if told == [True, False] else 1)
    _, status = os.waitpid(child, 0)
    child = os.fork()
    if not child:
        try:
            sys.exit(0)  # unwinds through the block
        except SystemExit:
            raise
_, second = os.waitpid(child, 0)
if not child:
    os._exit(0)
note(file, "after")
print(json.dumps([status, second, file.rows("count")[0][0]]))
"""
    path = tmp_path / "a.db"
    assert _answer(_command(script, tmp_path, schema, path)) == [0, 0, 2]
    assert _count(path, schema) == 2


FILLING = """
file = SqliteFile(path, schema)
note(file, "before")
LIMIT
told = None
try:
    with file.writing():
        for number in range(20000):
            note(file, number)
except JobwireError as error:
    told = [type(error).__name__, error.exit_code, error.hint, bool(error.facts.get("disk_full"))]
MORE
print(json.dumps([told, file.rows("count")[0][0]]))
"""


def test_limit_of_file_sizes(tmp_path: Path, schema: Schema) -> None:
    """Where a file may not grow the change is undone, the error says where to look, lifting it heals."""
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))"
    more = (
        "resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)\nnote(file, 'afterwards')"
    )
    path = tmp_path / "a.db"
    script = FILLING.replace("LIMIT", limit).replace("MORE", more)
    told, count = _answer(_command(script, tmp_path, schema, path))
    assert told == [
        "StorageError",
        50,
        "check the disk, its space and quota, and this process's limit of file sizes",
        False,
    ]
    assert (count, _count(path, schema)) == (2, 2)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root and unshare")
def test_full_disk(tmp_path: Path, schema: Schema) -> None:
    """On a full disk the change is undone, the remedy is space, and what is there can be read."""
    disk = tmp_path / "disk"
    disk.mkdir()
    script = FILLING.replace("LIMIT", "").replace("MORE", "")
    command = _command(script, tmp_path, schema, disk / "a.db")
    mount = f'mount -t tmpfs -o size=1m tmpfs {disk}; exec "$@"'
    told, count = _answer(["unshare", "-m", "sh", "-ec", mount, "sh", *command])
    assert told == [
        "StorageError",
        50,
        "free disk space, then repeat the command: nothing was half-written",
        True,
    ]
    assert count == 1


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root and unshare")
def test_read_only_disk(tmp_path: Path, schema: Schema) -> None:
    """On a disk that is mounted read-only the error names it and its remedy, code 50."""
    disk = tmp_path / "disk"
    disk.mkdir()
    SqliteFile(disk / "a.db", schema).close()
    script = """
told = []
for name in (path, path + "x"):
    try:
        SqliteFile(name, schema)
    except JobwireError as error:
        told.append([type(error).__name__, error.exit_code, error.hint])
print(json.dumps(told))
"""
    command = _command(script, tmp_path, schema, disk / "a.db")
    mount = f'mount --bind {disk} {disk}; mount -o remount,ro,bind {disk}; exec "$@"'
    answer = _answer(["unshare", "-m", "sh", "-ec", mount, "sh", *command])
    assert [(name, code, "writable by this user" in hint) for name, code, hint in answer] == [
        ("StorageError", 50, True)
    ] * 2


OPENING = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (16_384, resource.RLIM_INFINITY))
if FULL:
    empty = os.statvfs_result((4096, 4096, 100, 0, 0, 9, 9, 9, 0, 255))
    os.statvfs = lambda path: empty
try:
    SqliteFile(path, schema)
except JobwireError as error:
    print(json.dumps([type(error).__name__, error.exit_code, bool(error.facts.get("disk_full"))]))
"""


@pytest.mark.parametrize("full", [True, False])
def test_a_database_that_cannot_share_its_memory_is_not_called_damaged(
    tmp_path: Path, schema: Schema, full: bool
) -> None:
    """Opened to be brought up to date where -shm cannot grow: it is a full disk if that is so."""
    path = tmp_path / "a.db"
    with closing(SqliteFile(path, schema)) as file:
        file.execute("add", {"name": "before", "body": ""})
    newer = make_schema(tmp_path, [FIRST, "CREATE TABLE more (name TEXT) STRICT;"], QUERIES)
    script = OPENING.replace("FULL", str(full))
    assert _answer(_command(script, tmp_path, newer, path)) == ["StorageError", 50, full]
    assert _count(path, newer) == 1
