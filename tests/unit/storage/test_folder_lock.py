"""One writer a folder."""

import os
from pathlib import Path

import pytest

from jobwire.core.errors import NotFoundError
from jobwire.storage.file_lock import DEFAULT_DEADLINE_SECONDS, AlreadyRunningError, locked_folder
from jobwire.testing import ManualClock


def test_second_holder_is_told(tmp_path: Path) -> None:
    """A second holder waits for its deadline and then says which folder is busy, and by whom."""
    clock = ManualClock()
    first, second = locked_folder(tmp_path, clock=clock), locked_folder(tmp_path, clock=clock)
    with first, pytest.raises(AlreadyRunningError) as caught, second:
        pass
    assert caught.value.facts == {"path": str(tmp_path), "pid": os.getpid()}
    assert sum(clock.slept) >= DEFAULT_DEADLINE_SECONDS
    with locked_folder(tmp_path, clock=clock):
        pass


def test_missing_folder(tmp_path: Path) -> None:
    """There is nothing to lock where there is no folder."""
    with pytest.raises(NotFoundError), locked_folder(tmp_path / "none", clock=ManualClock()):
        pass
