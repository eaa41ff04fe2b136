"""The way to the broker: name, TCP, TLS version, chain, host name, expiry."""

import socket
import ssl
from collections.abc import Iterator

from jobwire.broker.reports import Report, ill, skipped, warning, well
from jobwire.core.clock import Clock, utc_timestamp
from jobwire.core.exit_codes import ExitCode
from jobwire.core.settings import BrokerSettings

SECONDS = 5.0
_DAY = 86_400.0
_WARN_DAYS = 30.0


def examine_network(settings: BrokerSettings, clock: Clock) -> Iterator[Report]:
    """Yield reports until the first that is ill: what comes after it cannot work either. Blocks."""
    try:
        found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)
    except OSError as error:
        yield ill(
            "name",
            f"{settings.host} cannot be resolved: {error.strerror}",
            "check `broker` in jobwire.toml, MQTT_BROKER and the DNS",
            ExitCode.UNREACHABLE,
        )
        return
    addresses = ", ".join(dict.fromkeys(str(entry[4][0]) for entry in found))
    yield well("name", f"{settings.host} is {addresses}")
    try:
        socket.create_connection((settings.host, settings.port), SECONDS).close()
    except OSError as error:
        yield ill(
            "TCP",
            f"nothing accepts connections on {settings.address}: {error.strerror or error}",
            "start the broker (jobwire broker up) or check port and firewall",
            ExitCode.UNREACHABLE,
        )
        return
    yield well("TCP", f"{settings.address} accepts connections")
    if not settings.tls:
        yield warning("TLS", "switched off: passwords and events travel in the clear", 'set tls = "on"')
        return
    yield from _examine_tls(settings, clock)


def _examine_tls(settings: BrokerSettings, clock: Clock) -> Iterator[Report]:
    try:
        context = ssl.create_default_context(cafile=settings.ca_certs)
    except OSError as error:
        yield ill("TLS", f"the CA file {settings.ca_certs} cannot be used: {error}", "check `ca_certs`")
        return
    # Whether an old version is accepted is examined on its own.
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        with _handshake(settings, context) as connection:
            version, certificate = connection.version(), connection.getpeercert() or {}
    except ssl.SSLCertVerificationError as error:
        yield ill("TLS", _verification(settings, error), _verification_hint(error), ExitCode.REFUSED)
        return
    except OSError as error:
        yield ill(
            "TLS",
            f"no handshake with {settings.address}: {error}",
            "is this the TLS port of the broker?",
            ExitCode.REFUSED,
        )
        return
    if version != "TLSv1.3":
        yield ill("TLS", f"the broker speaks {version} only", "set `tls_version tlsv1.3`", ExitCode.REFUSED)
        return
    yield well("TLS", f"TLS 1.3, chain and host name {settings.host} verified")
    yield _old_version(settings)
    yield from _expiry(certificate, clock)


def _old_version(settings: BrokerSettings) -> Report:
    context = ssl.create_default_context(cafile=settings.ca_certs)
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    try:
        _handshake(settings, context).close()
    except OSError:
        return well("TLS 1.2", "refused, as it should be")
    return warning("TLS 1.2", "the broker accepts it", "set `tls_version tlsv1.3` in mosquitto.conf")


def _expiry(certificate: object, clock: Clock) -> Iterator[Report]:
    dates = certificate if isinstance(certificate, dict) else {}
    if "notAfter" not in dates or "notBefore" not in dates:
        yield skipped("expiry", "the certificate's dates could not be read")
        return
    start, end = (float(ssl.cert_time_to_seconds(dates[name])) for name in ("notBefore", "notAfter"))
    days = (end - clock.now()) / _DAY
    # A short-lived certificate is near its end in its last third, not for all of its life.
    if days < min(_WARN_DAYS, (end - start) / _DAY / 3):
        yield warning(
            "expiry", f"the server certificate ends in {days:.1f} days", "jobwire certs renew server"
        )
    else:
        yield well("expiry", f"the server certificate is valid until {utc_timestamp(end)}")


def _handshake(settings: BrokerSettings, context: ssl.SSLContext) -> ssl.SSLSocket:
    plain = socket.create_connection((settings.host, settings.port), SECONDS)
    try:
        return context.wrap_socket(plain, server_hostname=settings.host)
    except BaseException:
        plain.close()
        raise


def _verification(settings: BrokerSettings, error: ssl.SSLCertVerificationError) -> str:
    return f"the certificate of {settings.address} is not accepted: {error.verify_message}"


def _verification_hint(error: ssl.SSLCertVerificationError) -> str:
    said = error.verify_message.lower()
    if "expired" in said:
        return "jobwire certs renew server, then reload the broker; or the clock of this host is wrong"
    if "not yet valid" in said:
        return "the clock of this host or of the one that signed is wrong (timedatectl status)"
    if "hostname" in said or "ip address" in said:
        return "use the name in the certificate, or renew it for this name: jobwire certs renew server --help"
    return "check `ca_certs`: it must hold the CA that signed the broker's certificate"
