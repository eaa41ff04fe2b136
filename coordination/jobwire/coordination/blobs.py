"""Bodies and payloads too large for a row: files named by what they hold."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from jobwire.core.errors import NotFoundError, StorageError
from jobwire.storage.failures import storage_failure

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobwire.coordination.store import CoordinationStore, Transaction
    from jobwire.storage.files import FileSystem

FOLDER = "blobs"
_PREFIX = "sha256-"
# A blob is written before the row that refers to it: a young one may be about to get it.
_GRACE_SECONDS = 3600.0


class BlobFolder:
    """The blobs of one home."""

    def __init__(self, home: str) -> None:
        self.folder = f"{home}/{FOLDER}"

    def put(self, content: bytes) -> str:
        """Write the content durably, unless it is there, and return its reference. Raises StorageError."""
        from jobwire.storage.durable import (  # noqa: PLC0415 - most messages are short
            make_directories,
            replace_durably,
        )

        ref = _reference(content)
        path = self.path(ref)
        try:
            # Young again: whoever collects leaves it alone.
            os.utime(path)
        except FileNotFoundError:
            try:
                make_directories(self.folder, files=self._files)
            except OSError as error:
                raise storage_failure("create", self.folder, error) from error
            replace_durably(path, content, files=self._files)
        except OSError as error:
            raise storage_failure("write", path, error) from error
        return ref

    def get(self, ref: str) -> bytes:
        """Return the content; raises NotFoundError (blob_missing), StorageError where it was changed."""
        path = self.path(ref)
        try:
            with open(path, "rb") as file:
                content = file.read()
        except FileNotFoundError as error:
            raise NotFoundError(
                f"the blob {ref} is not there",
                hint="it was removed; a copy of it may be put back",
                code="blob_missing",
            ) from error
        except OSError as error:
            raise storage_failure("read", path, error) from error
        if _reference(content) != ref:
            raise StorageError(
                f"the blob {path} was changed: it no longer holds what its name says",
                hint="put the original back; nothing of it is shown",
                path=path,
                code="storage",
            )
        return content

    def path(self, ref: str) -> str:
        """Return where a blob lies; `ref` was checked by the table that holds it."""
        return f"{self.folder}/{ref}"

    def collect(
        self,
        store: CoordinationStore,
        *,
        older_seconds: float = _GRACE_SECONDS,
        stop: Callable[[], bool] = lambda: False,
    ) -> int:
        """Remove the blobs that no message refers to, and return how many those were; until `stop` says so.

        Holds the store's right to write for each: no sender gives a row to a blob meanwhile, and who comes
        after finds it missing and writes it again. Raises StorageError.
        """
        removed = 0
        try:
            names = [name for name in os.listdir(self.folder) if name.startswith(_PREFIX)]
            for name in names:
                if stop():
                    break
                # Most are in use, and looking at them holds up nobody who writes.
                if self._is_left(store, name, older_seconds):
                    with store.changing() as change:
                        if self._is_left(change, name, older_seconds):
                            self._files.unlink(self.path(name))
                            removed += 1
        except FileNotFoundError:
            return removed
        except OSError as error:
            raise storage_failure("collect", self.folder, error) from error
        return removed

    def _is_left(self, reader: CoordinationStore | Transaction, name: str, older_seconds: float) -> bool:
        try:
            young = time.time() - os.stat(self.path(name)).st_mtime < older_seconds
        except FileNotFoundError:
            return False
        return not young and not reader.rows("blob_used", {"ref": name})

    @property
    def _files(self) -> FileSystem:
        from jobwire.storage.files import SystemFiles  # noqa: PLC0415 - as above

        return SystemFiles()


def _reference(content: bytes) -> str:
    import hashlib  # noqa: PLC0415 - loads OpenSSL

    return _PREFIX + hashlib.sha256(content).hexdigest()
