"""The one durable write: nothing else puts a file of its own into a home directory.

Temporary file in the same directory, write, flush, rename over, flush of the directory (rename(2) and
fsync(2): neither the name nor the bytes are safe before).
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, NamedTuple

from jobwire.storage.failures import storage_failure
from jobwire.storage.files import FILE_MODE, FileSystem, StrPath
from jobwire.storage.lines import cut_torn_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

TEMPORARY = ".tmp"
_CLOSED = -1


def replace_durably(path: StrPath, payload: bytes, *, mode: int = FILE_MODE, files: FileSystem) -> None:
    """Put `payload` at `path` so that a crash leaves either the old or the new bytes, and returns flushed.

    Temporary file in the same directory, write, flush, rename over, flush of the directory; the
    temporary file goes on any failure. Callers hold the lock that makes them the only writer of
    `path`. Raises StorageError.
    """
    change_durably(replace=[(path, payload)], mode=mode, files=files)


def append_durably(path: StrPath, payload: bytes, *, mode: int = FILE_MODE, files: FileSystem) -> None:
    r"""Append whole lines (`payload` ends in \n) to an NDJSON file and return when they are on the disk.

    A torn last line, left by a crash, is cut first; a missing folder is created. A failed write is
    taken back as far as the disk allows. Callers hold the lock that makes them the only writer.
    Raises StorageError.

    A new file's name is flushed before its first line is written: else a writer that was killed in
    between would leave a file to which others append, and which goes with all of it when the power does.
    """
    change_durably(append=[(path, payload)], mode=mode, files=files, name_first=True)


def change_durably(
    *,
    append: Iterable[tuple[StrPath, bytes]] = (),
    before: Iterable[tuple[StrPath, bytes]] = (),
    replace: Iterable[tuple[StrPath, bytes]] = (),
    mode: int = FILE_MODE,
    files: FileSystem,
    name_first: bool = False,
) -> None:
    """Append lines to files and replace others, as `append_durably` and `replace_durably` do each.

    What is appended, and the files of `before`, are on the disk before the first file of `replace` is
    replaced. The names of new files to append to are flushed with those of `before`, or, with
    `name_first`, before anything is written into them. The disk writes all of it at once, and each
    directory is flushed once. On failure the appended lines are taken back unless a file of `replace`
    was replaced already; every file is replaced whole or untouched. Raises StorageError.
    """
    logs: list[_Opened] = []
    first: list[_Staged] = []
    staged: list[_Staged] = []
    current: StrPath = ""
    try:
        for current, payload in append:
            logs.append(_open_log(os.fspath(current), mode, files))
            if name_first:
                _flush_folders(_new_names(logs[-1:]), files)
            files.write(logs[-1].descriptor, payload)
        with files.syncing([item.descriptor for item in logs]):
            for current, payload in before:
                first.append(_stage(os.fspath(current), payload, mode, files))
            for current, payload in replace:
                staged.append(_stage(os.fspath(current), payload, mode, files))
            files.sync_all([item.descriptor for item in first + staged])
        _close_staged(first, files)
        _close_staged(staged, files)
        new_names = [] if name_first else _new_names(logs)
        _put_in_place(first, files, _folders(new_names + [item.path for item in first]))
        _put_in_place(staged, files, _folders([item.path for item in staged]))
    except OSError as error:
        if all(item.temporary for item in staged):
            _take_back(logs, files)
        raise storage_failure("write", current, error) from error
    finally:
        _close_logs(logs, files)
        _discard(first + staged, files)


def _folders(paths: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([os.path.dirname(path) or "." for path in paths]))


def _flush_folders(paths: Iterable[str], files: FileSystem) -> None:
    for folder in _folders(paths):
        files.sync_directory(folder)


def create_durably(
    items: Iterable[tuple[StrPath, bytes]], *, mode: int = FILE_MODE, files: FileSystem
) -> None:
    """Write new files, each whole, and return when they are on the disk; none ever replaces another.

    All are staged and flushed before the first gets its name. Raises FileExistsError, with the path in
    `filename`, where a name is taken: then names before it in `items` may have been given already.
    Raises StorageError where the disk fails.
    """
    staged: list[_Staged] = []
    current: StrPath = ""
    try:
        for current, payload in items:
            staged.append(_stage(os.fspath(current), payload, mode, files))
        files.sync_all([item.descriptor for item in staged])
        for item in staged:
            current = item.path
            # Unlike rename(2), link(2) fails where the name is taken; the temporary name goes below.
            files.link(item.temporary, item.path)
        _flush_folders([item.path for item in staged], files)
    except FileExistsError as error:
        raise FileExistsError(error.errno, error.strerror, os.fspath(current)) from error
    except OSError as error:
        raise storage_failure("write", current, error) from error
    finally:
        _discard(staged, files)


def remove_durably(paths: Iterable[StrPath], *, files: FileSystem) -> None:
    """Remove files, which may be missing, and return when they are gone from the disk.

    Raises StorageError.
    """
    current: StrPath = ""
    removed: list[str] = []
    try:
        for current in paths:
            files.unlink(current)
            removed.append(os.fspath(current))
        for current in _folders(removed):
            files.sync_directory(current)
    except OSError as error:
        raise storage_failure("remove", current, error) from error


def make_directories(path: StrPath, *, files: FileSystem) -> None:
    """Create a directory and its missing parents, mode 0700; existing ones stay as they are.

    Raises OSError.
    """
    parent = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(parent):
        make_directories(parent, files=files)
    files.make_directory(path)


def remove_temporaries(folder: StrPath, *, files: FileSystem) -> None:
    """Remove what crashed writers left; callers hold the lock of all writers in `folder`. Raises OSError."""
    with os.scandir(folder) as entries:
        stale = [entry.path for entry in entries if _is_temporary(entry.name)]
    for path in stale:
        files.unlink(path)


def replace_atomically(
    replace: Iterable[tuple[StrPath, bytes]], *, mode: int = FILE_MODE, files: FileSystem
) -> None:
    """Put each payload at its path in one step but without a flush: for what can be derived again.

    Raises StorageError: then some may be replaced.
    """
    staged: list[_Staged] = []
    current: StrPath = ""
    try:
        for current, payload in replace:
            staged.append(_stage(os.fspath(current), payload, mode, files))
        _close_staged(staged, files)
        _put_in_place(staged, files, folders=())
    except OSError as error:
        raise storage_failure("write", current, error) from error
    finally:
        _discard(staged, files)


class _Staged:
    __slots__ = ("descriptor", "path", "temporary")

    def __init__(self, path: str, temporary: str, descriptor: int) -> None:
        self.path, self.temporary, self.descriptor = path, temporary, descriptor


def temporary_name(path: str) -> str:
    """Return the one name of the temporary file for `path`: the next writer removes a stale one."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}.{name}{TEMPORARY}"


