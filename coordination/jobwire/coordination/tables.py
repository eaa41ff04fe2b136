"""The coordination store's tables: where their SQL stands, and the file's place in a home."""

from jobwire.storage.sqlite.schema import Schema

FILE = "coordination.db"
TABLES = Schema("jobwire.coordination", "sql", application_id=0x4A57_434F, version=8)
