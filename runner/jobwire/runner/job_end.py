"""A job ended by who runs it, and not by its own word: cancelled, or in error."""

from jobwire.core.errors import ConflictError, NotFoundError
from jobwire.jobs import fold
from jobwire.registry.store import RecordStore


def cancel_job(store: RecordStore, job_id: str, cause: str, *, source: str = "registry") -> bool:
    """Cancel the job, durably; False where it has ended, or is gone. Raises StorageError."""
    return _end(store, job_id, cause, source, cancelled=True)


def fail_job(
    store: RecordStore, job_id: str, cause: str, *, timeout: str = "", source: str = "registry"
) -> bool:
    """End the job in error, at the limit `timeout` names; False where it has ended, or is gone."""
    return _end(store, job_id, cause, source, timeout=timeout)


def _end(
    store: RecordStore, job_id: str, cause: str, source: str, *, cancelled: bool = False, timeout: str = ""
) -> bool:
    change = fold.cancel if cancelled else fold.fail
    try:
        with store.locked(job_id) as locked:
            if locked.record.terminal:
                return False
            ended = change(locked.record, store.clock.now(), cause, timeout=timeout)
            locked.replace(ended, cause=cause, source=source)
    except (NotFoundError, ConflictError):
        return False
    return True
