"""A home of the test's own, with the accounts of a real broker."""

from pathlib import Path

import pytest

from jobwire import Home
from jobwire.testing import BrokerProcess


@pytest.fixture
def home(broker: BrokerProcess, tmp_path: Path) -> Home:
    """Give an empty home whose jobs are nobody else's."""
    path = tmp_path / "home"
    Home.make(path).close()
    for name in ("certs", "passwords", "jobwire.toml"):
        (path / name).symlink_to(broker.home / name)
    return Home(path, environ={})
