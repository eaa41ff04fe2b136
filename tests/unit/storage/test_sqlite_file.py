"""A database of ours: made, brought up to date, changed whole or not at all, refused where it is not ours."""

import gc
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.core.errors import ConfigError, InvalidInputError, StorageError
from jobwire.storage.file_lock import LockTimeoutError
from jobwire.storage.sqlite.failures import (
    ConstraintError,
    DamagedDatabaseError,
    DatabaseVersionError,
    sqlite_failure,
    writer_pid,
)
from jobwire.storage.sqlite.schema import Schema
from jobwire.storage.sqlite.sql_text import SqlFormatError
from jobwire.storage.sqlite.sqlite_file import (
    OLDEST,
    SqliteFile,
    check_library,
    remove_database,
)
from jobwire.testing.sql_packages import APPLICATION_ID, make_schema

FIRST = """
CREATE TABLE notes (name TEXT PRIMARY KEY, size INTEGER NOT NULL CHECK (size >= 0)) STRICT, WITHOUT ROWID;
INSERT INTO notes VALUES ('first; of all', 1);
"""
SECOND = "ALTER TABLE notes ADD COLUMN colour TEXT;"
THIRD = """
CREATE TABLE parts (name TEXT NOT NULL REFERENCES notes (name)) STRICT;
CREATE TRIGGER grown AFTER UPDATE ON notes BEGIN INSERT INTO parts VALUES (NEW.name); SELECT 1; END;
"""
QUERIES = """
-- name: add
-- Add a note.
INSERT INTO notes (name, size) VALUES (:name, :size);
-- name: names
-- The names of all notes.
SELECT name FROM notes ORDER BY name;
-- name: add_part
-- Add a part of a note.
INSERT INTO parts VALUES (:name);
"""
# Python 3.11 has no name for it (sqlite.org/rescode.html).
_CONSTRAINT_DATATYPE = 3091
STEPS = [FIRST, SECOND, THIRD]


@pytest.fixture(scope="session")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> list[Schema]:
    """Give the schema at each of its versions 1, 2 and 3."""
    folder = tmp_path_factory.mktemp("packages")
    return [make_schema(folder, STEPS[:count], QUERIES) for count in (1, 2, 3)]


@pytest.fixture
def schema(schemas: list[Schema]) -> Schema:
    """Give the schema at its last version."""
    return schemas[-1]


@pytest.fixture
def file(tmp_path: Path, schema: Schema) -> Iterator[SqliteFile]:
    """Give an open database."""
    with closing(SqliteFile(tmp_path / "a.db", schema, deadline_seconds=0.02)) as opened:
        yield opened


def _names(file: SqliteFile) -> list[str]:
    return [row[0] for row in file.rows("names")]


def _add(file: SqliteFile, *names: str) -> None:
    for name in names:
        file.execute("add", {"name": name, "size": 1})


