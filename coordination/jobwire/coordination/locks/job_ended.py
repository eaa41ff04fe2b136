"""Whether a job is over, so that what was locked for it is free."""

from __future__ import annotations

from jobwire.core.errors import NotFoundError, StorageError


class JobEnded:
    """Tells of a job whether it is over, by its record; one that cannot be read is not said to be."""

    def __init__(self, home: str) -> None:
        self._home = home

    def __call__(self, job_id: str) -> bool:
        """Return whether the job is over, or gone."""
        from jobwire.registry.store import RecordStore  # noqa: PLC0415 - few locks name a job

        try:
            return RecordStore(self._home).get(job_id).terminal
        except NotFoundError:
            return True
        except StorageError:
            return False
