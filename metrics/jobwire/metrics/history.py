"""Accepted events as an open columnar table: Delta (Parquet files and a log), partitioned by date.

Each append stores, in the same atomic commit, the offset after its last row (Delta's application
transactions), so a range is written once however often a crash repeats it. docs/adr/0404 compares
this with plain Parquet. Tasks append (folding.py), the driver joins small files; anything that reads Delta or
Parquet may read.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jobwire.core.errors import StorageError

_APPLICATION = "jobwire-history:"
# Small files of a day are joined when a day has this many; a reader pays some 2 ms a file.
_COMPACT_AT = 64


class History:
    """The history table in `directory`; one writer at a time."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._appends = 0

    def next_offset(self, journal: str) -> int | None:
        """Return the offset after the journal's last row here, or None. Raises StorageError."""
        table = self._open()
        version = table.transaction_version(_APPLICATION + journal) if table is not None else None
        return None if version is None else int(version)

    def append(self, journal: str, events: Any, next_offset: int) -> None:
        """Add an Arrow table of `pipeline.Pipeline.extend_history`; all rows are below `next_offset`.

        Atomic; durable as far as the file system makes renames durable. Raises StorageError.
        """
        from deltalake import CommitProperties, Transaction, write_deltalake  # noqa: PLC0415 - 0.2 s

        try:
            write_deltalake(
                self.directory,
                _with_journal(events, journal),
                mode="append",
                partition_by=["date"],
                commit_properties=CommitProperties(
                    app_transactions=[Transaction(_APPLICATION + journal, next_offset)]
                ),
            )
        except Exception as error:  # delta-rs has no common root for disk errors
            raise self._failed("append to", error) from error

    def compact_when_due(self, appended: int) -> None:
        """Note how many appends there were, and compact after every so many. Raises StorageError."""
        before, self._appends = self._appends, self._appends + appended
        if before // _COMPACT_AT != self._appends // _COMPACT_AT:
            self.compact()

    def compact(self) -> None:
        """Join the small files of each day, and drop files unreferenced for a week. Raises StorageError."""
        table = self._open()
        if table is None:
            return
        try:
            table.optimize.compact()
            table.vacuum(dry_run=False)
            table.create_checkpoint()
        except Exception as error:  # as above
            raise self._failed("compact", error) from error

    def files(self) -> list[str]:
        """Return the table's Parquet files, for readers that know no Delta (Spark without its jar)."""
        table = self._open()
        return list(table.file_uris()) if table is not None else []

    def rows(self) -> int:
        """Return how many events are here."""
        table = self._open()
        return int(table.count()) if table is not None else 0

    def _open(self) -> Any:
        from deltalake import DeltaTable  # noqa: PLC0415 - as above

        try:
            return DeltaTable(self.directory) if DeltaTable.is_deltatable(str(self.directory)) else None
        except Exception as error:  # as above
            raise self._failed("open", error) from error

    def _failed(self, action: str, error: Exception) -> StorageError:
        return StorageError(
            f"cannot {action} the history in {self.directory}: {error}",
            hint="free disk space, or move the folder away: `jobwire metrics rebuild` writes it again",
            disk_full="No space left" in str(error),
        )


def pieces(start: int, end: int, rows: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of at most `rows` that together are [start, end)."""
    for first in range(start, end, rows):
        yield first, min(end, first + rows)


def _with_journal(events: Any, journal: str) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - with the first append

    return events.add_column(0, "journal", pa.array([journal] * events.num_rows, pa.string()))
