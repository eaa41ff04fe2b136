"""A mosquitto.conf, held against a fresh rendering."""

from pathlib import Path

import pytest

from jobwire.broker.check import differences
from jobwire.broker.home import BrokerFiles
from jobwire.broker.mosquitto import Listening, render_configuration

FILES = BrokerFiles(Path("/etc/broker"), Path("/etc/broker/certs"))
HERE = BrokerFiles(Path("out"), Path("out/certs"))
GOOD = render_configuration(FILES, Listening("127.0.0.1", 8883, 8884), user="mosquitto")


def said(text: str, files: BrokerFiles = HERE) -> str:
    """Return all messages about a configuration."""
    return "\n".join(finding.message for finding in differences(text, files))


def test_what_is_rendered_is_well() -> None:
    """A rendered configuration has nothing to complain about, wherever it will be installed."""
    assert said(GOOD) == ""


def test_a_homes_configuration_is_well() -> None:
    """In a home the certificates lie beside the broker's folder."""
    home = BrokerFiles(Path("/home/me/.hermes/broker"), Path("/home/me/.hermes/certs"))
    text = render_configuration(home, Listening("127.0.0.1", 8883, 8884), user="me")
    assert said(text, BrokerFiles(Path(".hermes/broker"), Path(".hermes/certs"))) == ""
    elsewhere = GOOD.replace("cafile /etc/broker", "cafile /x")
    assert "cafile /etc/broker/certs/ca.pem` is missing" in said(elsewhere)


@pytest.mark.parametrize("sign", ["\t", "\xa0", "\u2003"])
def test_only_a_blank_parts_words(sign: str) -> None:
    """For Mosquitto a name with anything else behind it is another name: the line sets nothing."""
    text = GOOD.replace("acl_file ", f"acl_file{sign}", 1)
    assert "`acl_file /etc/broker/acl` is missing" in said(text)
    assert said(GOOD.replace("acl_file ", "  acl_file   ", 1).replace("\n", "\r\n")) == ""
    assert "`# note` is not what render writes" in said(f" # note\n{GOOD}")


def test_the_listeners_may_change_places() -> None:
    """The listener for certificates is known by what it demands, not by its place."""
    head, first, second = GOOD.split("\nlistener ")
    assert said(f"{head}\nlistener {second}\nlistener {first}") == ""


def test_what_an_operator_chooses_is_not_complained_about() -> None:
    """How much is kept and logged, and where the broker listens, is the operator's choice."""
    text = GOOD.replace("max_queued_messages 100000", "max_queued_messages 5").replace(
        "log_type notice\n", ""
    )
    text = text.replace("listener 8883 127.0.0.1", "listener 1234 ::1").replace("user mosquitto", "user me")
    assert said(text + "log_type debug\n") == ""


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("acl_file /etc/broker/acl", "", "`acl_file /etc/broker/acl` is missing"),
        ("acl_file /etc/broker/acl", "acl_file /elsewhere/rights", "`acl_file /elsewhere/rights` is not"),
        (
            "crlfile /etc/broker/certs/crl.pem",
            "",
            "listener 8884 127.0.0.1: `crlfile /etc/broker/certs/crl.pem` is missing",
        ),
        ("tls_version tlsv1.3", "", "listener 8883 127.0.0.1: `tls_version tlsv1.3` is missing"),
        ("allow_anonymous false", "allow_anonymous true", "`allow_anonymous false` is missing"),
        ("require_certificate true", "require_certificate false", "`require_certificate true` is missing"),
        ("user mosquitto", "port 1883", "`port 1883` is not what render writes"),
        ("user mosquitto", "include_dir /etc/mosquitto/conf.d", "`include_dir /etc/mosquitto/conf.d` is not"),
        ("user mosquitto", "plugin /x.so", "`plugin /x.so` is not what render writes"),
        ("user mosquitto", "per_listener_settings true", "`per_listener_settings true` is not"),
        ("user mosquitto", "allow_anonymous true", "`allow_anonymous true` is not what render writes"),
        ("user mosquitto", "listener 1883", "3 listeners, not 2"),
        ("max_connections 2000", "use_username_as_clientid true", "`use_username_as_clientid true` is not"),
    ],
)
def test_a_line_that_harms_is_named(before: str, after: str, message: str) -> None:
    """A line that is missing, or that opens the broker, is named with its listener."""
    assert before in GOOD
    assert message in said(GOOD.replace(before, after, 1))
