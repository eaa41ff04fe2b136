"""Each configured role at the broker: authenticated, and what it may read and write, tried with messages."""

import secrets
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from jobwire.broker.probe import (
    LEVEL_3_1_1,
    LEVEL_5,
    ConnectionClosedError,
    ConnectRefusedError,
    RawClient,
)
from jobwire.broker.reports import Report, ill, skipped, warning, well
from jobwire.core.exit_codes import ExitCode
from jobwire.core.roles import Role
from jobwire.core.settings import BrokerSettings, Secret
from jobwire.core.topics import Topics

SECONDS = 5.0
_REFUSED = 0x80
# CONNACK: the version is not spoken (MQTT 3.1.1, 3.2.2.3, and MQTT 5, 3.2.2.2).
_VERSION_REFUSED = {1, 0x84}
_PAYLOAD = b"the doctor was here"
_FAILURES = (ConnectRefusedError, ConnectionClosedError, OSError)


class Expected(NamedTuple):
    """What a role must be able to do; everything else it must not."""

    reads: bool
    writes_events: bool
    writes_state: bool


EXPECTED: dict[str, Expected] = {
    Role.HERMES: Expected(reads=True, writes_events=False, writes_state=False),
    Role.WORKER: Expected(reads=False, writes_events=True, writes_state=False),
    Role.REGISTRY: Expected(reads=True, writes_events=True, writes_state=True),
    Role.METRICS: Expected(reads=True, writes_events=False, writes_state=False),
    Role.DASHBOARD: Expected(reads=True, writes_events=False, writes_state=False),
}


def connect(
    settings: BrokerSettings, *, client_id: str = "", clean: bool = True, level: int = LEVEL_3_1_1
) -> RawClient:
    """Return a connected client for `settings`; raises ConnectRefusedError and others of the probe."""
    context = None
    if settings.tls:
        context = ssl.create_default_context(cafile=settings.ca_certs)
        if settings.certfile:
            context.load_cert_chain(settings.certfile, settings.keyfile)
    client = RawClient(settings.host, settings.port, context, deadline_seconds=SECONDS)
    password = settings.password.reveal() if settings.password else None
    return client.connect(client_id, username=settings.username, password=password, clean=clean, level=level)


def examine_strangers(settings: BrokerSettings) -> Iterator[Report]:
    """Yield whether anonymous clients and wrong passwords are refused."""
    nobody = settings._replace(username=None, password=None, certfile=None, keyfile=None)
    wrong = nobody._replace(username=str(Role.HERMES), password=Secret("wrong"))
    for subject, stranger in (("anonymous", nobody), ("wrong password", wrong)):
        try:
            connect(stranger).disconnect()
        except _FAILURES:
            yield well(subject, "refused, as it should be")
        else:
            yield ill(subject, "let in", "set `allow_anonymous false` and `password_file`", ExitCode.REFUSED)


def examine_protocol(settings: BrokerSettings) -> Report:
    """Return which MQTT versions the broker speaks, and whether the settings fit."""
    spoken = []
    for level, name in ((LEVEL_3_1_1, "3.1.1"), (LEVEL_5, "5")):
        if _is_spoken(settings, level):
            spoken.append(name)
    wanted = "5" if settings.protocol == "auto" else settings.protocol
    if wanted not in spoken:
        return ill(
            "protocol",
            f"the settings say MQTT {wanted}, the broker speaks {' and '.join(spoken) or 'neither'}",
            f'set protocol = "{spoken[0]}" in jobwire.toml'
            if spoken
            else "is this the port of an MQTT broker, the one for passwords (or certificates)?",
        )
    return well("protocol", f"MQTT {' and '.join(spoken)}; {wanted} is used")


def _is_spoken(settings: BrokerSettings, level: int) -> bool:
    try:
        connect(settings, level=level).disconnect()
    except ConnectRefusedError as error:
        # Whoever refuses for another reason has understood.
        return error.code not in _VERSION_REFUSED
    except _FAILURES:
        return False
    return True


def examine_certificate_port(settings: BrokerSettings, port: int) -> Report:
    """Return whether the port for certificates is there, under the same authority, and hears nobody else."""
    there = settings._replace(port=port, certfile=None, keyfile=None)
    try:
        socket.create_connection((there.host, there.port), SECONDS).close()
        connect(there).disconnect()
    except ConnectionClosedError as error:
        if isinstance(error.__cause__, ssl.SSLCertVerificationError):
            return ill(
                "certificates",
                f"the certificate of {there.address} is not accepted: {error.__cause__.verify_message}",
                "both ports need the same server certificate: jobwire broker check",
                ExitCode.REFUSED,
            )
        return well("certificates", f"{there.address} hears only clients with a certificate")
    except ConnectRefusedError:
        pass
    except OSError as error:
        return ill(
            "certificates",
            f"nothing accepts connections on {there.address}: {error.strerror or error}",
            "jobs with a certificate connect there ([mtls] in jobwire.toml): check broker and firewall",
            ExitCode.UNREACHABLE,
        )
    return ill(
        "certificates",
        f"{there.address} hears clients without a certificate",
        "set `require_certificate true` there, or correct [mtls] in jobwire.toml",
        ExitCode.REFUSED,
    )


