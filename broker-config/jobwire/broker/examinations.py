"""What the doctor tries at a broker, by connecting; why a connection fails, the transport explains."""

import secrets
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

from jobwire.broker.access_table import ALLOWED, Action, Identity
from jobwire.certs.values import DAY, Finding, Level, ends_soon
from jobwire.core.clock import Clock, utc_timestamp
from jobwire.core.errors import JobwireError, RefusedError, TransportError
from jobwire.core.exit_codes import ExitCode
from jobwire.core.ports import Message
from jobwire.core.roles import Role
from jobwire.core.settings import BrokerSettings, Secret
from jobwire.core.topics import Topics
from jobwire.transport import PahoTransport
from jobwire.transport.tls import build_context

_SECONDS = 5.0
_SESSION_SECONDS = 60
_PAYLOAD = b"the doctor was here"
_MANY = 1_000
# Of which step the transport's causes speak; what is not here is TLS.
_SUBJECTS = {
    "dns": "name",
    "timeout": "TCP",
    "connection_refused": "TCP",
    "network": "TCP",
    "closed": "TCP",
    "mqtt_version": "protocol",
}
# The broker is there and has understood; whom it refuses is said of each role.
_OF_A_ROLE = {"credentials", "client_certificate", "connack", "busy"}
_NO_CERTIFICATE = {"client_certificate", "closed"}


def well(subject: str, message: str) -> Finding:
    """Return the finding that all is well."""
    return Finding(Level.WELL, subject, message)


@contextmanager
def connected(settings: BrokerSettings, *, client_id: str = "") -> Iterator[PahoTransport]:
    """Give a connection, one with a `client_id` on a session that is kept; raises TransportError."""
    transport = PahoTransport(
        settings, client_id=client_id, clean_session=not client_id, session_expiry_seconds=_SESSION_SECONDS
    )
    with closing(transport):
        transport.connect(_SECONDS)
        yield transport


def examine_way(settings: BrokerSettings, clock: Clock) -> Iterator[Finding]:
    """Yield how the way to the broker is: name, TCP, TLS, certificate, version. An error ends it."""
    try:
        with connected(settings):
            pass
    except JobwireError as error:
        cause = str(error.facts.get("cause"))
        # Who needs a certificate and has none is hung up on, after the handshake, often without a word.
        if cause not in _OF_A_ROLE and not (cause == "closed" and settings.tls and _shakes_hands(settings)):
            yield Finding.of(_SUBJECTS.get(cause, "TLS"), error)
            return
    yield well("TCP", f"{settings.address} accepts connections")
    if settings.tls:
        yield well("TLS", f"TLS 1.3, chain and host name {settings.host} verified")
        yield from _examine_tls(settings, clock)
    else:
        text = "switched off: passwords and events travel in the clear"
        yield Finding(Level.WARNING, "TLS", text, 'set tls = "on"')
    yield well("protocol", f"MQTT {'5' if settings.protocol == 'auto' else settings.protocol} is spoken")


def _shakes_hands(settings: BrokerSettings) -> bool:
    try:
        return bool(_certificate(settings, build_context(settings)))
    except OSError:
        return False


def _examine_tls(settings: BrokerSettings, clock: Clock) -> Iterator[Finding]:
    context = build_context(settings)
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    try:
        _certificate(settings, context)
        hint = "set `tls_version tlsv1.3` in mosquitto.conf"
        yield Finding(Level.WARNING, "TLS 1.2", "the broker accepts it", hint)
    except OSError:
        yield well("TLS 1.2", "refused, as it should be")
    try:
        dates = _certificate(settings, build_context(settings))
    except OSError as error:
        yield Finding(Level.NOTE, "expiry", f"the certificate's dates could not be read: {error}")
        return
    start, end = (float(ssl.cert_time_to_seconds(str(dates[name]))) for name in ("notBefore", "notAfter"))
    if ends_soon(start, end, clock.now()):
        days = (end - clock.now()) / DAY
        text = f"the server certificate ends in {days:.1f} days"
        yield Finding(Level.WARNING, "expiry", text, "jobwire certs renew server")
    else:
        yield well("expiry", f"the server certificate is valid until {utc_timestamp(end)}")


def _certificate(settings: BrokerSettings, context: ssl.SSLContext) -> dict[str, object]:
    with (
        socket.create_connection((settings.host, settings.port), _SECONDS) as plain,
        context.wrap_socket(plain, server_hostname=settings.host) as connection,
    ):
        return dict(connection.getpeercert() or {})


def examine_strangers(settings: BrokerSettings) -> Iterator[Finding]:
    """Yield whether anonymous clients and wrong passwords are refused."""
    nobody = settings._replace(username=None, password=None, certfile=None, keyfile=None)
    wrong = nobody._replace(username=str(Role.HERMES), password=Secret("wrong"))
    for subject, stranger in (("anonymous", nobody), ("wrong password", wrong)):
        try:
            with connected(stranger):
                hint = "set `allow_anonymous false` and `password_file`"
                yield Finding(Level.ERROR, subject, "let in", hint, ExitCode.REFUSED)
        except TransportError:
            yield well(subject, "refused, as it should be")


