"""One writer a folder."""

from pathlib import Path

import pytest

from jobwire.core.errors import ConflictError, NotFoundError
from jobwire.storage.folder_lock import DEADLINE_SECONDS, locked_folder
from jobwire.testing import ManualClock


def test_second_holder_is_told(tmp_path: Path) -> None:
    """A second holder waits for its deadline and then says which folder is busy."""
    clock = ManualClock()
    first, second = locked_folder(tmp_path, clock=clock), locked_folder(tmp_path, clock=clock)
    with first, pytest.raises(ConflictError) as caught, second:
        pass
    assert caught.value.facts["path"] == str(tmp_path)
    assert sum(clock.slept) >= DEADLINE_SECONDS
    with locked_folder(tmp_path, clock=clock):
        pass


def test_missing_folder(tmp_path: Path) -> None:
    """There is nothing to lock where there is no folder."""
    with pytest.raises(NotFoundError), locked_folder(tmp_path / "none", clock=ManualClock()):
        pass
