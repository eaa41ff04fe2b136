"""Names in certificates."""

import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from jobwire.certs.names import check_name, holds_for, parse_permitted, parse_server_names, refused
from jobwire.core.errors import InvalidInputError


@pytest.mark.parametrize("name", ["hermes", "claude-worker", "a", "dead-bee", "deadbeef0", "x" * 64])
def test_usable_client_names(name: str) -> None:
    """Users and roles may be called what topics and files can carry."""
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["deadbeef", "DEADBEEF", "00000000", "12aB34cD"])
def test_name_like_a_job_is_refused(name: str) -> None:
    """No user or role can have the identity of a job."""
    with pytest.raises(InvalidInputError) as caught:
        check_name(name)
    assert "issue-job" in caught.value.hint


@pytest.mark.parametrize(
    "name",
    ["", "a/b", "a+b", "#", "%u", "a b", "a\n", "a\x00", "é", "x" * 65, "..", "a.b", "CN=x", "server", "CA"],
)
def test_unusable_client_name_is_refused(name: str) -> None:
    """Wildcards, separators, control characters and the authority's own words become no identity."""
    with pytest.raises(InvalidInputError):
        check_name(name)


def test_server_names_are_sorted_by_what_they_are() -> None:
    """Addresses and DNS names go to their own kinds of SAN, once each."""
    names = parse_server_names(["Localhost", "127.0.0.1", "::1", "localhost", "*.example.org"])
    assert [str(name.value) for name in names] == ["localhost", "*.example.org", "127.0.0.1", "::1"]
    assert [type(name) for name in names] == [x509.DNSName] * 2 + [x509.IPAddress] * 2


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a b",
        "300.1.2.3",
        "-a.org",
        "a..b",
        "a/b",
        "x\n",
        "bücher.de",
        "a" * 64,
        "*",
        "a.*.b",
        "fe80::1%eth0",
    ],
)
def test_unusable_server_name_is_refused(name: str) -> None:
    """A mistyped host name stops before a certificate is made for it."""
    with pytest.raises(InvalidInputError):
        parse_server_names([name])


def test_no_server_name_is_refused() -> None:
    """A server certificate without names would match no host."""
    with pytest.raises(InvalidInputError):
        parse_server_names([])


@pytest.mark.parametrize(
    ("host", "held"),
    [
        ("Localhost", True),
        ("::1", True),
        ("0:0:0:0:0:0:0:1", True),
        ("a.example.org", True),
        ("a.b.example.org", False),
        ("example.org", False),
        ("127.0.0.1", False),
        ("org", False),
    ],
)
def test_a_certificate_holds_for_its_names(host: str, *, held: bool) -> None:
    """Addresses are compared as addresses, and a wildcard stands for one label."""
    assert holds_for(["localhost", "::1", "*.example.org"], host) is held
    assert not holds_for([], host)


def test_constraints_allow_loopback_the_names_and_what_was_permitted() -> None:
    """The authority is confined, but never locked out of its own host."""
    permitted = parse_permitted(
        parse_server_names(["broker.example.org", "10.0.0.5"]), ["lan", "10.1.0.0/16"]
    )
    inside = [
        "localhost",
        "127.0.0.9",
        "::1",
        "broker.example.org",
        "a.broker.example.org",
        "h.lan",
        "10.1.2.3",
    ]
    outside = ["example.org", "xlan", "10.0.0.6", "evil.org"]
    assert refused(parse_server_names(inside), permitted) == []
    assert refused(parse_server_names(outside), permitted) == ["example.org", "xlan", "evil.org", "10.0.0.6"]


@given(st.text(max_size=70))
def test_any_text_is_a_name_or_refused(text: str) -> None:
    """Arbitrary text gives a name or InvalidInputError, nothing else."""
    for parse in (check_name, lambda item: parse_server_names([item])):
        try:
            parse(text)
        except InvalidInputError:
            continue
