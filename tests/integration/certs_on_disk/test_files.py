"""Durable, private, never clobbering writes."""

import errno
import os
from pathlib import Path

import pytest

from jobwire.certs import files
from jobwire.core.errors import ConfigError, ConflictError, NotFoundError, StorageError
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
        files.write_file(tmp_path / "a.key", b"secret", overwrite=False)
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


def test_nothing_is_overwritten_unasked(tmp_path: Path) -> None:
    """If one of several files exists, none is written."""
    (tmp_path / "b").write_bytes(b"old")
    with pytest.raises(ConflictError):
        files.write_files({tmp_path / "a": b"new", tmp_path / "b": b"new"}, overwrite=False)
    assert [path.name for path in tmp_path.iterdir()] == ["b"]
    assert (tmp_path / "b").read_bytes() == b"old"


def test_a_file_that_appears_meanwhile_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last word is the file system's, not an earlier look."""
    target = tmp_path / "a"
    real_fsync = os.fdatasync

    def intrude(descriptor: int) -> None:
        target.write_bytes(b"theirs")
        real_fsync(descriptor)

    monkeypatch.setattr(os, "fdatasync", intrude)
    with pytest.raises(ConflictError):
        files.write_file(target, b"ours", overwrite=False)
    assert target.read_bytes() == b"theirs"


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
        files.write_file(target, b"new", overwrite=True)
    assert caught.value.facts["errno"] == code
    assert caught.value.hint
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_append_cuts_a_torn_line(tmp_path: Path) -> None:
    """Half a line of an earlier crash does not spoil the next one."""
    path = tmp_path / "index"
    path.write_bytes(b"one\ntw")
    files.append_line(path, b"two")
    assert path.read_bytes() == b"one\ntwo\n"


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


def test_sweep_removes_only_litter(tmp_path: Path) -> None:
    """Temporary files of a crash go, everything else stays."""
    (tmp_path / ".a.pem.12ab.tmp").touch()
    (tmp_path / "a.pem").touch()
    files.sweep(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["a.pem"]
