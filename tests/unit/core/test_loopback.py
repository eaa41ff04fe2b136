"""Which hosts are this one."""

import pytest

from jobwire.core.settings import is_loopback


@pytest.mark.parametrize("host", ["localhost", "::1", "127.0.0.1", "127.1.2.3"])
def test_this_host(host: str) -> None:
    """Traffic to a loopback name or address stays here."""
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["127.example.org", "127.0.0.1.example.org", "127.", "", "10.127.0.1"])
def test_other_hosts(host: str) -> None:
    """A name that only begins like a loopback address is somebody's, and needs TLS."""
    assert not is_loopback(host)
