"""Whether the coordination store has changed: one look for all open pages, a few times a second."""

import threading
from pathlib import Path

from jobwire.coordination.store import CoordinationStore
from jobwire.core.errors import StorageError
from jobwire.dashboard.coordination.looking import is_being_made

LOOK_SECONDS = 0.25
_TROUBLE_SECONDS = 2.0


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
