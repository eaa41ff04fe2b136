"""A store whose process serves agents on other hosts."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from jobwire.testing.agent_host import AgentHost


@pytest.fixture
def host(tmp_path: Path) -> Iterator[AgentHost]:
    """Give a host that serves."""
    (tmp_path / "home").mkdir()
    one = AgentHost(tmp_path)
    one.start()
    yield one
    one.stop()
