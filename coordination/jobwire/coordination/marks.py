"""Whether jobs have changed since their threads were looked at; a short command asks no more than that."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

from jobwire.core.errors import JobwireError

if TYPE_CHECKING:
    from jobwire.coordination.store import CoordinationStore

_BOOT_ID = "/proc/sys/kernel/random/boot_id"


def catch_up(store: CoordinationStore) -> bool:
    """Bring the threads up to their jobs, and tell whether there was something to bring up.

    Every command does so first, so that no process is needed. A disk that takes no change leaves them as
    they are, and it is told on stderr.
    """
    if store.joined:
        return False  # a record is locked before the store, never within its transaction
    late, awaited = behind(store), bool(store.rows("notices"))
    if not late and not awaited:
        return False
    from jobwire.coordination.notices import tell_due  # noqa: PLC0415 - as below
    from jobwire.coordination.projection import bring_up  # noqa: PLC0415 - brings the registry

    try:
        if late:
            bring_up(store)
        if awaited:
            tell_due(store)
    except JobwireError as error:
        sys.stderr.write(f"jobwire: warning: threads may be behind their jobs: {error.message}\n")
    return late


def behind(store: CoordinationStore) -> bool:
    """Tell whether there is something to bring up."""
    if marked(store) or store.rows("prepared_jobs"):
        return True
    # A mark is not flushed: a power cut may have taken it.
    return bool(store.rows("working_jobs")) and boot() != looked_in(store)


def marked(store: CoordinationStore) -> list[str]:
    """Return the jobs that were marked since."""
    try:
        return os.listdir(marks(store))
    except OSError:
        return []


def unmark(store: CoordinationStore, job_id: str) -> None:
    """Note that the thread is as its job: before the record is read, or under its lock after that."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{marks(store)}/{job_id}")


def marks(store: CoordinationStore) -> str:
    """Return the folder of the marks; `registry.layout` makes it."""
    return f"{store.home}/queue/threads"


def looked_in(store: CoordinationStore) -> str:
    """Return in which boot of the machine all threads were looked at."""
    return next((str(row[0]) for row in store.rows("boot")), "")


def boot() -> str:
    """Return what is another after each start of the machine."""
    try:
        with open(_BOOT_ID, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
