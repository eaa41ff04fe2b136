"""The lease of a thread as its holder keeps it: a 0600 file for each agent, incarnation and thread.

The files lie in a folder of the home, or beside the ticket of an agent on another host.

`claim` writes it, so that the next command of the same agent need not name the token; a process of another
incarnation finds none.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from typing import NamedTuple

from jobwire.core.errors import ConflictError
from jobwire.core.override import override
from jobwire.core.topics import is_job_id
from jobwire.storage.durable import make_directories, replace_atomically
from jobwire.storage.failures import storage_failure
from jobwire.storage.files import SystemFiles

VARIABLE = "JOBWIRE_LEASE"
FOLDER = "leases"


class LeaseToken(NamedTuple):
    """What fences a holder: the job, and the attempt in which it was claimed."""

    job_id: str
    attempt: int

    @override
    def __str__(self) -> str:
        return f"{self.job_id}.{self.attempt}"


def read_token(text: str) -> LeaseToken | None:
    """Return the token in a text, None where there is none."""
    job_id, _, attempt = text.strip().partition(".")
    if not is_job_id(job_id) or not attempt.isdecimal() or len(attempt) > 9:  # noqa: PLR2004 - no record has more
        return None
    return LeaseToken(job_id, int(attempt))


class LeaseFile:
    """The file of one agent, incarnation and thread."""

    def __init__(self, folder: str, agent: str, incarnation: str, thread_id: str) -> None:
        name = hashlib.sha256(f"{agent}\0{incarnation}\0{thread_id}".encode()).hexdigest()[:40]
        self._folder = folder
        self._path = f"{self._folder}/{name}"

    def write(self, token: LeaseToken) -> None:
        """Keep the token; not flushed, because whoever holds the lease may claim it again."""
        files = SystemFiles()
        try:
            make_directories(self._folder, files=files)
        except OSError as error:
            raise storage_failure("create", self._folder, error) from error
        replace_atomically([(self._path, f"{token}\n".encode())], files=files)

    def read(self) -> LeaseToken | None:
        """Return the token, None where none is kept. Raises StorageError."""
        try:
            with open(self._path, encoding="ascii", errors="replace") as file:
                return read_token(file.read(64))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise storage_failure("read", self._path, error) from error

    def remove(self) -> None:
        """Forget the token."""
        with contextlib.suppress(OSError):
            os.unlink(self._path)


def token_for(
    given: str | None, inherited: str | None, kept: LeaseFile | None, job_id: str | None, thread_id: str
) -> LeaseToken:
    """Return the token under which a holder writes; raises ConflictError (lease_lost) where it has none.

    What is inherited from the environment counts for its own job only: a worker may hold several.
    """
    named = read_token(given) if given else None
    if given and named is None:
        raise lease_lost(thread_id, f"{given!r} is no lease")
    if named is None and inherited:
        named = read_token(inherited)
        named = named if named is not None and named.job_id == job_id else None
    named = named or (kept.read() if kept is not None else None)
    if named is None:
        raise lease_lost(thread_id, "you do not hold it")
    return named


def lease_lost(thread_id: str, why: str) -> ConflictError:
    """Return the error for somebody who does not hold the thread, or no longer."""
    return ConflictError(
        f"thread {thread_id}: {why}",
        hint="stop working on it; `inbox claim` takes it where it is free",
        code="lease_lost",
        thread_id=thread_id,
    )
