"""A file system that dies at a chosen call, and loses what was not synced if the power goes too."""

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from jobwire.core.override import override
from jobwire.storage.files import StrPath, SystemFiles
from jobwire.testing.memory import memory_directory


class CrashError(BaseException):
    """The process is dead: no handler may catch this by accident."""


class DyingFiles(SystemFiles):
    """Counts calls and dies at call number `dies_at` (from 1): before it, or halfway through a write.

    Afterwards nothing reaches the disk any more. `power_cut` puts the directory back to what was
    synced: contents at their last sync, names at their directory's last sync.
    """

    def __init__(self, *, dies_at: int = 0, torn: bool = False) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.dead = False
        self._dies_at = dies_at
        self._torn = torn
        self._contents: dict[int, bytes] = {}
        self._changed: set[int] = set()
        self._names: dict[Path, dict[str, int]] = {}

    def _step(self, name: str) -> bool:
        """Return whether the call is to be made; raise at the fatal one."""
        if self.dead:
            return False
        self.calls.append(name)
        if len(self.calls) == self._dies_at:
            self.dead = True
            raise CrashError(name)
        return True

    @override
    def make_directory(self, path: StrPath) -> None:
        """Create, or die."""
        if self._step("make_directory"):
            super().make_directory(path)
            self._names.setdefault(Path(path), {})

    @override
    def create(self, path: StrPath, mode: int) -> int:
        """Create, or die."""
        if not self._step("create"):
            return os.open(os.devnull, os.O_RDWR)
        descriptor = super().create(path, mode)
        self._changed.add(os.fstat(descriptor).st_ino)
        return descriptor

    @override
    def open(self, path: StrPath) -> int:
        """Open; it changes nothing."""
        return super().open(path) if not self.dead else os.open(os.devnull, os.O_RDWR)

    @override
    def write(self, descriptor: int, data: bytes) -> None:
        """Write at the file's end: every file here is written from its start."""
        self.write_at(descriptor, data, os.fstat(descriptor).st_size)

    @override
    def write_at(self, descriptor: int, data: bytes, position: int) -> None:
        """Write, or die; with `torn` half of it is written first."""
        self._changed.add(os.fstat(descriptor).st_ino)
        try:
            alive = self._step("write")
        except CrashError:
            if self._torn:
                super().write_at(descriptor, data[: len(data) // 2], position)
            raise
        if alive:
            super().write_at(descriptor, data, position)

    @override
    def sync_all(self, descriptors: Sequence[int]) -> None:
        """Sync and remember the contents, or die."""
        for descriptor in descriptors:
            if self._step("sync"):
                super().sync_all([descriptor])
                status = os.fstat(descriptor)
                self._contents[status.st_ino] = os.pread(descriptor, status.st_size, 0)

    @override
    def truncate(self, descriptor: int, length: int) -> None:
        """Truncate, or die."""
        self._changed.add(os.fstat(descriptor).st_ino)
        if self._step("truncate"):
            super().truncate(descriptor, length)

    @override
    def rename(self, source: StrPath, target: StrPath) -> None:
        """Rename, or die."""
        if self._step("rename"):
            super().rename(source, target)

    @override
    def unlink(self, path: StrPath) -> None:
        """Unlink, or die."""
        if self._step("unlink"):
            super().unlink(path)

    @override
    def sync_directory(self, path: StrPath) -> None:
        """Sync and remember the names, or die."""
        if self._step("sync_directory"):
            super().sync_directory(path)
            found = {p.name: p.stat().st_ino for p in Path(path).iterdir() if p.is_file()}
            self._names[Path(path)] = found
            for name, number in found.items():
                if number not in self._changed:  # it was there before, whole and on the disk
                    self._contents[number] = (Path(path) / name).read_bytes()

    def power_cut(self) -> None:
        """Take back everything that was never synced."""
        for folder, names in self._names.items():
            for path in folder.iterdir():
                if path.is_file():
                    path.unlink()
            for name, number in names.items():
                if number in self._contents:
                    (folder / name).write_bytes(self._contents[number])


@pytest.fixture
def memory_path() -> Iterator[Path]:
    """Give a directory in memory where there is one: thousands of fsyncs belong on no disk."""
    with tempfile.TemporaryDirectory(dir=memory_directory(), prefix="jobwire-test-") as name:
        yield Path(name)


@pytest.fixture
def dying_files() -> Callable[..., DyingFiles]:
    """Give the class; test modules cannot import a conftest."""
    return DyingFiles


@pytest.fixture
def crash() -> type[BaseException]:
    """Give what a death raises."""
    return CrashError
