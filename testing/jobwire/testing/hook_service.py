"""What the registry process does for hooks, in a thread of the test."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jobwire.core.clock import SystemClock
from jobwire.hooks.companion import HookService
from jobwire.hooks.served import SOCKET_FILE
from jobwire.registry.duties import Duty
from jobwire.testing.waiting import wait_for


@contextmanager
def serving_hooks(home: Path) -> Iterator[HookService]:
    """Serve the hooks of a home for the block."""
    service, stop = HookService(home), threading.Event()
    duty = Duty(service.name, clock=SystemClock(), limit_seconds=60.0)
    thread = threading.Thread(target=service.run, args=(duty, stop), name="hook-service")
    thread.start()
    try:
        wait_for((home / SOCKET_FILE).exists, what="who serves hooks", deadline_seconds=60)
        yield service
    finally:
        stop.set()
        thread.join()
