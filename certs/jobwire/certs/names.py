"""Names that may stand in a certificate: clients, servers, and what the authority may certify."""

import re
from collections.abc import Callable, Iterable, Sequence
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import NamedTuple, TypeVar

from jobwire.core.errors import InvalidInputError
from jobwire.core.topics import check_identity

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
_T = TypeVar("_T")

_LOOKS_LIKE_JOB = re.compile(r"[0-9A-Fa-f]{8}")
_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_MAX_DNS_NAME = 253
# What the commands call the authority's own parts.
_RESERVED = {"server", "ca"}
# Always permitted: the health check and the operator on the broker's own host.
_LOOPBACK = ("localhost", "127.0.0.0/8", "::1/128")


class ServerNames(NamedTuple):
    """Server names sorted by what they are."""

    dns: tuple[str, ...]
    addresses: tuple[Address, ...]


class Permitted(NamedTuple):
    """Name constraints of the authority: DNS subtrees and address ranges."""

    dns: tuple[str, ...]
    networks: tuple[Network, ...]

    def refuses(self, names: ServerNames) -> list[str]:
        """Return those of `names` that the constraints do not permit."""
        dns = [name for name in names.dns if not any(_within(name, tree) for tree in self.dns)]
        addresses = [
            str(address) for address in names.addresses if not any(address in net for net in self.networks)
        ]
        return dns + addresses


def check_name(name: str) -> str:
    """Return `name` if a user, role or further server may have it; InvalidInputError otherwise.

    Eight hex characters are refused in either case: they are the identity of a job's certificate.
    """
    check_identity(name)
    if name.lower() in _RESERVED:
        raise InvalidInputError(
            f"the name {name!r} is taken by the authority itself",
            hint="the server certificate is renewed with: jobwire certs renew server",
            name=name,
        )
    if _LOOKS_LIKE_JOB.fullmatch(name):
        raise InvalidInputError(
            f"{name!r} looks like a job id; a user, role or server cannot have such a name",
            hint="for a job's certificate use: jobwire certs issue-job JOB",
            name=name,
        )
    return name


def parse_server_names(names: Iterable[str]) -> ServerNames:
    """Sort `names` into DNS names and addresses, without repetitions; InvalidInputError if one is neither."""
    if isinstance(names, str):  # one name where a list belongs would become its letters
        names = [names]
    dns, addresses = _sorted(names, ip_address)
    if not dns and not addresses:
        raise InvalidInputError(
            "a server certificate needs a name", hint="for example --server-name localhost"
        )
    return ServerNames(dns, addresses)


def holds_for(certified: Iterable[str], host: str) -> bool:
    """Tell whether clients take a certificate with the names `certified` for that of `host`.

    Addresses have to be equal, and `*.` stands for one label (RFC 9525 section 6.3).
    """
    address, name = parse_address(host), host.lower()
    tree = name.partition(".")[2]
    for item in certified:
        if address is None and item.lower() in {name, f"*.{tree}"}:
            return True
        if address is not None and parse_address(item) == address:
            return True
    return False


def parse_address(text: str) -> Address | None:
    """Return the address that `text` is, None for a name."""
    try:
        return ip_address(text)
    except ValueError:
        return None


def parse_permitted(names: ServerNames, permit: Sequence[str]) -> Permitted:
    """Return constraints that allow loopback, `names`, and the subtrees and CIDR ranges in `permit`."""
    allowed = _subtrees((*_LOOPBACK, *permit))
    missing = [name.removeprefix("*.") for name in allowed.refuses(names)]
    own = _subtrees(missing)
    return Permitted((*allowed.dns, *own.dns), (*allowed.networks, *own.networks))


def _subtrees(items: Iterable[str]) -> Permitted:
    return Permitted(*_sorted((item.removeprefix(".") for item in items), ip_network))


def _sorted(items: Iterable[str], parse: Callable[[str], _T]) -> tuple[tuple[str, ...], tuple[_T, ...]]:
    dns: dict[str, None] = {}
    parsed: dict[_T, None] = {}
    for item in items:
        try:
            parsed[parse(item)] = None
        except ValueError:
            dns[_dns_name(item)] = None
    return tuple(dns), tuple(parsed)


def _dns_name(name: str) -> str:
    labels = name.removeprefix("*.").split(".")
    # A last label of digits is a mistyped address, never a host name (RFC 1123 section 2.1).
    usable = all(_LABEL.fullmatch(label) for label in labels) and not labels[-1].isdigit()
    if not usable or len(name) > _MAX_DNS_NAME:
        raise InvalidInputError(
            f"not a host name or address: {name!r}",
            hint="use a DNS name in ASCII (xn--... for others) or an IPv4 or IPv6 address",
            name=name,
        )
    return name.lower()


def _within(name: str, tree: str) -> bool:
    host = name.removeprefix("*.")
    return host == tree or host.endswith("." + tree)
