"""Where clients reach a broker that listens on an address."""

import pytest

from jobwire.broker.address import client_address, reaches


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.2", "127.0.0.2"),
        ("localhost", "127.0.0.1"),
        ("::1", "::1"),
        ("10.0.0.5", "10.0.0.5"),
        ("mqtt.example.org", "mqtt.example.org"),
        ("0.0.0.0", "127.0.0.1"),  # noqa: S104 - a value
        ("::", "::1"),
        ("0:0:0:0:0:0:0:0", "::1"),
    ],
)
def test_clients_here_connect_to(host: str, address: str) -> None:
    """A wildcard is reached on loopback in its own family, every other address as it stands."""
    assert client_address(host) == address
    assert reaches(address, host)


@pytest.mark.parametrize(
    ("named", "host", "fits"),
    [
        ("127.0.0.1", "10.0.0.5", False),
        ("localhost", "10.0.0.5", False),
        ("10.0.0.5", "127.0.0.1", False),
        ("127.0.0.1", "127.0.0.2", False),
        ("localhost", "::1", True),
        ("localhost", "0.0.0.0", True),  # noqa: S104 - a value
        ("10.0.0.5", "0.0.0.0", True),  # noqa: S104 - a value
        ("::1", "0.0.0.0", False),  # noqa: S104 - a value
        ("127.0.0.1", "::", False),
        ("127.0.0.1", "localhost", True),
        ("10.0.0.5", "localhost", False),
        ("localhost", "localhost", True),
        ("0:0::1", "::1", True),
        ("mqtt.example.org", "10.0.0.5", True),
        ("10.0.0.5", "mqtt.example.org", True),
    ],
)
def test_settings_fit_the_address(named: str, host: str, *, fits: bool) -> None:
    """Only what is surely elsewhere is called so: what a name stands for is known to DNS alone."""
    assert reaches(named, host) is fits
