"""The lease of a delivery, renewed by itself for as long as somebody works on it."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from jobwire.coordination import taking
from jobwire.core.errors import ConflictError, JobwireError

if TYPE_CHECKING:
    from jobwire.coordination.store import CoordinationStore

_log = logging.getLogger("jobwire.inbox")


class DeliveryLease:
    """Renews the lease on a thread of its own until `end`, each time for the seconds that were granted.

    A store that cannot be written now is tried again; a lease that is somebody else's by now is let go.
    """

    def __init__(
        self, store: CoordinationStore, agent: str, seq: int, *, token: int | None, seconds: float
    ) -> None:
        self._store = store
        self._agent = agent
        self._seq = seq
        self._token = token
        self._pause = seconds / 3
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._renew, name=f"message-{seq}", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Renew it no more. Idempotent."""
        self._over.set()
        self._thread.join()

    def _renew(self) -> None:
        while not self._over.wait(self._pause):
            try:
                taking.renew(self._store, self._agent, self._seq, token=self._token)
            except ConflictError:
                _log.warning("message %s is no longer ours: its lease ran out", self._seq)
                break
            except JobwireError as error:
                _log.warning("the lease of message %s is not renewed now: %s", self._seq, error)
        self._store.close()
