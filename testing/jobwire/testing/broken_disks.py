"""Doubles of the file system port: stop at any call, or lose what was not flushed.

`StoppingFiles` counts the calls and acts before the one it was told: raise, or kill the process.
`PowerCutFiles` knows which bytes and names a disk would hold if the power went now, and writes that
state into another directory. Both work on real files, because reading does not go through the port.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from jobwire.core.override import override
from jobwire.storage.files import FileSystem, StrPath, SystemFiles


class Crash(BaseException):
    """Stands for the death of the process: no handler of Exception sees it."""


class StoppingFiles(FileSystem):
    """Passes calls on and records them; before call number `stop_at` (from 0) it calls `act`.

    `torn` writes the first half of the data when the stopped call is a write.
    """

    def __init__(
        self,
        *,
        stop_at: int | None = None,
        act: Callable[[], None] | None = None,
        torn: bool = False,
        inner: FileSystem | None = None,
    ) -> None:
        self.calls: list[str] = []
        self._stop_at = stop_at
        self._act = act if act is not None else _crash
        self._torn = torn
        self._inner: FileSystem = inner if inner is not None else SystemFiles()
        self._names: dict[int, StrPath] = {}
        self._dead = False

    @override
    def make_directory(self, path: StrPath) -> None:
        """Pass on."""
        self._count("make_directory", path)
        self._inner.make_directory(path)

    @override
    def create(self, path: StrPath, mode: int) -> int:
        """Pass on."""
        self._count("create", path)
        return self._named(self._inner.create(path, mode), path)

    @override
    def open(self, path: StrPath) -> int:
        """Pass on, uncounted: it changes nothing."""
        return self._named(self._inner.open(path), path)

    @override
    def open_append(self, path: StrPath, mode: int) -> int:
        """Pass on."""
        self._count("open_append", path)
        return self._named(self._inner.open_append(path, mode), path)

    @override
    def write(self, descriptor: int, data: bytes) -> None:
        """Pass on, or tear."""
        if not self._dead and self._torn and len(self.calls) == self._stop_at:
            self._inner.write(descriptor, data[: len(data) // 2])
        self._count("write", self._names[descriptor])
        self._inner.write(descriptor, data)

    @override
    def write_at(self, descriptor: int, data: bytes, position: int) -> None:
        """Pass on, or tear."""
        if not self._dead and self._torn and len(self.calls) == self._stop_at:
            self._inner.write_at(descriptor, data[: len(data) // 2], position)
        self._count("write", self._names[descriptor])
        self._inner.write_at(descriptor, data, position)

    @override
    def sync_all(self, descriptors: Sequence[int]) -> None:
        """Pass on one by one, each a call."""
        for descriptor in descriptors:
            self._count("sync", self._names[descriptor])
            self._inner.sync_all([descriptor])

    @override
    def truncate(self, descriptor: int, length: int) -> None:
        """Pass on."""
        self._count("truncate", self._names[descriptor])
        self._inner.truncate(descriptor, length)

    @override
    def close(self, descriptor: int) -> None:
        """Pass on, uncounted: a kill closes as well."""
        self._inner.close(descriptor)

    @override
    def rename(self, source: StrPath, target: StrPath) -> None:
        """Pass on."""
        self._count("rename", target)
        self._inner.rename(source, target)

    @override
    def link(self, source: StrPath, target: StrPath) -> None:
        """Pass on."""
        self._count("link", target)
        self._inner.link(source, target)

    @override
    def unlink(self, path: StrPath) -> None:
        """Pass on."""
        self._count("unlink", path)
        self._inner.unlink(path)

    @override
    def sync_directory(self, path: StrPath) -> None:
        """Pass on."""
        self._count("sync_directory", path)
        self._inner.sync_directory(path)

    def _count(self, call: str, path: StrPath) -> None:
        if self._dead:
            raise Crash  # the clean-up of a dead process does not run either
        number = len(self.calls)
        self.calls.append(f"{call} {Path(path).name}")
        if number == self._stop_at:
            try:
                self._act()
            except Crash:
                self._dead = True
                raise

    def _named(self, descriptor: int, path: StrPath) -> int:
        self._names[descriptor] = path
        return descriptor


def _crash() -> None:
    raise Crash


class PowerCutFiles(SystemFiles):
    """The system's files, with the pessimistic memory of a disk: only what was flushed is there.

    A file's bytes are those of its last `sync_all`, a directory's names those of its last
    `sync_directory`; a directory itself is there once its parent was flushed.
    """

    def __init__(self) -> None:
        super().__init__()
        self._bytes: dict[int, bytes] = {}
        self._names: dict[str, dict[str, int | None]] = {}

    @override
    def sync_all(self, descriptors: Sequence[int]) -> None:
        """Flush, and remember the bytes."""
        super().sync_all(descriptors)
        for descriptor in descriptors:
            status = os.fstat(descriptor)
            self._bytes[status.st_ino] = Path(f"/proc/self/fd/{descriptor}").read_bytes()

    @override
    def sync_directory(self, path: StrPath) -> None:
        """Flush, and remember the names."""
        super().sync_directory(path)
        names: dict[str, int | None] = {}
        with os.scandir(path) as entries:
            for entry in entries:
                names[entry.name] = None if entry.is_dir() else entry.inode()
        self._names[str(Path(path).resolve())] = names

    def materialise(self, source: Path, target: Path) -> None:
        """Write into `target` what a disk would hold of `source` after a power cut."""
        target.mkdir(mode=0o700, exist_ok=True)
        for name, inode in self._names.get(str(source.resolve()), {}).items():
            if inode is None:
                self.materialise(source / name, target / name)
            elif inode in self._bytes:
                (target / name).write_bytes(self._bytes[inode])
            else:
                (target / name).write_bytes(b"")
