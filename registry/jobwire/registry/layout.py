"""The home directory: where everything lies, and the empty files that tell of changes."""

from __future__ import annotations

import contextlib
import os
import os.path
from typing import TYPE_CHECKING

from jobwire.core.clock import SystemClock
from jobwire.core.late_log import LateLog
from jobwire.storage import file_lock
from jobwire.storage.durable import TEMPORARY, make_directories, temporary_name
from jobwire.storage.failures import storage_failure
from jobwire.storage.files import FileSystem, SystemFiles
from jobwire.storage.home_paths import HomePaths

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jobwire.core.clock import Clock

TOUCHED = "touched"
ANNOUNCE = "announce"
# Jobs whose threads the coordination store is to look at.
THREADS = "threads"
# Written by the registry process, and stays; held by it as long as it runs.
SERVE_FILE = "serve.json"
SERVE_LOCK = "serve"
_log = LateLog("jobwire.registry")
# Inode, time of change and size: each record that is written is a new file.
Stamp = tuple[int, int, int]
# In the order of their making; the last one tells that all others are there for good.
_FOLDERS = ("jobs", "locks", "logs", "outbox", "queue", f"queue/{TOUCHED}")


def send_lock_name(job_id: str) -> str:
    """Return the name, for `lock_path`, of the lock that whoever sends this job's events holds."""
    return f"{job_id}.send"


class HomeLayout(HomePaths):
    """The registry's directories in a home. Nothing is created before `make_layout`."""

    def __init__(
        self, home: Path | str, *, clock: Clock | None = None, files: FileSystem | None = None
    ) -> None:
        super().__init__(home)
        self.clock: Clock = clock if clock is not None else SystemClock()
        self.files: FileSystem = files if files is not None else SystemFiles()

    def exists(self, job_id: str) -> bool:
        """Tell whether the job has a record. Raises StorageError where that cannot be told."""
        return self.record_stamp(job_id) is not None

    def record_stamp(self, job_id: str) -> Stamp | None:
        """Return what differs once the record has changed; None where there is none. Raises StorageError."""
        path = self.record_path(job_id)
        try:
            found = os.stat(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise storage_failure("look for", path, error) from error
        return found.st_ino, found.st_mtime_ns, found.st_size

    def has_jobs(self) -> bool:
        """Tell whether anything was ever written here."""
        return os.path.isdir(self.jobs_path())

    def job_ids(self) -> Iterator[str]:
        """Yield each job id that has a record, in no order; cost grows with them. Raises StorageError."""
        try:
            with os.scandir(self.jobs_path()) as entries:
                for entry in entries:
                    name = entry.name
                    if name.endswith(".json") and not name.startswith("."):
                        yield name.removesuffix(".json")
        except FileNotFoundError:
            return
        except OSError as error:
            raise storage_failure("list", self.jobs_path(), error) from error

    def make_layout(self) -> None:
        """Create the directories, mode 0700; existing ones are left as they are."""
        if os.path.isdir(self._path(_FOLDERS[-1])):
            return
        try:
            make_directories(self.home, files=self.files)
            for name in _FOLDERS[:-1]:
                self.files.make_directory(self._path(name))
            self.files.sync_directory(self.home)
            self.files.sync_directory(os.path.dirname(os.path.abspath(self.home)))
            # Last: it tells the next process that all names are on the disk. Its own need not be, for it
            # holds nothing that cannot be made again.
            self.files.make_directory(self._path(_FOLDERS[-1]))
        except OSError as error:
            raise storage_failure("create", self.home, error) from error

    def flush_names(self) -> None:
        """Return when the records' names are on the disk: a writer may have been killed just before that.

        For whoever acknowledges what he found, not what he wrote. Raises StorageError.
        """
        try:
            self.files.sync_directory(self.jobs_path())
        except OSError as error:
            raise storage_failure("flush", self.jobs_path(), error) from error

    def touch(self, job_id: str, *, announce: bool = True) -> None:
        """Tell the index (pending.py) of a change and, to `announce` it, the registry process.

        Called before and after the change: a reader in between would use up the first mark.
        """
        marker = self.queue_path(TOUCHED, job_id)
        try:
            _create_empty(marker)
        except FileNotFoundError:
            self.make_layout()
            _create_empty(marker)
        except OSError as error:
            raise storage_failure("mark", marker, error) from error
        if announce:
            # The registry process makes the folder: without one there is nobody to tell.
            with contextlib.suppress(OSError):
                _create_empty(self.queue_path(ANNOUNCE, job_id))

    def mark_thread(self, job_id: str) -> None:
        """Tell the coordination store of a change, as `touch` tells the index. Raises StorageError."""
        marker = self.queue_path(THREADS, job_id)
        try:
            try:
                _create_empty(marker)
            except FileNotFoundError:
                self.files.make_directory(self.queue_path(THREADS))
                _create_empty(marker)
        except OSError as error:
            raise storage_failure("mark", marker, error) from error

    def mark_unsent(self, job_id: str) -> None:
        """Note, for whoever sends, that the job's history may hold something; not flushed, only a hint."""
        path = self.sent_path(job_id)
        try:
            if not os.path.isdir(self.outbox_dir()):
                self.files.make_directory(self.outbox_dir())
            descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                os.utime(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            # A hint, like what is noted in it: the job's next event or a start of the machine makes it good.
            _log.warning("cannot mark %s: %s", path, error.strerror)

    def sweep(self, job_id: str) -> None:
        """Remove the temporary file that a crash left of this record; a writer at work is left alone."""
        stale = temporary_name(self.record_path(job_id))
        if not os.path.exists(stale):
            return
        descriptor = file_lock.try_acquire(self.lock_path(job_id))
        if descriptor is None:
            return
        try:
            self.files.unlink(stale)
        except OSError as error:
            raise storage_failure("remove", stale, error) from error
        finally:
            file_lock.release(descriptor)

    def sweep_all(self) -> None:
        """Remove every temporary file that crashes left of records; cost grows with their number."""
        try:
            names = os.listdir(self.jobs_path())
        except FileNotFoundError:
            return
        for name in names:
            if name.startswith(".") and name.endswith(f".json{TEMPORARY}"):
                self.sweep(name[1:].removesuffix(f".json{TEMPORARY}"))

    def _path(self, *parts: str) -> str:
        return os.path.join(self.home, *parts)


def _create_empty(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
