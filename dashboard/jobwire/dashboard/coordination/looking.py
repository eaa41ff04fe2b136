"""The coordination store as the page reads it: opened for one look, never made, migrated or changed."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.tables import FILE
from jobwire.core.errors import StorageError
from jobwire.storage.sqlite.failures import DamagedDatabaseError, DatabaseVersionError

_DEADLINE_SECONDS = 2.0


@contextlib.contextmanager
def looking(home: Path) -> Iterator[CoordinationStore | None]:
    """Give the home's store for one look, None where nobody has made one yet. Raises StorageError."""
    if not (home / FILE).exists():
        yield None
        return
    try:
        store = _opened(home)
    except StorageError as error:
        if not is_being_made(error):
            raise
        yield None
        return
    try:
        yield store
    finally:
        store.close()


def is_being_made(error: StorageError) -> bool:
    """Tell whether the file is there and its tables are not yet: somebody makes the store just now."""
    return isinstance(error, DatabaseVersionError) and error.facts.get("found") == 0


def _opened(home: Path) -> CoordinationStore:
    store = CoordinationStore(str(home), read_only=True, deadline_seconds=_DEADLINE_SECONDS)
    try:
        store.latest_event()
    except (DamagedDatabaseError, DatabaseVersionError):
        raise
    except StorageError:
        # On a disk that takes no change there is no memory that readers share. All is in the file where no
        # log waits beside it.
        log = Path(f"{store.path}-wal")
        if log.exists() and log.stat().st_size:
            raise
        store = CoordinationStore(str(home), frozen=True)
        store.latest_event()
    return store
