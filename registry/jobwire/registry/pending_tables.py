"""The pending index on disk: its tables, and whether what they hold can be trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobwire.storage.sqlite.schema import Schema

if TYPE_CHECKING:
    from jobwire.storage.sqlite.sqlite_file import SqliteFile

# Below `queue/`.
FILE = "pending.sqlite"
TABLES = Schema("jobwire.registry", "pending_sql", application_id=0x4A57_5051, version=2)
# Without indexes, for a rebuild.
BARE_TABLES = TABLES._replace(version=1)
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


def record_version(file: SqliteFile) -> int | None:
    """Return the version of the records from which the index was made, whole, since the machine was started.

    None for any other index: it cannot be trusted, because a power cut loses unflushed writes and marks.
    """
    return next((int(row[0]) for row in file.rows("made", {"boot": _boot_id()})), None)


def set_made(file: SqliteFile, version: int) -> None:
    """Note that the index is whole, and of this boot."""
    file.execute("set_made", {"boot": _boot_id(), "records": version})


def _boot_id() -> str:
    try:
        with open(_BOOT_ID, encoding="ascii") as file:  # noqa: PTH123 - pathlib costs the status line too much
            return file.read().strip()
    except OSError:
        return "unknown"
