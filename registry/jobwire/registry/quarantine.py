"""Records that cannot be read: moved aside with a reason beside them, never treated as absent."""

from __future__ import annotations

import contextlib
import json
import os
import os.path
from typing import TYPE_CHECKING, NamedTuple

from jobwire.core.errors import StorageError
from jobwire.storage.durable import replace_durably
from jobwire.storage.failures import storage_failure

if TYPE_CHECKING:
    from jobwire.jobs.record import RecordFormatError, RecordVersionError
    from jobwire.storage.files import FileSystem

FOLDER = "quarantine"
_REASON = ".reason.json"


class UnreadableRecordError(StorageError):
    """The job has a record that cannot be made sense of. Facts: job_id, path, reason."""


class QuarantinedRecordError(UnreadableRecordError):
    """The job's record could not be read and stands in quarantine."""


class Quarantined(NamedTuple):
    """One record in quarantine."""

    job_id: str
    path: str
    reason: str
    at: str


def move_aside(jobs: str, job_id: str, *, reason: str, at: str, files: FileSystem) -> Quarantined:
    """Move `jobs/<job_id>.json` into quarantine, durably, and return where it went.

    The caller holds the record's lock. The reason is written first: a crash between the two leaves a
    reason without a record, and the next reader does it again. Raises StorageError.
    """
    source = os.path.join(jobs, f"{job_id}.json")
    folder = os.path.join(jobs, FOLDER)
    target = os.path.join(folder, f"{job_id}.{at.replace(':', '').replace('.', '')}.json")
    try:
        files.make_directory(folder)
        body = {"job_id": job_id, "reason": reason, "at": at}
        replace_durably(target + _REASON, (json.dumps(body) + "\n").encode(), files=files)
        files.rename(source, target)
        files.sync_directory(folder)
        files.sync_directory(jobs)
    except OSError as error:
        raise storage_failure("move to quarantine", source, error) from error
    return Quarantined(job_id, target, reason, at)


def find(jobs: str, job_id: str | None = None) -> list[Quarantined]:
    """Return what stands in quarantine, oldest first; of one job where `job_id` is given."""
    found: list[Quarantined] = []
    folder = os.path.join(jobs, FOLDER)
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise storage_failure("list", folder, error) from error
    for name in names:
        if not name.endswith(".json") or name.endswith(_REASON) or name.startswith("."):
            continue
        if job_id is None or name.startswith(job_id + "."):
            found.append(_describe(os.path.join(folder, name)))
    return found


def error_for(item: Quarantined) -> QuarantinedRecordError:
    """Return the error that reports `item`."""
    return QuarantinedRecordError(
        f"the record of job {item.job_id} cannot be read ({item.reason}); it was moved to {item.path}",
        hint="correct the file and move it back to jobs/, or register the job anew",
        job_id=item.job_id,
        path=item.path,
        reason=item.reason,
    )


def unknown_version(job_id: str, path: str, error: RecordVersionError) -> UnreadableRecordError:
    """Return the error for a record that a later program wrote: it stays where it is."""
    return UnreadableRecordError(
        f"the record of job {job_id} cannot be read: {error.message}",
        hint=f"{error.hint}; the record is left as it is",
        job_id=job_id,
        path=path,
        reason=error.message,
        version=error.facts["version"],
    )


def damaged(job_id: str, path: str, error: RecordFormatError) -> UnreadableRecordError:
    """Return the error for a record that was found damaged by somebody who only reads."""
    return UnreadableRecordError(
        f"the record of job {job_id} cannot be read ({error.message})",
        hint="correct the file, or register the job anew; `jobwire registry reindex`, like any change of the "
        "job, moves it to jobs/quarantine/",
        job_id=job_id,
        path=path,
        reason=error.message,
    )


def _describe(path: str) -> Quarantined:
    body: object = None
    with contextlib.suppress(OSError, ValueError), open(path + _REASON, "rb") as file:
        body = json.loads(file.read())
    facts = body if isinstance(body, dict) else {}
    job_id = os.path.basename(path).partition(".")[0]
    return Quarantined(job_id, path, str(facts.get("reason", "unknown reason")), str(facts.get("at", "")))