def _content(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


def test_what_is_no_text_is_refused(file: SqliteFile) -> None:
    """A word of a command line that is bytes: refused as such, and nothing is written."""
    before = _names(file)
    with pytest.raises(InvalidInputError, match="not valid UTF-8"):
        _add(file, "\udcff")
    assert _names(file) == before


def test_only_the_owner_may_read(file: SqliteFile, tmp_path: Path) -> None:
    """Database, log and shared memory have mode 0600, whatever the umask, also those that had another."""
    file.execute("add", {"name": "a", "size": 1})
    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == dict.fromkeys(
        ["a.db", "a.db-wal", "a.db-shm"], 0o600
    )


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("suffix", ["", "-wal"])
def test_what_is_no_file_is_refused_at_once(
    tmp_path: Path, schema: Schema, suffix: str, read_only: bool
) -> None:
    """A pipe, which SQLite would wait for without end, is named instead, for writers and for readers."""
    SqliteFile(tmp_path / "db", schema).close()
    (tmp_path / f"db{suffix}").unlink(missing_ok=True)
    os.mkfifo(tmp_path / f"db{suffix}")
    with pytest.raises(StorageError, match=f"db{suffix} is no file"):
        SqliteFile(tmp_path / "db", schema, read_only=read_only)


def test_what_others_could_read_is_closed_to_them(tmp_path: Path, schema: Schema) -> None:
    """A database that is there with a wider mode gets the private one."""
    path = tmp_path / "a.db"
    SqliteFile(path, schema).close()
    path.chmod(0o644)
    SqliteFile(path, schema).close()
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("cache", [False, True])
def test_pragmas(tmp_path: Path, schema: Schema, *, cache: bool) -> None:
    """What the house promises holds on every connection: log, flushes, foreign keys, distrust, identity."""
    with closing(SqliteFile(tmp_path / "a.db", schema, cache=cache)) as file:
        connection = file._live()
        found = {
            name: connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in (
                "journal_mode",
                "synchronous",
                "foreign_keys",
                "trusted_schema",
                "busy_timeout",
                "application_id",
                "user_version",
            )
        }
    flushes = 0 if cache else 2
    assert found == {
        "journal_mode": "wal",
        "synchronous": flushes,
        "foreign_keys": 1,
        "trusted_schema": 0,
        "busy_timeout": 5000,
        "application_id": APPLICATION_ID,
        "user_version": 3,
    }


@given(path=st.lists(st.integers(0, 2), min_size=1, max_size=4).map(sorted))
def test_every_way_of_updates_ends_alike(
    make_folder: Callable[[], Path], schemas: list[Schema], path: list[int]
) -> None:
    """From whatever versions a database came, it ends with the same tables and keeps its rows."""
    stepped, straight = make_folder() / "a.db", make_folder() / "a.db"
    for number, version in enumerate(path):
        with closing(SqliteFile(stepped, schemas[version])) as file:
            file.execute("add", {"name": f"row {number}", "size": number})
    with closing(SqliteFile(straight, schemas[path[-1]])) as file:
        for number in range(len(path)):
            file.execute("add", {"name": f"row {number}", "size": number})
    assert sorted(_content(stepped)) == sorted(_content(straight))


@given(at=st.integers(0, 7), version=st.integers(0, 2))
def test_an_interrupted_update_leaves_the_old_version(
    make_folder: Callable[[], Path], schemas: list[Schema], at: int, version: int
) -> None:
    """Wherever an update fails, the database is at a whole version, and the next opening goes on from it."""
    folder = make_folder()
    path = folder / "a.db"
    SqliteFile(path, schemas[version]).close()
    steps = list(STEPS)
    lines = [line for step in steps[version + 1 :] for line in step.strip().splitlines()]
    if not lines:
        return
    lines.insert(at % len(lines), "SELECT no_such_function();")
    broken = [*steps[: version + 1], "\n".join(lines)]
    before = _content(path)
    with pytest.raises(DamagedDatabaseError, match="no_such_function"):
        SqliteFile(path, make_schema(folder, broken, QUERIES))
    assert _content(path) == before
    with closing(SqliteFile(path, schemas[-1])) as file:
        assert _names(file) == ["first; of all"]


def test_rows_that_refer_to_nothing_stop_an_update(tmp_path: Path) -> None:
    """A step that would leave a broken reference is undone, though references are not enforced meanwhile."""
    path = tmp_path / "a.db"
    lost = "CREATE TABLE p (x TEXT REFERENCES notes (name)) STRICT; INSERT INTO p VALUES ('nobody');"
    SqliteFile(path, make_schema(tmp_path, [FIRST])).close()
    with pytest.raises(DamagedDatabaseError, match="row of p refers to one of notes"):
        SqliteFile(path, make_schema(tmp_path, [FIRST, lost]))
    SqliteFile(path, make_schema(tmp_path, [FIRST])).close()


def test_a_newer_database_is_left_as_it_is(tmp_path: Path, schemas: list[Schema]) -> None:
    """An older program says which versions there are and changes no byte."""
    path = tmp_path / "a.db"
    SqliteFile(path, schemas[2]).close()
    before, at = path.read_bytes(), path.stat().st_mtime_ns
    with pytest.raises(DatabaseVersionError) as caught:
        SqliteFile(path, schemas[0])
    assert (caught.value.facts["found"], caught.value.facts["known"]) == (3, 1)
    assert "update this program" in caught.value.hint
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (before, at)
    assert [one.name for one in tmp_path.iterdir()] == ["a.db"]


@pytest.mark.parametrize(
    "script", ["CREATE TABLE x (a);", "PRAGMA application_id = 7;", "PRAGMA user_version = 2;"]
)
def test_another_programs_database_is_left_as_it_is(tmp_path: Path, schema: Schema, script: str) -> None:
    """A database that somebody else made is refused, and not one byte of it changes."""
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
    before = path.read_bytes()
    with pytest.raises(DamagedDatabaseError, match="another kind"):
        SqliteFile(path, schema)
    assert path.read_bytes() == before


def test_a_database_that_is_being_made_is_no_other_programs(tmp_path: Path, schema: Schema) -> None:
    """Who looks while another process makes the tables sees none of them, or all with their mark."""
    path = tmp_path / "notes.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")

        def made_meanwhile(statement: str) -> None:
            if "user_version" in statement:
                connection.set_trace_callback(None)
                SqliteFile(path, schema).close()

        connection.set_trace_callback(made_meanwhile)
        assert schema.check(connection, path) == 0
        assert schema.check(connection, path) == schema.version


