"""Durable, private writes, one writer at a time."""

import errno
import os
from pathlib import Path

import pytest

from jobwire.certs import files
from jobwire.core.errors import ConfigError, ConflictError, NotFoundError, StorageError
from jobwire.storage.durable import replace_durably
from jobwire.storage.file_lock import DEFAULT_DEADLINE_SECONDS
from jobwire.testing.clock import ManualClock


def test_files_are_private_from_the_first_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even under an open umask a key file never exists with another mode than 0600."""
    opened: list[tuple[int, int]] = []
    real_open = os.open

    def watch(path: Path, flags: int, mode: int = 0o777) -> int:
        opened.append((flags, mode))
        return real_open(path, flags, mode)

    monkeypatch.setattr(os, "open", watch)
    before = os.umask(0)
    try:
        replace_durably(tmp_path / "a.key", b"secret", files=files.FILES)
    finally:
        os.umask(before)
    flags, mode = opened[0]
    assert flags & os.O_EXCL
    assert mode == 0o600
    assert (tmp_path / "a.key").stat().st_mode & 0o777 == 0o600


def test_directories_are_private(tmp_path: Path) -> None:
    """Every folder made on the way is 0700."""
    files.make_directory(tmp_path / "a" / "b")
    assert {(tmp_path / part).stat().st_mode & 0o777 for part in ("a", "a/b")} == {0o700}


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO])
def test_a_failing_disk_leaves_the_old_file_and_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """A full or read-only disk is a StorageError with a remedy, and the old content stays."""
    target = tmp_path / "a"
    target.write_bytes(b"old")

    def fail(descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(StorageError) as caught:
        replace_durably(target, b"new", files=files.FILES)
    assert caught.value.facts["errno"] == code
    assert caught.value.hint
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o666, 0o610])
def test_exposed_key_is_refused_with_the_remedy(tmp_path: Path, mode: int) -> None:
    """A key that anybody else may touch is not used, and the message says what to type."""
    key = tmp_path / "a.key"
    key.write_bytes(b"secret")
    key.chmod(mode)
    with pytest.raises(ConfigError) as caught:
        files.read_file(key, private=True)
    assert caught.value.facts["mode"] == mode
    assert f"chmod 600 {key}" in caught.value.hint


def test_lock_gives_up_with_a_clear_error(tmp_path: Path) -> None:
    """A second holder waits for its deadline and then says which folder is busy."""
    clock = ManualClock()
    first, second = files.locked(tmp_path, clock=clock), files.locked(tmp_path, clock=clock)
    with first, pytest.raises(ConflictError) as caught, second:
        pass
    assert caught.value.facts["path"] == str(tmp_path)
    assert sum(clock.slept) >= DEFAULT_DEADLINE_SECONDS


def test_lock_of_a_missing_folder_names_the_first_command(tmp_path: Path) -> None:
    """Without an authority every command says how to create one."""
    with pytest.raises(NotFoundError) as caught, files.locked(tmp_path / "none", clock=ManualClock()):
        pass
    assert "jobwire certs init" in caught.value.hint
