"""The bounded queue between the network thread and the consumer."""

from collections import deque
from collections.abc import Callable, Iterable
from threading import Condition

from jobwire.core.clock import Clock
from jobwire.core.errors import JobwireError
from jobwire.core.ports import Incoming


class Inbox:
    """Hands incoming things over in batches; a full one makes the producer stop reading.

    `put`, `full` and `end` belong to the network thread, `take` to one consumer. `on_room` is
    called in the consumer's thread when a full inbox is half empty again.
    """

    def __init__(self, *, limit: int, clock: Clock, on_room: Callable[[], None]) -> None:
        self._limit = limit
        self._clock = clock
        self._on_room = on_room
        self._items: deque[Incoming] = deque()
        self._arrived = Condition()
        self._consumer_waits = False
        self._producer_waits = False
        self._failure: JobwireError | None = None

    def put(self, items: Iterable[Incoming]) -> None:
        """Append `items` and wake the consumer if it waits; never blocks, never drops."""
        self._items.extend(items)
        # Read after the append: a consumer that sets the flag later looks at the items after that.
        if self._consumer_waits:
            self._wake()

    def full(self) -> bool:
        """Tell whether the producer must stop; if so, `on_room` will be called."""
        if len(self._items) < self._limit:
            return False
        self._producer_waits = True
        # Looked at again after the flag: the consumer may have emptied it in between.
        return len(self._items) >= self._limit

    def end(self, failure: JobwireError) -> None:
        """Let `take` raise `failure` once the items are used up."""
        self._failure = failure
        self._wake()

    def take(self, max_items: int, timeout_seconds: float) -> list[Incoming]:
        """Return up to `max_items`, waiting up to `timeout_seconds` for the first one."""
        items = self._items
        if not items and not self._wait(timeout_seconds):
            return []
        # The one consumer is here, so the length can only grow meanwhile.
        taken = [items.popleft() for _ in range(min(max_items, len(items)))]
        if self._producer_waits and len(items) <= self._limit // 2:
            self._producer_waits = False
            self._on_room()
        return taken

    def _wait(self, timeout_seconds: float) -> bool:
        """Return whether there are items; raises the failure when there will be none."""
        deadline = self._clock.monotonic() + timeout_seconds
        with self._arrived:
            self._consumer_waits = True
            try:
                while not self._items:
                    if self._failure is not None:
                        raise self._failure
                    remaining = deadline - self._clock.monotonic()
                    if remaining <= 0:
                        return False
                    self._arrived.wait(remaining)
            finally:
                self._consumer_waits = False
        return True

    def _wake(self) -> None:
        with self._arrived:
            self._arrived.notify_all()
