"""Every cell of the access table, with real connections, on both brokers."""

import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from jobwire.broker.access_table import ALLOWED, Action, Identity
from jobwire.broker.home import ROLES
from jobwire.broker.passwd import PasswordFile
from jobwire.certs.authority import CertificateAuthority
from jobwire.certs.values import Issued
from jobwire.core.override import override
from jobwire.core.topics import Topics
from jobwire.testing import EmbeddedServer, MosquittoServer, require
from jobwire.testing.process import BrokerProcess
from jobwire.testing.raw_mqtt import (
    SUBSCRIBE,
    ConnectionClosedError,
    ConnectRefusedError,
    RawClient,
    Will,
    client_context,
)
from jobwire.testing.self_signed import self_signed

TOPICS = Topics()
A, B = "aaaaaaaa", "bbbbbbbb"
REVOKED, EXPIRED = "cccccccc", "dddddddd"
ELSEWHERE = "elsewhere/secret"
ADMIN, ADMIN_PASSWORD = "table-admin", "everything"
REFUSED = 0x80
# Each message is unique: what an earlier cell left behind cannot be mistaken for this one's.
_numbers = itertools.count()


class Cell(NamedTuple):
    """One cell of the table."""

    identity: Identity
    action: Action

    @property
    def allowed(self) -> bool:
        """Tell what the table says."""
        return self.action in ALLOWED[self.identity]

    @override
    def __str__(self) -> str:
        return f"{self.identity.value}-{self.action.value}"


class Bench(NamedTuple):
    """One broker with an all-seeing account, and the certificates of all identities."""

    server: BrokerProcess
    certificates: dict[Identity, Issued]

    def admin(self) -> RawClient:
        """Return a client that may read and write everything."""
        context = client_context(self.server.ca_certs)
        client = RawClient(self.server.host, self.server.port, context)
        return client.connect(username=ADMIN, password=ADMIN_PASSWORD)

    def connect(self, identity: Identity, will: Will | None = None) -> RawClient:
        """Return a connected client; raises ConnectRefusedError or ConnectionClosedError."""
        issued = self.certificates.get(identity)
        context = client_context(
            self.server.ca_certs, issued.certfile if issued else None, issued.keyfile if issued else None
        )
        port = self.server.mtls_port if issued else self.server.port
        client = RawClient(self.server.host, port, context)
        if issued:
            return client.connect(B if identity is Identity.JOB_A_AS_B else issued.name, will=will)
        if identity is Identity.ANONYMOUS:
            return client.connect("nobody", will=will)
        if identity is Identity.WRONG_PASSWORD:
            return client.connect(username="hermes", password="wrong", will=will)
        password = (self.server.home / "passwords" / identity.value).read_text().strip()
        return client.connect(username=identity.value, password=password, will=will)


@pytest.fixture(scope="session", params=["mosquitto", "embedded"])
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Start each kind of broker once, with certificates good and bad."""
    home = tmp_path_factory.mktemp("table") / "home"
    home.mkdir(mode=0o700)
    server: BrokerProcess
    if request.param == "mosquitto":
        require("mosquitto")
        server = MosquittoServer(home, extra_lines=("sys_interval 1",))
    else:
        server = EmbeddedServer(home)
    server.prepare()
    _add_admin(home)
    certificates = _issue(home, tmp_path_factory.mktemp("foreign"))
    server.start()
    yield Bench(server, certificates)
    server.stop()
    shutil.rmtree(home)


def _add_admin(home: Path) -> None:
    with PasswordFile.edit(home / "broker" / "passwd") as users:
        users.set(ADMIN, ADMIN_PASSWORD, iterations=101)
    acl = home / "broker" / "acl"
    acl.write_text(acl.read_text() + f"\nuser {ADMIN}\ntopic readwrite #\ntopic read $SYS/#\n")


def _issue(home: Path, elsewhere: Path) -> dict[Identity, Issued]:
    authority = CertificateAuthority(home / "certs")
    foreign = CertificateAuthority(elsewhere / "ca")
    foreign.init()
    job = authority.issue_job(A)
    revoked = authority.issue_job(REVOKED)
    authority.revoke(REVOKED)
    return {
        Identity.JOB_A: job,
        Identity.JOB_A_AS_B: job,
        Identity.AGENT_A: authority.issue_agent("A"),
        Identity.REVOKED: revoked,
        Identity.EXPIRED: CertificateAuthority(authority.directory, backdate_seconds=7200).issue_job(
            EXPIRED, lifetime_seconds=60
        ),
        # Named like a role: what keeps it out is that it is for servers.
        Identity.SERVER: authority.issue_server("hermes", ["localhost"]),
        Identity.FOREIGN_CA: foreign.issue_job(A),
        Identity.SELF_SIGNED: self_signed(elsewhere / "self", A),
    }


@pytest.mark.parametrize("cell", [Cell(who, what) for who in Identity for what in Action], ids=str)
def test_the_table_holds(bench: Bench, cell: Cell) -> None:
    """What the table allows happens, and what it refuses does not."""
    topic = _WILLS.get(cell.action)
    will = Will(topic, _payload()) if topic is not None else None
    try:
        client = bench.connect(cell.identity, will)
    except (ConnectRefusedError, ConnectionClosedError):
        assert not cell.allowed
        return
    with client, bench.admin() as admin:
        happened = cell.action is Action.CONNECT or _TRIALS[cell.action](client, admin, will)
    assert happened is cell.allowed


def test_a_foreign_client_id_displaces_nobody(bench: Bench) -> None:
    """Job A's certificate with job B's client id leaves the session of B alone."""
    issued = CertificateAuthority(bench.server.home / "certs").issue_job(B, force=True)
    context = client_context(bench.server.ca_certs, issued.certfile, issued.keyfile)
    with RawClient(bench.server.host, bench.server.mtls_port, context).connect(B) as victim:
        bench.connect(Identity.JOB_A_AS_B).disconnect()
        assert victim.settle() == []


def test_an_agent_is_confined_whatever_it_subscribes_to(bench: Bench) -> None:
    """With the filter `#` an agent gets its own inbox and nothing of anybody else's."""
    with bench.connect(Identity.AGENT_A) as client, bench.admin() as admin:
        granted = client.subscribe("#") != REFUSED
        own, others = _payload(), _payload()
        admin.publish(TOPICS.agent("A", "inbox"), own)
        admin.publish(TOPICS.agent("B", "inbox"), others)
        admin.publish(TOPICS.events(A), others)
        assert {message.payload for message in client.settle()} == ({own} if granted else set())