@pytest.mark.parametrize("damage", ["garbage", "truncated"])
def test_a_damaged_file_is_named(tmp_path: Path, schema: Schema, damage: str) -> None:
    """What is no database, or half of one, is an error of its own with a remedy, and code 50."""
    path = tmp_path / "a.db"
    with closing(SqliteFile(path, schema)) as file, file.writing():
        for number in range(1000):
            file.execute("add", {"name": f"{number:0100}", "size": number})
    content = path.read_bytes()
    path.write_bytes(b"x" * 8192 if damage == "garbage" else content[: len(content) // 2])
    with pytest.raises(DamagedDatabaseError) as caught, closing(SqliteFile(path, schema)) as file:
        file.rows("names")
    assert caught.value.exit_code == 50
    assert str(path) in caught.value.message


def test_a_transaction_is_whole_or_nothing(file: SqliteFile) -> None:
    """An exception in the block undoes all of it, and the connection goes on."""
    with pytest.raises(ConstraintError), file.writing():
        _add(file, "a", "a")
    with file.writing():
        _add(file, "b")
    assert _names(file) == ["b", "first; of all"]
    with file.writing(), pytest.raises(RuntimeError, match="nest"), file.writing():
        pass


def test_a_broken_rule_is_told(file: SqliteFile) -> None:
    """Uniqueness, checks, types and references are one error that says which rule it was, code 20."""
    breaks: list[tuple[str, dict[str, object], int]] = [
        ("add", {"name": "first; of all", "size": 1}, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY),
        ("add", {"name": "a", "size": -1}, sqlite3.SQLITE_CONSTRAINT_CHECK),
        ("add", {"name": "a", "size": "many"}, _CONSTRAINT_DATATYPE),
        ("add_part", {"name": "nobody"}, sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY),
    ]
    for query, values, code in breaks:
        with pytest.raises(ConstraintError) as caught:
            file.execute(query, values)
        assert (caught.value.facts["code"], caught.value.exit_code) == (code, 20)
    assert _names(file) == ["first; of all"]


def test_a_reader_sees_one_state(file: SqliteFile, tmp_path: Path, schema: Schema) -> None:
    """Inside `reading` nothing changes, whatever others commit; they need not wait for it."""
    with closing(SqliteFile(tmp_path / "a.db", schema)) as other:
        with file.reading():
            before = _names(file)
            other.execute("add", {"name": "later", "size": 1})
            assert _names(file) == before
        assert "later" in _names(file)
        assert other.checkpoint()
    assert (tmp_path / "a.db-wal").stat().st_size == 0


def test_waiting_for_a_writer_ends(file: SqliteFile, tmp_path: Path, schema: Schema) -> None:
    """A second writer waits until its deadline and is told who writes."""
    with closing(SqliteFile(tmp_path / "a.db", schema)) as other, other.writing():
        with pytest.raises(LockTimeoutError) as caught, file.writing():
            pass
        assert caught.value.facts == {"path": str(tmp_path / "a.db"), "pid": os.getpid()}
        assert "0.02 s" in caught.value.message
    assert writer_pid(tmp_path / "a.db") is None
    with file.writing():
        pass


def test_read_only_makes_and_changes_nothing(tmp_path: Path, schemas: list[Schema]) -> None:
    """A reader makes no database, updates none, and cannot write."""
    path = tmp_path / "a.db"
    with pytest.raises(StorageError):
        SqliteFile(path, schemas[2], read_only=True)
    assert not path.exists()
    SqliteFile(path, schemas[1]).close()
    with pytest.raises(DatabaseVersionError, match="version 2 still"):
        SqliteFile(path, schemas[2], read_only=True)
    with closing(SqliteFile(path, schemas[1], read_only=True)) as file:
        assert _names(file) == ["first; of all"]
        with pytest.raises(StorageError) as caught:
            file.execute("add", {"name": "a", "size": 1})
    assert "writable" in caught.value.hint


def test_a_replaced_file_is_noticed(file: SqliteFile, tmp_path: Path, schema: Schema) -> None:
    """Whoever holds a database that was removed or made anew can tell, and closing harms not the new one."""
    assert file.is_current()
    remove_database(tmp_path / "a.db")
    assert not file.is_current()
    with closing(SqliteFile(tmp_path / "a.db", schema)) as new:
        new.execute("add", {"name": "new", "size": 1})
        assert not file.is_current()
        file.close()
        assert _names(new) == ["first; of all", "new"]
    with closing(SqliteFile(tmp_path / "a.db", schema)) as again:
        assert _names(again) == ["first; of all", "new"]
    with pytest.raises(StorageError, match="closed"):
        file.rows("names")


def test_one_thread_at_a_time(file: SqliteFile, tmp_path: Path, schema: Schema) -> None:
    """Another thread than the opener's is refused, unless the caller says that a lock guards it."""
    found: list[object] = []

    def ask(one: SqliteFile) -> None:
        try:
            found.append(_names(one))
        except sqlite3.ProgrammingError as error:
            found.append(error)

    with closing(SqliteFile(tmp_path / "a.db", schema, guarded=True)) as guarded:
        for one in (file, guarded):
            thread = threading.Thread(target=ask, args=(one,))
            thread.start()
            thread.join()
    assert isinstance(found[0], sqlite3.ProgrammingError)
    assert found[1] == ["first; of all"]


def test_old_library() -> None:
    """A SQLite that knows no STRICT tables is named with both versions, as a matter of configuration."""
    check_library(sqlite3.sqlite_version_info)
    check_library(OLDEST)
    with pytest.raises(ConfigError, match=r"SQLite 3\.36\.0 .* needs 3\.37\.0"):
        check_library((3, 36, 0))


@pytest.mark.parametrize(
    ("code", "words", "full"),
    [
        (sqlite3.SQLITE_FULL, "free disk space", True),
        (sqlite3.SQLITE_READONLY, "owner, mode and mount", False),
        (sqlite3.SQLITE_READONLY | 3 << 8, "owner, mode and mount", False),
        (sqlite3.SQLITE_CANTOPEN, "its folder must exist", False),
        (sqlite3.SQLITE_IOERR | 3 << 8, "space and quota", False),
        (sqlite3.SQLITE_NOMEM, "try again", False),
    ],
)
def test_remedies(code: int, words: str, full: bool) -> None:
    """Each kind of failure is a storage error, code 50, with what to do about it."""
    cause = sqlite3.OperationalError("it went wrong")
    cause.sqlite_errorcode = code
    error = sqlite_failure("change", "/x/a.db", cause)
    assert isinstance(error, StorageError)
    assert (error.exit_code, words in error.hint, error.facts.get("disk_full", False)) == (50, True, full)


def test_migrations_are_numbered_without_a_gap(tmp_path: Path) -> None:
    """A gap, a number twice, or files that are not as many as the schema says stop at once."""
    schema = make_schema(tmp_path, [FIRST, SECOND])
    place = tmp_path / schema.package / "sql"
    with pytest.raises(SqlFormatError, match="not 1 to 3"):
        schema._replace(version=3).migrations()
    (place / "0002_other.sql").write_text("")
    with pytest.raises(SqlFormatError, match="two migrations"):
        schema.migrations()
    (place / "0001_step.sql").unlink()
    (place / "0002_other.sql").unlink()
    with pytest.raises(SqlFormatError, match="not 1 to 2"):
        schema.migrations()


def test_a_file_that_is_let_go_is_closed(schemas: list[Schema], tmp_path: Path) -> None:
    """Who forgets to close loses nothing and leaves no log behind, without waiting for garbage collection."""
    path = tmp_path / "a.db"
    file = SqliteFile(path, schemas[-1])
    file.execute("add", {"name": "kept", "size": 1})
    assert Path(f"{path}-wal").exists()
    gc.freeze()  # what is there now is no garbage, whatever is looked for from here on
    del file
    assert not Path(f"{path}-wal").exists()
    gc.unfreeze()
    with closing(SqliteFile(path, schemas[-1])) as file:
        assert ("kept",) in file.rows("names")
