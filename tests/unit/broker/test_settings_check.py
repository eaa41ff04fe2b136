"""What mosquitto.conf must say."""

from pathlib import Path

import pytest

from jobwire.broker.configuration import Files, Listening, render_configuration
from jobwire.broker.settings_check import examine_settings, read_configuration

FILES = Files.of_deployment(Path("/etc/broker"))
GOOD = render_configuration(FILES, Listening("127.0.0.1", 8883, 8884), user="mosquitto")


def said(text: str) -> str:
    """Return all messages about a configuration."""
    return "\n".join(finding.message for finding in examine_settings(text))


def test_what_is_rendered_is_well() -> None:
    """A rendered configuration has its two listeners and nothing to complain about."""
    assert said(GOOD) == ""
    assert read_configuration(GOOD).for_certificates() == [1]


def test_the_listeners_may_change_places() -> None:
    """The listener for certificates is known by what it demands, not by its place."""
    head, first, second = GOOD.split("\nlistener ")
    text = f"{head}\nlistener {second}\nlistener {first}"
    assert read_configuration(text).for_certificates() == [0]
    assert said(text) == ""


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("acl_file /etc/broker/acl", "", "acl_file says nothing"),
        ("acl_file /etc/broker/acl", "acl_file /elsewhere/rights", "not this folder's acl"),
        ("crlfile /etc/broker/certs/crl.pem", "", "listener 8884 127.0.0.1: crlfile says nothing"),
        ("tls_version tlsv1.3", "", "listener 8883 127.0.0.1: tls_version says nothing"),
        ("allow_anonymous false", "allow_anonymous true", "allow_anonymous says true"),
        ("require_certificate true", "require_certificate false", "0 listeners say"),
        ("user mosquitto", "port 1883", "port opens a listener without TLS"),
        ("user mosquitto", "include_dir /etc/mosquitto/conf.d", "settings that are not checked"),
        ("user mosquitto", "plugin /x.so", "decides beside the access list"),
        ("user mosquitto", "per_listener_settings true", "per_listener_settings is on"),
        ("user mosquitto", "allow_anonymous true", "allow_anonymous says false, true"),
        ("max_connections 2000", "use_username_as_clientid true", "for clients with a password"),
    ],
)
def test_a_line_that_harms_is_named(before: str, after: str, message: str) -> None:
    """A line that is missing, or that opens the broker, is named with its listener."""
    assert before in GOOD
    assert message in said(GOOD.replace(before, after, 1))
