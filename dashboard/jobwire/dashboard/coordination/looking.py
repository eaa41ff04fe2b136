"""The coordination store as the page reads it: never made, migrated or changed; and whether others did."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.tables import FILE
from jobwire.core.errors import StorageError
from jobwire.storage.sqlite.failures import DamagedDatabaseError, DatabaseVersionError

_DEADLINE_SECONDS = 2.0
# One look for all open pages, a few times a second.
LOOK_SECONDS = 0.25
_TROUBLE_SECONDS = 2.0


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


class StoreWatch:
    """Counts the store's changes while it runs. `number` rises with each; `trouble` says why it cannot.

    Looks by SQLite's own counter, which no sign of life and no other program passes by. Any thread may read.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self.number = 0
        self.trouble = ""

    def run(self, stop: threading.Event) -> None:
        """Look until `stop` is set."""
        store = CoordinationStore(str(self._home), read_only=True)
        seen: object = None
        pause, failed = LOOK_SECONDS, False
        while not stop.wait(pause):
            try:
                found, trouble = self._look(store), ""
            except StorageError as error:
                store.close()
                found, trouble = None, "" if is_being_made(error) else error.message
            except OSError as error:  # a home that may not be looked into
                store.close()
                found, trouble = None, str(error)
            pause = LOOK_SECONDS
            if trouble:
                # Once may be somebody who makes the tables, or brings them up to date.
                pause, failed, again = _TROUBLE_SECONDS, True, failed
                if not again:
                    continue
            failed = bool(trouble)
            if (found, trouble) != seen:
                seen, self.trouble = (found, trouble), trouble
                self.number += 1
        store.close()

    def _look(self, store: CoordinationStore) -> object:
        if not Path(store.path).exists():
            store.close()
            return None
        # The counter is a connection's own: one that was opened anew begins again.
        file = store.file
        return id(file), store.rows("data_version")[0][0]
