"""The .sql files of all components: their steps, their STRICT tables, and their queries, each compiled."""

from pathlib import Path

import pytest

from jobwire.coordination.tables import TABLES as COORDINATION
from jobwire.registry.pending_tables import TABLES as PENDING
from jobwire.registry.told import TABLES as TOLD
from jobwire.storage.sqlite.schema import Schema
from jobwire.storage.sqlite.sqlite_file import SqliteFile
from jobwire.testing.sql_packages import plans

ROOT = Path(__file__).resolve().parents[3]
SCHEMAS = [COORDINATION, PENDING, TOLD]


def _folder(schema: Schema) -> Path:
    return next(ROOT.glob(f"*/{schema.package.replace('.', '/')}/{schema.folder}"))


def test_every_folder_of_migrations_is_looked_at() -> None:
    """No component has steps that this test does not know."""
    assert {path.parent for path in ROOT.glob("*/jobwire/**/0001_*.sql")} == set(map(_folder, SCHEMAS))


@pytest.mark.parametrize("schema", SCHEMAS, ids=[schema.package for schema in SCHEMAS])
def test_files_are_what_their_schema_says(schema: Schema, tmp_path: Path) -> None:
    """The last step has the schema's number, all tables are STRICT, and each query compiles against them."""
    names = sorted(path.name for path in _folder(schema).glob("[0-9]*.sql"))
    assert int(names[-1].partition("_")[0]) == len(names) == schema.version
    assert len(plans(schema, tmp_path / "a.db")) == len(schema.queries.all()) > 0
    file = SqliteFile(tmp_path / "a.db", schema)
    loose = file._live().execute("SELECT name FROM pragma_table_list WHERE type = 'table' AND NOT strict")
    assert [row[0] for row in loose if not row[0].startswith("sqlite_")] == []
    file.close()
