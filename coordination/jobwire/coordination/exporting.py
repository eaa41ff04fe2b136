"""Exports: one process of a home at a time, and a new folder is there whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
from hashlib import sha256
from typing import TYPE_CHECKING

from jobwire.core.errors import ConflictError
from jobwire.storage import file_lock
from jobwire.storage.durable import make_directories
from jobwire.storage.files import SystemFiles

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def exporting(home: str) -> Iterator[None]:
    """Be the one who exports during the block. Raises ConflictError (locked)."""
    make_directories(f"{home}/locks", files=SystemFiles())
    lock = file_lock.try_acquire(f"{home}/locks/export.lock")
    if lock is None:
        raise ConflictError("another process exports now", hint="try again when it has ended", code="locked")
    try:
        yield
    finally:
        file_lock.release(lock)


@contextlib.contextmanager
def exported_folder(home: str, folder: str) -> Iterator[str]:
    """Give the folder to write into: a new one beside `folder`, which gets its name at the end of the block.

    One that is there already stays itself, because others look into it: its files are replaced one by one,
    each whole. Raises as `exporting`; ConflictError (not_expected) where somebody else made it meanwhile.
    """
    with exporting(home):
        if os.path.lexists(folder):
            yield folder
            return
        files, parent = SystemFiles(), os.path.dirname(folder)
        make_directories(parent, files=files)
        # One name for each home and folder: what a killed export left is found by the next one.
        beside = f"{parent}/.jobwire-{sha256(f'{home} {folder}'.encode()).hexdigest()[:16]}.part"
        shutil.rmtree(beside, ignore_errors=True)
        try:
            files.make_directory(beside)
            yield beside
            files.sync_directory(beside)
            _give_name(beside, folder)
            files.sync_directory(parent)
        finally:
            shutil.rmtree(beside, ignore_errors=True)


def _give_name(beside: str, folder: str) -> None:
    try:
        # Replaces an empty folder, and nothing else (rename(2)).
        os.rename(beside, folder)
    except OSError as error:
        if not os.path.lexists(folder):
            raise
        raise ConflictError(
            f"somebody else made {folder} meanwhile", hint="export into it again", code="not_expected"
        ) from error
