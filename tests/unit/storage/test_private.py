"""Secret files that others may read are named."""

from pathlib import Path

import pytest

from jobwire.core.errors import ConfigError
from jobwire.storage.private import exposure, require_private


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o666, 0o610])
def test_exposed(tmp_path: Path, mode: int) -> None:
    """Any right of group or others is refused, with the command that takes it away."""
    path = tmp_path / "key"
    path.touch()
    path.chmod(mode)
    with pytest.raises(ConfigError, match="readable by others") as caught:
        require_private(path)
    assert f"chmod 600 {path}" in caught.value.hint


def test_private_or_absent(tmp_path: Path) -> None:
    """A private file is fine, and an absent one is for its reader to miss."""
    path = tmp_path / "key"
    assert exposure(path) is None
    path.touch(mode=0o600)
    assert exposure(path) is None
