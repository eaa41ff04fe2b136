"""What the fault tests share: a transport that is closed afterwards, and certificates made on the spot."""

import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jobwire.certs.authority import CertificateAuthority
from jobwire.core.settings import BrokerSettings
from jobwire.testing import ManualClock, ScriptedServer
from jobwire.transport import PahoTransport

_DAY = 86400.0

MakeTransport = Callable[..., PahoTransport]


@pytest.fixture
def make_transport() -> Iterator[MakeTransport]:
    """Give a function that makes transports with next to no delay between attempts."""
    made: list[PahoTransport] = []

    def make(settings: BrokerSettings, **options: object) -> PahoTransport:
        arguments: dict[str, object] = {"client_id": "client", "clean_session": True}
        arguments |= {"backoff": lambda _attempt: 0.01} | options
        transport = PahoTransport(settings, **arguments)  # type: ignore[arg-type]  # names are the tests' business
        made.append(transport)
        return transport

    yield make
    for transport in made:
        transport.close()


def plain(server: ScriptedServer, protocol: str = "3.1.1") -> BrokerSettings:
    """Return plaintext settings for a scripted server on loopback."""
    return BrokerSettings(host=server.host, port=server.port, tls=False, protocol=protocol)


@pytest.fixture
def plain_settings() -> Callable[..., BrokerSettings]:
    """Give `plain`."""
    return plain


class Pki:
    """One authority and the server contexts that its certificates give."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # Three days old, so that certificates of its past can be made.
        self.authority = CertificateAuthority(folder / "certs", clock=ManualClock(now=time.time() - 3 * _DAY))
        self.authority.init(["localhost", "127.0.0.1"])
        self.ca_certs = str(folder / "certs" / "ca.pem")

    def server_context(
        self, *names: str, lifetime_days: float = 30, newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
    ) -> ssl.SSLContext:
        """Return a context with a new server certificate, valid from three days ago."""
        issued = self.authority.renew(
            "server", server_names=list(names) or None, lifetime_seconds=lifetime_days * _DAY
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.maximum_version = newest
        context.load_cert_chain(issued.certfile, issued.keyfile)
        return context


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    """Give an authority of this test alone."""
    return Pki(tmp_path)
