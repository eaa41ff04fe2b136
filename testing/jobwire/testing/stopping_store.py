"""A coordination store that stops after a chosen commit, as a process that is killed there."""

import contextlib
from collections.abc import Iterator

from jobwire.coordination.store import CoordinationStore, Transaction
from jobwire.core.clock import Clock
from jobwire.core.override import override
from jobwire.testing.broken_disks import Crash


class StoppingStore(CoordinationStore):
    """Raises Crash after its `stop_after`-th commit; 0 never."""

    def __init__(self, home: str, *, clock: Clock, stop_after: int) -> None:
        super().__init__(home, clock=clock)
        self._stop_after = stop_after
        self._commits = 0

    @override
    @contextlib.contextmanager
    def changing(self) -> Iterator[Transaction]:
        """Run the block in one transaction, and stop where it was the last one."""
        with super().changing() as change:
            yield change
        self._commits += 1
        if self._commits == self._stop_after:
            raise Crash
