"""Turns every way a connection can fail into an error that names cause and remedy.

`facts["cause"]` is one word for programs; the classes tell whether trying again makes sense.
"""

import socket
import ssl

from jobwire.core.errors import RefusedError, TransportError, UnreachableError
from jobwire.core.settings import BrokerSettings

# OpenSSL x509_vfy.h.
_EXPIRED, _NOT_YET_VALID, _REVOKED = 10, 9, 23
_WRONG_NAME = (62, 64)  # host name, IP address

_TRY_LATER = {0x88, 0x89, 0x97, 0x9F}  # unavailable, busy, quota exceeded, connection rate exceeded
_BAD_VERSION = 0x84
_BAD_CLIENT_ID = 0x85
_BAD_CREDENTIALS = (0x86, 0x87)


def opening_failed(error: OSError, settings: BrokerSettings) -> TransportError:
    """Return what an exception from DNS, TCP or the TLS handshake means."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _unverified(error, settings)
    if isinstance(error, ssl.SSLError):
        return _handshake_failed(error, settings)
    where = settings.address
    if isinstance(error, socket.gaierror):
        return UnreachableError(
            f"the broker's name {settings.host} cannot be resolved",
            hint="check MQTT_BROKER and the name server",
            cause="dns",
            address=where,
        )
    if isinstance(error, TimeoutError):
        return silent(settings, "connect or finish the TLS handshake")
    if isinstance(error, ConnectionRefusedError):
        return UnreachableError(
            f"nothing listens at {where}",
            hint="start the broker (`jobwire up`) or check MQTT_BROKER and MQTT_PORT",
            cause="connection_refused",
            address=where,
        )
    if isinstance(error, ConnectionError):
        return closed_early(settings)
    return UnreachableError(
        f"cannot connect to {where}: {error.strerror or error}",
        hint="check the network, MQTT_BROKER and MQTT_PORT",
        cause="network",
        address=where,
    )


def silent(settings: BrokerSettings, what: str) -> UnreachableError:
    """Return the error for a deadline that passed while waiting for the broker."""
    hint = "check the address and the load of the broker"
    if settings.protocol != "3.1.1":
        hint += "; one that speaks MQTT 3.1.1 only needs MQTT_PROTOCOL=3.1.1"
    return UnreachableError(
        f"{settings.address} did not {what} in time", hint=hint, cause="timeout", address=settings.address
    )


def closed_early(settings: BrokerSettings) -> UnreachableError:
    """Return the error for a peer that hung up during the TLS handshake or before CONNACK."""
    return UnreachableError(
        f"{settings.address} closed the connection before it was set up",
        hint=f"check that this is the broker's {'TLS' if settings.tls else 'plaintext'} port,"
        " that MQTT_PROTOCOL fits, and the broker's log",
        cause="closed",
        address=settings.address,
    )


def lost_before_connack(settings: BrokerSettings, failure: OSError | None) -> TransportError:
    """Return what an end of the connection between CONNECT and CONNACK means."""
    alert = _reason(failure)
    if "ALERT" in alert or settings.certfile is not None:
        # TLS 1.3: the client is "connected" before the server has judged its certificate (RFC 8446, 4.4.2.4).
        return RefusedError(
            f"{settings.address} refused our client certificate" + (f" ({_words(alert)})" if alert else ""),
            hint="issue a valid one with `jobwire certs issue NAME` and set MQTT_CERTFILE and MQTT_KEYFILE"
            if settings.certfile is None
            else f"check {settings.certfile}: expiry, revocation, and that the broker trusts its CA",
            cause="client_certificate",
            address=settings.address,
            alert=alert,
        )
    return closed_early(settings)


def connect_refused(code: int, name: str, settings: BrokerSettings) -> TransportError:
    """Return what a CONNACK with MQTT 5 reason `code` means (3.1.1 return codes come converted)."""
    facts = {"code": code, "address": settings.address}
    if code in _TRY_LATER:
        return UnreachableError(
            f"{settings.address} is not available: {name}", hint="try again later", cause="busy", **facts
        )
    if code in _BAD_CREDENTIALS:
        who = f"user {settings.username!r}" if settings.username else "a connection without user name"
        return RefusedError(
            f"{settings.address} refused {who}: {name}",
            hint="check MQTT_USERNAME and MQTT_PASSWORD_FILE against the broker's password file",
            cause="credentials",
            **facts,
        )
    if code == _BAD_VERSION:
        return wrong_version(settings)
    hint = "check the broker's log"
    if code == _BAD_CLIENT_ID:
        hint = "the broker does not accept this client id; see use_username_as_clientid in its settings"
    return RefusedError(
        f"{settings.address} refused the connection: {name}", hint=hint, cause="connack", **facts
    )


def wrong_version(settings: BrokerSettings) -> RefusedError:
    """Return the error for a broker that does not speak our MQTT version."""
    ours, other = ("3.1.1", "5") if settings.protocol == "3.1.1" else ("5", "3.1.1")
    return RefusedError(
        f"{settings.address} does not speak MQTT {ours}",
        hint=f"set MQTT_PROTOCOL={other}",
        cause="mqtt_version",
        address=settings.address,
    )


def publish_refused(topic: str, code: int, name: str) -> RefusedError:
    """Return the error for a PUBACK of 0x80 and above (MQTT 5, 3.4.2.1)."""
    return RefusedError(
        f"the broker refused the message to {topic}: {name}",
        hint="check the access list: may this user write to the topic?",
        cause="publish",
        topic=topic,
        code=code,
    )


def subscribe_refused(refused: list[str], code: int) -> RefusedError:
    """Return the error for filters with a SUBACK code of 0x80 and above."""
    return RefusedError(
        f"the broker refused the subscription to {', '.join(refused)}",
        hint="check the access list: may this user read the topic?",
        cause="subscribe",
        filters=tuple(refused),
        code=code,
    )


def _unverified(error: ssl.SSLCertVerificationError, settings: BrokerSettings) -> RefusedError:
    code = error.verify_code
    if code == _EXPIRED:
        cause, what = "certificate_expired", "has expired"
        hint = "`jobwire certs renew server`, then reload the broker; or the clock of this host is wrong"
    elif code == _NOT_YET_VALID:
        cause, what = "certificate_not_yet_valid", "is not valid yet"
        hint = "the clock of this host or of the one that signed is wrong (timedatectl status)"
    elif code in _WRONG_NAME:
        cause, what = "wrong_host_name", f"is not for the name {settings.host}"
        hint = "set MQTT_BROKER to a name in the certificate, or renew it for this name:"
        hint += " `jobwire certs renew server --server-name NAME`"
    elif code == _REVOKED:
        cause, what = "certificate_revoked", "is revoked"
        hint = "ask who runs the broker"
    else:
        cause, what = "wrong_ca", "is not signed by a CA we trust"
        trusted = settings.ca_certs or "the system's CA certificates"
        hint = f"set MQTT_CA_CERTS to the broker's CA (now: {trusted})"
    return RefusedError(
        f"the certificate of {settings.address} {what}",
        hint=hint,
        cause=cause,
        address=settings.address,
        verify_code=code,
    )


def _handshake_failed(error: ssl.SSLError, settings: BrokerSettings) -> TransportError:
    reason = _reason(error)
    if isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError)) or "UNEXPECTED_EOF" in reason:
        return closed_early(settings)
    if "PROTOCOL_VERSION" in reason or "UNSUPPORTED_PROTOCOL" in reason:
        cause, what = "tls_version", "does not speak TLS 1.3"
        hint = "set tls_version tlsv1.3 on the broker; older versions are not used"
    elif "WRONG_VERSION_NUMBER" in reason or "RECORD" in reason or "HTTP" in reason:
        cause, what = "not_tls", "does not speak TLS on this port"
        hint = "use the broker's TLS port (usually 8883); MQTT_TLS=off sends in the clear"
    else:
        cause, what = "tls", f"failed the TLS handshake: {_words(reason) or error}"
        hint = "check the broker's log and certificates"
    return RefusedError(
        f"{settings.address} {what}", hint=hint, cause=cause, address=settings.address, reason=reason
    )


def _reason(error: OSError | None) -> str:
    """Return OpenSSL's name for what happened; not every SSLError has one."""
    return str(getattr(error, "reason", None) or "") if isinstance(error, ssl.SSLError) else ""


def _words(reason: str) -> str:
    return reason.lower().replace("_", " ")
