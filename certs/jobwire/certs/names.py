"""Names that may stand in a certificate: clients, servers, and what the authority may certify."""

import re
from collections.abc import Callable, Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from cryptography import x509

from jobwire.core.errors import InvalidInputError
from jobwire.core.topics import check_identity

_LOOKS_LIKE_JOB = re.compile(r"[0-9A-Fa-f]{8}")
_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_MAX_DNS_NAME = 253
# What the commands call the authority's own parts.
_RESERVED = {"server", "ca"}
# Always permitted: the health check and the operator on the broker's own host.
_LOOPBACK = ("localhost", "127.0.0.0/8", "::1/128")


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


def parse_server_names(names: Iterable[str]) -> list[x509.GeneralName]:
    """Return DNS names, then addresses, without repetitions; InvalidInputError if one is neither."""
    if isinstance(names, str):  # one name where a list belongs would become its letters
        names = [names]
    found = _parsed(names, _plain_address)
    if not found:
        raise InvalidInputError(
            "a server certificate needs a name", hint="for example --server-name localhost"
        )
    return found


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


def parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """Return the address that `text` is, None for a name."""
    try:
        return ip_address(text)
    except ValueError:
        return None


def parse_permitted(names: Iterable[x509.GeneralName], permit: Sequence[str]) -> list[x509.GeneralName]:
    """Return constraints that allow loopback, `names`, and the subtrees and CIDR ranges in `permit`."""
    allowed = _subtrees((*_LOOPBACK, *permit))
    return allowed + _subtrees(name.removeprefix("*.") for name in refused(names, allowed))


def refused(names: Iterable[x509.GeneralName], permitted: Iterable[x509.GeneralName]) -> list[str]:
    """Return those of `names` that are in none of the `permitted` subtrees and ranges."""
    trees = list(permitted)
    return [str(name.value) for name in names if not any(_within(name, tree) for tree in trees)]


def _within(name: x509.GeneralName, tree: x509.GeneralName) -> bool:
    if isinstance(name, x509.DNSName) and isinstance(tree, x509.DNSName):
        return f".{name.value.removeprefix('*.')}".endswith(f".{tree.value}")
    return (
        isinstance(name, x509.IPAddress)
        and isinstance(tree, x509.IPAddress)
        and isinstance(tree.value, IPv4Network | IPv6Network)
        and name.value in tree.value
    )


def _subtrees(items: Iterable[str]) -> list[x509.GeneralName]:
    return _parsed((item.removeprefix(".") for item in items), ip_network)


def _plain_address(text: str) -> IPv4Address | IPv6Address:
    if "%" in text:  # a scope is of one host only (RFC 4007)
        raise ValueError(text)
    return ip_address(text)


def _parsed(
    items: Iterable[str], parse: Callable[[str], IPv4Address | IPv6Address | IPv4Network | IPv6Network]
) -> list[x509.GeneralName]:
    dns: dict[x509.GeneralName, None] = {}
    parsed: dict[x509.GeneralName, None] = {}
    for item in items:
        try:
            parsed[x509.IPAddress(parse(item))] = None
        except ValueError:
            dns[x509.DNSName(_dns_name(item))] = None
    return [*dns, *parsed]


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