def _is_temporary(name: str) -> bool:
    return name.startswith(".") and name.endswith(TEMPORARY)


def _stage(path: str, payload: bytes, mode: int, files: FileSystem) -> _Staged:
    temporary = temporary_name(path)
    try:
        descriptor = files.create(temporary, mode)
    except FileExistsError:
        files.unlink(temporary)
        descriptor = files.create(temporary, mode)
    try:
        files.write(descriptor, payload)
    except OSError:
        _discard([_Staged(path, temporary, descriptor)], files)
        raise
    return _Staged(path, temporary, descriptor)


def _put_in_place(staged: Sequence[_Staged], files: FileSystem, folders: Sequence[str]) -> None:
    if not staged and not folders:
        return
    whole = False
    try:
        files.rename_all([(item.temporary, item.path) for item in staged], folders)
        whole = True
    finally:
        for item in staged:
            if whole or not os.path.lexists(item.temporary):
                item.temporary = ""


def _close_staged(staged: Sequence[_Staged], files: FileSystem) -> None:
    """Close early: of hundreds of files that are changed at once, each would hold a descriptor."""
    for item in staged:
        files.close(item.descriptor)
        item.descriptor = _CLOSED


def _discard(staged: Sequence[_Staged], files: FileSystem) -> None:
    for item in staged:
        # Already failing, or done: a second error would hide the first.
        with contextlib.suppress(OSError):
            if item.descriptor != _CLOSED:
                files.close(item.descriptor)
        if item.temporary:
            with contextlib.suppress(OSError):
                files.unlink(item.temporary)


class _Opened(NamedTuple):
    path: str
    descriptor: int
    length: int
    new_folder: bool


def _open_log(path: str, mode: int, files: FileSystem) -> _Opened:
    new_folder = False
    try:
        descriptor = files.open_append(path, mode)
    except FileNotFoundError:
        new_folder = True
        files.make_directory(os.path.dirname(path))
        descriptor = files.open_append(path, mode)
    try:
        return _Opened(path, descriptor, cut_torn_line(descriptor, files=files), new_folder)
    except BaseException:
        files.close(descriptor)
        raise


def _new_names(logs: Sequence[_Opened]) -> list[str]:
    """Return the paths that may be new, whose names must be on the disk as well."""
    # An empty one may be what a crash left before that.
    new = [item for item in logs if not item.length]
    return [item.path for item in new] + [os.path.dirname(item.path) for item in new if item.new_folder]


def _take_back(logs: Sequence[_Opened], files: FileSystem) -> None:
    for item in logs:
        with contextlib.suppress(OSError):
            files.truncate(item.descriptor, item.length)


def _close_logs(logs: Sequence[_Opened], files: FileSystem) -> None:
    for item in logs:
        with contextlib.suppress(OSError):
            files.close(item.descriptor)