def test_every_role_has_its_row() -> None:
    """No role is missing from the table."""
    assert set(ROLES) <= {identity.value for identity in Identity}


def _payload() -> bytes:
    return b"message %d" % next(_numbers)


def _publish(topic: str) -> Callable[[RawClient, RawClient, Will | None], bool]:
    def trial(client: RawClient, admin: RawClient, _: Will | None) -> bool:
        admin.subscribe(topic)
        payload = _payload()
        client.publish(topic, payload)
        return payload in {message.payload for message in admin.settle()}

    return trial


def _publish_retained(client: RawClient, admin: RawClient, _: Will | None) -> bool:
    payload = _payload()
    client.publish(TOPICS.events(A), payload, retain=True)
    admin.subscribe(TOPICS.events(A))
    kept = {message.payload for message in admin.settle() if message.retain}
    admin.publish(TOPICS.events(A), b"", retain=True)
    return payload in kept


def _will(client: RawClient, admin: RawClient, will: Will | None) -> bool:
    admin.subscribe(will.topic if will is not None else "#")
    # A protocol violation makes the broker end the connection: once that is seen, the Will is dealt with.
    client.send(SUBSCRIBE, 0, b"")
    assert client.closed_by_broker()
    return will is not None and will.payload in {message.payload for message in admin.settle()}


def _subscribe(topic_filter: str, topic: str) -> Callable[[RawClient, RawClient, Will | None], bool]:
    def trial(client: RawClient, admin: RawClient, _: Will | None) -> bool:
        if client.subscribe(topic_filter) == REFUSED:
            return False
        payload = _payload()
        admin.publish(topic, payload)
        return payload in {message.payload for message in client.settle()}

    return trial


def _subscribe_sys(client: RawClient, _: RawClient, __: Will | None) -> bool:
    return client.subscribe("$SYS/#") != REFUSED and client.settle() != []


def _receive_retained(topic: str) -> Callable[[RawClient, RawClient, Will | None], bool]:
    def trial(client: RawClient, admin: RawClient, _: Will | None) -> bool:
        payload = _payload()
        admin.publish(topic, payload, retain=True)
        client.subscribe(topic)
        found = client.settle()
        admin.publish(topic, b"", retain=True)
        return [(message.payload, message.retain) for message in found] == [(payload, True)]

    return trial


_WILLS = {Action.WILL_TO_OTHERS: TOPICS.events(B), Action.WILL_PRESENCE: TOPICS.agent("A", "presence")}
_TRIALS: dict[Action, Callable[[RawClient, RawClient, Will | None], bool]] = {
    Action.PUBLISH_OWN: _publish(TOPICS.events(A)),
    Action.PUBLISH_OTHERS: _publish(TOPICS.events(B)),
    Action.PUBLISH_STATE: _publish(TOPICS.state(A)),
    Action.PUBLISH_RETAINED: _publish_retained,
    Action.WILL_TO_OTHERS: _will,
    Action.SUBSCRIBE_OWN: _subscribe(TOPICS.state(A), TOPICS.state(A)),
    Action.SUBSCRIBE_EVENTS: _subscribe(TOPICS.events("+"), TOPICS.events(B)),
    Action.SUBSCRIBE_ALL: _subscribe("#", ELSEWHERE),
    Action.SUBSCRIBE_SYS: _subscribe_sys,
    Action.RECEIVE_RETAINED: _receive_retained(TOPICS.state(A)),
    Action.PUBLISH_ANSWER: _publish(TOPICS.answer(A)),
    Action.RECEIVE_ANSWER: _receive_retained(TOPICS.answer(A)),
    Action.RECEIVE_OTHERS_ANSWER: _receive_retained(TOPICS.answer(B)),
    Action.PUBLISH_OUTBOX: _publish(TOPICS.agent("A", "outbox")),
    Action.PUBLISH_OTHERS_OUTBOX: _publish(TOPICS.agent("B", "outbox")),
    Action.PUBLISH_INBOX: _publish(TOPICS.agent("B", "inbox")),
    Action.WILL_PRESENCE: _will,
    Action.SUBSCRIBE_INBOX: _subscribe(TOPICS.agent("A", "inbox"), TOPICS.agent("A", "inbox")),
    Action.SUBSCRIBE_OTHERS_INBOX: _subscribe(TOPICS.agent("B", "inbox"), TOPICS.agent("B", "inbox")),
    Action.SUBSCRIBE_OUTBOX: _subscribe(TOPICS.agent("+", "outbox"), TOPICS.agent("B", "outbox")),
    Action.SUBSCRIBE_PRESENCE: _subscribe(TOPICS.agent("+", "presence"), TOPICS.agent("B", "presence")),
}