def examine_certificate_port(settings: BrokerSettings, port: int) -> Finding:
    """Return whether the port for certificates is there, under the same authority, and hears nobody else."""
    there = settings._replace(port=port, certfile=None, keyfile=None)
    try:
        with connected(there):
            pass
    except TransportError as error:
        cause = error.facts.get("cause")
        if cause in _NO_CERTIFICATE:
            return well("certificates", f"{there.address} hears only clients with a certificate")
        if cause not in _OF_A_ROLE:
            found = Finding.of("certificates", error)
            return found._replace(
                hint=f"{found.hint}; jobs with a certificate connect there ([mtls] in jobwire.toml)"
            )
    return Finding(
        Level.ERROR,
        "certificates",
        f"{there.address} hears clients without a certificate",
        "set `require_certificate true` there, or correct [mtls] in jobwire.toml",
        ExitCode.REFUSED,
    )


def examine_role(role: str, settings: BrokerSettings, observer: BrokerSettings | None) -> Iterator[Finding]:
    """Yield what `role` can do compared with what it should; `observer` sees what arrives."""
    try:
        with connected(settings) as client:
            yield well(role, "authenticated")
            if role in {identity.value for identity in Identity}:
                yield from _examine_rights(role, client, settings.topic_root, observer)
            else:
                yield Finding(Level.NOTE, role, "what it may do is not known here")
    except TransportError as error:
        found = Finding.of(role, error)
        if error.facts.get("cause") == "credentials" and settings.certfile is None:
            found = found._replace(hint=f"{found.hint}; jobwire broker passwd add {role} --replace")
        yield found


def _examine_rights(
    role: str, client: PahoTransport, topic_root: str, observer: BrokerSettings | None
) -> Iterator[Finding]:
    allowed, topics, name, reads = ALLOWED[Identity(role)], Topics(topic_root), _name_of_ours(), False
    if Action.SUBSCRIBE_EVENTS in allowed:
        with suppress(RefusedError):
            client.subscribe([topics.events("+")], deadline_seconds=_SECONDS)
            reads = True
        yield _judged(f"{role} reads events", happens=reads, wanted=True)
    if observer is None:
        return
    with connected(observer) as watching:
        for what, topic, action in (
            ("events", topics.events(name), Action.PUBLISH_OTHERS),
            ("states", topics.state(name), Action.PUBLISH_STATE),
        ):
            happens = _arrives(client, watching, topic)
            yield _judged(f"{role} writes {what}", happens=happens, wanted=action in allowed)


def _name_of_ours() -> str:
    """Return a name for topic and session that no other doctor uses; no job id, so consumers ignore it."""
    return f"doctor-{secrets.token_hex(4)}"


def _arrives(client: PahoTransport, watching: PahoTransport, topic: str) -> bool:
    try:
        watching.subscribe([topic], deadline_seconds=_SECONDS)
        client.publish(topic, _PAYLOAD, retain=False, deadline_seconds=_SECONDS)
    except RefusedError:
        return False
    return _has_come(watching, topic)


def _has_come(watching: PahoTransport, topic: str) -> bool:
    """Tell whether a message of `topic` came before now.

    What the broker routed before it read a SUBSCRIBE is sent before the answer, and what is read with the
    first answer is handed over before the second is asked for: so nothing waits for time to pass.
    """
    for _ in range(2):
        watching.subscribe([topic], deadline_seconds=_SECONDS)
    came = watching.receive_many(_MANY, 0)
    return any(isinstance(item, Message) and item.topic == topic for item in came)


def _judged(subject: str, *, happens: bool, wanted: bool) -> Finding:
    if happens == wanted:
        return well(subject, "yes" if happens else "no, as it should be")
    hint = "check the broker's acl: jobwire broker access-table"
    if wanted:
        return Finding(Level.ERROR, subject, "no", hint, ExitCode.REFUSED)
    return Finding(Level.ERROR, subject, "yes, but it must not", hint)


def examine_queueing(reader: BrokerSettings, writer: BrokerSettings) -> Finding:
    """Return whether the broker keeps messages for an absent subscriber."""
    name = _name_of_ours()
    topic = Topics(reader.topic_root).events(name)
    try:
        with connected(reader, client_id=name) as subscriber:
            subscriber.subscribe([topic], deadline_seconds=_SECONDS)
        with connected(writer) as publisher:
            publisher.publish(topic, _PAYLOAD, retain=False, deadline_seconds=_SECONDS)
        with connected(reader, client_id=name) as again:
            kept = _has_come(again, topic)
        with closing(PahoTransport(reader, client_id=name, clean_session=True)) as last:
            last.connect(_SECONDS)  # a clean session ends the kept one
    except TransportError as error:
        return Finding.of("queueing", error)
    if not kept:
        text = "an absent subscriber loses messages"
        return Finding(Level.ERROR, "queueing", text, "check max_queued_messages")
    return well("queueing", "messages wait for an absent subscriber")