def examine_role(role: str, settings: BrokerSettings, observer: BrokerSettings | None) -> Iterator[Report]:
    """Yield what `role` can do compared with what it should; `observer` sees what arrives."""
    try:
        client = connect(settings)
    except ConnectRefusedError as error:
        yield ill(
            role,
            f"refused at CONNECT with code {error.code}",
            f"compare passwords/{role} with the broker's passwd (jobwire broker passwd add {role} --replace)",
            ExitCode.REFUSED,
        )
        return
    except ConnectionClosedError as error:
        yield ill(role, f"the connection was closed: {error}", "check its certificate", ExitCode.REFUSED)
        return
    except OSError as error:
        yield ill(role, f"no connection: {error}", "check the broker's log", ExitCode.UNREACHABLE)
        return
    yield well(role, "authenticated")
    with client:
        yield from _examine_rights(role, client, settings, observer)


def _examine_rights(
    role: str, client: RawClient, settings: BrokerSettings, observer: BrokerSettings | None
) -> Iterator[Report]:
    expected, topics = EXPECTED.get(role), Topics(settings.topic_root)
    if expected is None:
        yield skipped(role, "what it may do is not known here")
        return
    try:
        reads = client.subscribe(topics.events("+")) < _REFUSED
        if expected.reads:
            yield _judged(f"{role} reads events", happened=reads, wanted=True)
        if observer is not None:
            name = _name_of_ours()
            for what, topic, wanted in (
                ("events", topics.events(name), expected.writes_events),
                ("states", topics.state(name), expected.writes_state),
            ):
                happened = _arrives(client, observer, topic)
                yield _judged(f"{role} writes {what}", happened=happened, wanted=wanted)
    except (ConnectionClosedError, OSError) as error:
        yield ill(
            role, f"the connection ended meanwhile: {error}", "check the broker's log", ExitCode.REFUSED
        )


def _name_of_ours() -> str:
    """Return a name for topic and session that no other doctor uses; no job id, so consumers ignore it."""
    return f"doctor-{secrets.token_hex(4)}"


def _arrives(client: RawClient, observer: BrokerSettings, topic: str) -> bool:
    with connect(observer) as watching:
        watching.subscribe(topic)
        client.publish(topic, _PAYLOAD)
        return any(message.topic == topic for message in watching.settle())


def _judged(subject: str, *, happened: bool, wanted: bool) -> Report:
    if happened == wanted:
        return well(subject, "yes" if happened else "no, as it should be")
    if wanted:
        return ill(subject, "no", "check the broker's acl: jobwire broker access-table", ExitCode.REFUSED)
    return ill(subject, "yes, but it must not", "check the broker's acl: jobwire broker access-table")


def examine_queueing(reader: BrokerSettings, writer: BrokerSettings) -> Report:
    """Return whether the broker keeps messages for an absent subscriber."""
    name = _name_of_ours()
    topic = Topics(reader.topic_root).events(name)
    try:
        with connect(reader, client_id=name, clean=False) as subscriber:
            subscriber.subscribe(topic)
            subscriber.disconnect()
        with connect(writer) as publisher:
            publisher.publish(topic, _PAYLOAD)
        with connect(reader, client_id=name, clean=False) as again:
            kept = again.session_present and any(message.topic == topic for message in again.settle())
        connect(reader, client_id=name, clean=True).disconnect()
    except _FAILURES as error:
        return ill("queueing", f"could not be tried: {error}", "check the broker's log", ExitCode.REFUSED)
    if not kept:
        return ill("queueing", "an absent subscriber loses messages", "check max_queued_messages")
    return well("queueing", "messages wait for an absent subscriber")


def examine_storage(directory: Path) -> Report:
    """Return whether a broker on this host can store what must survive its restart."""
    if not directory.is_dir():
        return skipped("persistence", "the broker's files are on another host: jobwire broker check, there")
    probe = directory / ".doctor"
    try:
        probe.touch()
        probe.unlink()
    except OSError as error:
        return warning(
            "persistence",
            f"{directory} is not writable: {error.strerror}",
            "Mosquitto would keep nothing, silently: make it writable for the broker's user",
        )
    return well("persistence", f"{directory} is writable")
