"""The error map, where no server can be made to produce the failure."""

import errno
import socket
import ssl

import pytest

from jobwire.core.errors import RefusedError, TransportError, UnreachableError
from jobwire.core.settings import BrokerSettings
from jobwire.transport import failures

_SETTINGS = BrokerSettings(host="broker", username="hermes")


def ssl_error(reason: str) -> ssl.SSLError:
    """Return an error as the handshake raises it."""
    error = ssl.SSLError(1, reason)
    error.reason = reason
    return error


def unverified(code: int) -> ssl.SSLCertVerificationError:
    """Return a verification error with an OpenSSL code."""
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code = code
    return error


@pytest.mark.parametrize(
    ("error", "kind", "cause"),
    [
        (socket.gaierror(socket.EAI_AGAIN, "try again"), UnreachableError, "dns"),
        (TimeoutError("timed out"), UnreachableError, "timeout"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), UnreachableError, "connection_refused"),
        (ConnectionResetError(errno.ECONNRESET, "reset"), UnreachableError, "closed"),
        (OSError(errno.ENETUNREACH, "Network is unreachable"), UnreachableError, "network"),
        (OSError(errno.EMFILE, "Too many open files"), UnreachableError, "network"),
        (ssl.SSLEOFError(8, "EOF"), UnreachableError, "closed"),
        (ssl_error("TLSV1_ALERT_PROTOCOL_VERSION"), RefusedError, "tls_version"),
        (ssl_error("UNSUPPORTED_PROTOCOL"), RefusedError, "tls_version"),
        (ssl_error("WRONG_VERSION_NUMBER"), RefusedError, "not_tls"),
        (ssl_error("SSLV3_ALERT_HANDSHAKE_FAILURE"), RefusedError, "tls"),
        (unverified(9), RefusedError, "certificate_not_yet_valid"),
        (unverified(10), RefusedError, "certificate_expired"),
        (unverified(18), RefusedError, "wrong_ca"),
        (unverified(23), RefusedError, "certificate_revoked"),
        (unverified(64), RefusedError, "wrong_host_name"),
    ],
)
def test_opening_failures(error: OSError, kind: type[TransportError], cause: str) -> None:
    """Each failure to open has its class, its cause, the address and a remedy."""
    mapped = failures.opening_failed(error, _SETTINGS)
    assert type(mapped) is kind
    assert mapped.facts["cause"] == cause
    assert mapped.facts["address"] == "broker:8883"
    assert mapped.hint


def test_a_tls_alert_before_connack_is_about_our_certificate() -> None:
    """An alert after the handshake is the server's verdict on our certificate, or on having none."""
    mapped = failures.lost_before_connack(_SETTINGS, ssl_error("TLSV13_ALERT_CERTIFICATE_REQUIRED"))
    assert isinstance(mapped, RefusedError)
    assert "certs issue" in mapped.hint


def test_a_close_before_connack_depends_on_what_we_showed() -> None:
    """With a certificate a silent close is a refusal; without, it may pass."""
    shown = _SETTINGS._replace(certfile="c.pem", keyfile="c.key")
    assert isinstance(failures.lost_before_connack(shown, None), RefusedError)
    assert isinstance(failures.lost_before_connack(_SETTINGS, None), UnreachableError)


def test_the_other_version_is_the_remedy() -> None:
    """A broker of the other MQTT version is answered with the setting that fits."""
    assert "MQTT_PROTOCOL=3.1.1" in failures.wrong_version(_SETTINGS).hint
    assert "MQTT_PROTOCOL=5" in failures.wrong_version(_SETTINGS._replace(protocol="3.1.1")).hint
