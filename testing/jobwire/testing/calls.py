"""What the registry process does for short commands, in a thread of the test."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from jobwire.core.clock import SystemClock
from jobwire.hooks.kinds import NAMES
from jobwire.hooks.served import ServedHooks
from jobwire.registry.call_service import Callee, CallService
from jobwire.registry.duties import Duty


@contextmanager
def serving_hooks(home: Path) -> Iterator[CallService]:
    """Serve the hooks of a home for the block."""
    with serving_calls(home, dict.fromkeys(NAMES, ServedHooks(home))) as service:
        yield service


@contextmanager
def serving_calls(home: Path, callees: Mapping[str, Callee]) -> Iterator[CallService]:
    """Take the calls of a home for the block."""
    service, stop = CallService(home, callees), threading.Event()
    service.open()
    duty = Duty(service.name, clock=SystemClock(), limit_seconds=60.0)
    thread = threading.Thread(target=service.run, args=(duty, stop), name="call-service")
    thread.start()
    try:
        yield service
    finally:
        stop.set()
        thread.join()
