"""Names in certificates."""

import pytest

from jobwire.broker.hardened.handshake import certificate_name


def subject(*names: str) -> dict[str, object]:
    """Return what SSLSocket.getpeercert() says about these common names."""
    return {"subject": tuple((("commonName", name),) for name in names)}


@pytest.mark.parametrize(
    ("certificate", "name"),
    [
        (subject("aaaaaaaa"), "aaaaaaaa"),
        (subject("hermes"), "hermes"),
        (subject(), None),
        (subject("aaaaaaaa", "hermes"), None),
        (subject("aaaaaaaa/events"), None),
        (subject("+"), None),
        (subject("#"), None),
        (subject("%u"), None),
        (subject("aaaaaaaa\0.example"), None),
        (subject("aaaaaaaa\n"), None),
        (subject("ａａａａａａａａ"), None),  # noqa: RUF001 - full-width letters are the trick
        (subject("x" * 65), None),
        ({"subject": ((("organizationName", "aaaaaaaa"),),)}, None),
        ({}, None),
    ],
)
def test_only_one_plain_name_is_an_identity(certificate: dict[str, object], name: str | None) -> None:
    """A subject with no, several or unusual common names identifies nobody."""
    assert certificate_name(certificate) == name
