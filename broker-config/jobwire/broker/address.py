"""Where a broker listens: what clients on this host connect to, and whether its certificate holds there."""

import shlex
import socket
from collections.abc import Sequence
from pathlib import Path

from jobwire.broker.home import BrokerPaths, named_broker
from jobwire.certs.authority import CertificateAuthority
from jobwire.certs.names import holds_for, parse_address, parse_server_names
from jobwire.certs.values import Finding, Level
from jobwire.core.errors import UnreachableError
from jobwire.core.settings import is_loopback

_LOCALHOST = "localhost"
_LOOPBACK = ("127.0.0.1", "::1")


def client_address(host: str) -> str:
    """Return what clients on this host connect to where a broker listens on `host`.

    An address for `localhost`, too: nothing to resolve on the path of a cold publish.
    """
    address = parse_address(host)
    if host == _LOCALHOST:
        return _LOOPBACK[0]
    if address is None or not address.is_unspecified:
        return host
    # Both brokers take `::` for IPv6 alone (IPV6_V6ONLY, RFC 3493 section 5.3).
    return _LOOPBACK[address.version == 6]  # noqa: PLR2004 - IPv6


def reaches(named: str, host: str) -> bool:
    """Tell whether clients that connect to `named` reach a broker on `host`; True where only DNS knows."""
    if _LOCALHOST in {named, host}:
        other = host if named == _LOCALHOST else named
        address = parse_address(other)
        return address is None or any(reaches(item, other) for item in _LOOPBACK)
    wanted, listening = parse_address(named), parse_address(host)
    if wanted is None or listening is None:
        return True
    return wanted == listening or (listening.is_unspecified and wanted.version == listening.version)


def free_port() -> int:
    """Return a TCP port of the loopback interface that is free at this moment."""
    with socket.socket() as probe:
        probe.bind((_LOOPBACK[0], 0))
        return int(probe.getsockname()[1])


def require_own_address(host: str) -> None:
    """Raise InvalidInputError for what no certificate can name, UnreachableError for no address of this host.

    May block on name resolution.
    """
    parse_server_names([host])
    failure: OSError | None = None
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        found, failure = [], error
    for family, _, _, _, (address, *_) in found:
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.bind((address, 0))
                return
        except OSError as error:
            failure = error
    if failure is not None:
        raise UnreachableError(
            f"the broker cannot listen on {host}: {failure.strerror}",
            hint="--host takes an address of this host, as `ip address` shows them",
            host=host,
        ) from failure


def examine_certificate(home: Path, host: str) -> Finding | None:
    """Return what to say if clients refuse the certificate of a broker on `host`, or other hosts would."""
    authority = CertificateAuthority(BrokerPaths(home).certs)
    present = authority.inspect(authority.places.server).names
    named = named_broker(home)
    # A name that only DNS knows may well be this host's: then that is what the certificate has to hold for.
    address = named if named is not None and reaches(named, host) else client_address(host)
    if not holds_for(present, address):
        text = f"the server certificate does not hold for {address}, clients refuse it: it names "
        text += ", ".join(present)
        return Finding(Level.WARNING, "server.pem", text, _naming(home, authority, present, address))
    if client_address(host) != host != _LOCALHOST and all(is_loopback(name) for name in present):
        remedy = _naming(home, authority, present, "NAME")
        text = "the certificate is for clients on this host"
        return Finding(Level.NOTE, "server.pem", text, f"{text}; for others on NAME: {remedy}")
    return None


def _naming(home: Path, authority: CertificateAuthority, present: Sequence[str], name: str) -> str:
    """Return the commands that put `name` into the certificate, which goes on naming what it named."""
    certs = f"jobwire --home {shlex.quote(str(home))} certs"
    names = " ".join(f"--server-name {item}" for item in (*present, name))
    steps = [f"{certs} renew server {names}"]
    if authority.refuses([name]):
        begin = f"{certs} rollover begin --permit {name}"
        steps = [begin, f"{certs} rollover switch", *steps, f"{certs} rollover finish"]
    return f"{' && '.join(steps)}, then start the broker again"
