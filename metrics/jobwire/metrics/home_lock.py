"""One driver on each home: the lock that stands for it."""

import contextlib
import os
from collections.abc import Iterator

from jobwire.core.clock import Clock
from jobwire.journal.errors import JournalLocked
from jobwire.journal.lock import acquire
from jobwire.metrics.errors import MetricsLockedError
from jobwire.metrics.settings import MetricsSettings

LOCK_NAME = "driver.lock"


@contextlib.contextmanager
def held_lock(settings: MetricsSettings, *, clock: Clock, deadline_seconds: float) -> Iterator[None]:
    """Hold the lock for the block; the folder of the metrics exists.

    Waits up to the deadline. Raises MetricsLockedError naming the holder's pid.
    """
    path = settings.folder / LOCK_NAME
    try:
        descriptor = acquire(
            path, clock=clock, deadline_seconds=deadline_seconds, what="computes the metrics"
        )
    except JournalLocked as error:
        raise MetricsLockedError(error.message, hint=error.hint, pid=error.facts.get("pid")) from error
    try:
        yield
    finally:
        os.close(descriptor)
