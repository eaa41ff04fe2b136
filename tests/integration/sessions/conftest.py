"""A home with sessions on a tmux server of their own."""

from pathlib import Path

import pytest

from jobwire.testing import new_home
from jobwire.testing.session_house import SessionHouse, settle


@pytest.fixture
def house(tmp_path: Path, tmux_server: str, monkeypatch: pytest.MonkeyPatch) -> SessionHouse:
    """Give a home, and a tmux server that is not there yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(settle(tmp_path, "echo | line | | bye |")))
    monkeypatch.delenv("TMUX", raising=False)
    return SessionHouse(new_home(tmp_path / "home"), tmux_server, tmp_path)
