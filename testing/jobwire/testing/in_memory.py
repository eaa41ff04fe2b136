"""A broker without a network: the same contract as the real ones, driven by hand."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from jobwire.core.errors import JobwireError, RefusedError, TransportError, UnreachableError
from jobwire.core.ports import Incoming, Message, SessionLost, SessionStarted
from jobwire.core.topics import filter_matches
from jobwire.transport.acknowledgements import AckLedger

Access = Callable[[str, str, str], bool]


class PublishedMessage(NamedTuple):
    """One message as the broker accepted it."""

    client_id: str
    topic: str
    payload: bytes
    retain: bool
    expiry_seconds: int | None


class _Session:
    """What the broker keeps of one client id."""

    def __init__(self) -> None:
        self.filters: dict[str, None] = {}
        self.unacknowledged: dict[int, PublishedMessage] = {}
        self.waiting: deque[PublishedMessage] = deque()
        self.last_packet_id = 0
        self.connection: InMemoryTransport | None = None


class InMemoryBroker:
    """Retained messages, QoS 1 with redelivery, persistent sessions, refusals and faults on demand.

    `access(user, action, topic)` with action "publish" or "subscribe" decides like an access list; by
    default everything is allowed. Time does not pass here: what a real transport would wait for within
    its deadline fails at once. Thread-safe.
    """

    def __init__(self, *, access: Access = lambda _user, _action, _topic: True) -> None:
        self.access = access
        self.published: list[PublishedMessage] = []
        self.retained: dict[str, PublishedMessage] = {}
        self._sessions: dict[str, _Session] = {}
        self._running = True
        self._refusal: JobwireError | None = None
        self._pubacks_to_lose = 0
        self._guard = threading.RLock()

    def transport(self, client_id: str, *, clean_session: bool = True, user: str = "") -> "InMemoryTransport":
        """Return a new, unconnected transport to this broker."""
        return InMemoryTransport(self, client_id=client_id, clean_session=clean_session, user=user)

    # Faults.

    def stop(self) -> None:
        """Go down: every connection is lost, nobody can connect or publish."""
        with self._guard:
            self._running = False
            for session in list(self._sessions.values()):
                self._cut(session, "the broker stopped")

    def start(self, *, forget: bool = False) -> None:
        """Come up again; every transport that was connected reconnects.

        `forget` loses sessions and retained messages, as a broker without persistence would.
        """
        with self._guard:
            self._running = True
            lost = [t for s in self._sessions.values() if (t := s.connection) is not None]
            if forget:
                self._sessions.clear()
                self.retained.clear()
            for transport in lost:
                self._attach(transport)

    def disconnect(self, client_id: str, *, forget: bool = False) -> None:
        """Break the connection of `client_id`, which reconnects at once; `forget` loses its session too."""
        with self._guard:
            session = self._sessions[client_id]
            transport = session.connection
            self._cut(session, "disconnected by the test")
            if forget:
                del self._sessions[client_id]
            if transport is not None and self._running:
                self._attach(transport)

    def refuse_connections(self, error: JobwireError | None) -> None:
        """Let every further connect fail with `error`; None accepts again."""
        self._refusal = error

    def lose_pubacks(self, count: int = 1) -> None:
        """Let the next `count` publishes arrive while their publisher is told that they may not have."""
        self._pubacks_to_lose = count

    # The protocol; called by transports.

    def connect(self, transport: "InMemoryTransport") -> None:
        """Attach `transport` or raise."""
        with self._guard:
            if not self._running:
                raise UnreachableError("the in-memory broker is down", hint="start it", cause="stopped")
            if self._refusal is not None:
                raise self._refusal
            for name in transport.filters:
                self._check_readable(transport, name)
            session = self._sessions.get(transport.client_id)
            if session is not None and session.connection is not None:
                session.connection.lost("another client took over this client id")
                session.connection = None
            self._attach(transport)

    def _attach(self, transport: "InMemoryTransport") -> None:
        if transport.clean_session:
            self._sessions.pop(transport.client_id, None)
        present = transport.client_id in self._sessions
        session = self._sessions.setdefault(transport.client_id, _Session())
        session.connection = transport
        transport.deliver(SessionStarted(present))
        redelivered = list(session.unacknowledged.values()) + list(session.waiting)
        session.unacknowledged.clear()
        session.waiting.clear()
        for message in redelivered:
            self._send(session, message, retain=False)
        for name in transport.filters:
            if name not in session.filters:
                self._subscribe(session, name)

    def _cut(self, session: _Session, reason: str) -> None:
        if session.connection is not None:
            session.connection.lost(reason)

    def detach(self, transport: "InMemoryTransport") -> None:
        """Take note of a clean disconnect."""
        with self._guard:
            session = self._sessions.get(transport.client_id)
            if session is None or session.connection is not transport:
                return
            session.connection = None
            if transport.clean_session:
                del self._sessions[transport.client_id]

    def subscribe(self, transport: "InMemoryTransport", filters: list[str]) -> None:
        """Add `filters` and send what is retained, or raise RefusedError."""
        with self._guard:
            for name in filters:
                self._check_readable(transport, name)
            session = self._sessions[transport.client_id]
            for name in filters:
                self._subscribe(session, name)

    def _check_readable(self, transport: "InMemoryTransport", name: str) -> None:
        if not self.access(transport.user, "subscribe", name):
            raise RefusedError(
                f"the broker refused the subscription to {name}", cause="subscribe", filters=(name,)
            )

    def _subscribe(self, session: _Session, name: str) -> None:
        session.filters[name] = None
        for topic, message in self.retained.items():
            if filter_matches(name, topic):
                self._send(session, message, retain=True)

    def publish(self, transport: "InMemoryTransport", message: PublishedMessage) -> None:
        """Accept and distribute `message`, or raise."""
        with self._guard:
            if not self._running:
                raise UnreachableError("the in-memory broker is down", hint="start it", cause="stopped")
            if not self.access(transport.user, "publish", message.topic):
                raise RefusedError(
                    f"the broker refused the message to {message.topic}", cause="publish", topic=message.topic
                )
            self.published.append(message)
            self._retain(message)
            for session in self._sessions.values():
                if any(filter_matches(name, message.topic) for name in session.filters):
                    self._send(session, message, retain=False)
            if self._pubacks_to_lose:
                self._pubacks_to_lose -= 1
                raise UnreachableError("the connection was lost before the broker answered", cause="lost")

    def _retain(self, message: PublishedMessage) -> None:
        if message.retain and message.payload:
            self.retained[message.topic] = message
        elif message.retain:
            self.retained.pop(message.topic, None)

    def _send(self, session: _Session, message: PublishedMessage, *, retain: bool) -> None:
        transport = session.connection
        if transport is None or transport.is_lost:
            session.waiting.append(message)
            return
        session.last_packet_id += 1
        session.unacknowledged[session.last_packet_id] = message
        transport.deliver_message(message, session.last_packet_id, retain=retain)

    def acknowledged(self, transport: "InMemoryTransport", packet_ids: Iterable[int]) -> None:
        """Forget messages that their receiver is done with."""
        with self._guard:
            session = self._sessions.get(transport.client_id)
            if session is not None and session.connection is transport:
                for packet_id in packet_ids:
                    session.unacknowledged.pop(packet_id, None)

    def unacknowledged(self, client_id: str) -> list[bytes]:
        """Return the payloads that `client_id` got or is yet to get, and has not acknowledged."""
        with self._guard:
            session = self._sessions.get(client_id)
            if session is None:
                return []
            return [m.payload for m in (*session.unacknowledged.values(), *session.waiting)]


class InMemoryTransport:
    """Implements `jobwire.core.ports.Transport` against an InMemoryBroker."""

    def __init__(self, broker: InMemoryBroker, *, client_id: str, clean_session: bool, user: str) -> None:
        self.client_id = client_id
        self.clean_session = clean_session
        self.user = user
        self.filters: dict[str, None] = {}
        self.is_lost = False
        self._broker = broker
        self._connected = False
        self._incoming: deque[Incoming] = deque()
        self._arrived = threading.Condition()
        self._ledger = AckLedger()

    def connect(self, deadline_seconds: float) -> None:  # noqa: ARG002 - the port's signature
        """See the port."""
        self.is_lost = False
        try:
            self._broker.connect(self)
        except RefusedError as error:
            self._forget_refused(error)
            raise
        self._connected = True

    def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        retain: bool,
        deadline_seconds: float,  # noqa: ARG002 - the port's signature
        expiry_seconds: int | None = None,
    ) -> None:
        """See the port."""
        self._check_connected()
        self._broker.publish(
            self, PublishedMessage(self.client_id, topic, bytes(payload), retain, expiry_seconds)
        )

    def subscribe(self, filters: Iterable[str], *, deadline_seconds: float = 10.0) -> None:  # noqa: ARG002
        """See the port."""
        wanted = list(filters)
        self.filters.update(dict.fromkeys(wanted))
        if not self._connected:
            return
        try:
            self._broker.subscribe(self, wanted)
        except RefusedError as error:
            self._forget_refused(error)
            raise

    def receive(self, timeout_seconds: float) -> Incoming | None:
        """See the port."""
        taken = self.receive_many(1, timeout_seconds)
        return taken[0] if taken else None

    def receive_many(self, max_items: int, timeout_seconds: float) -> list[Incoming]:
        """See the port."""
        deadline = time.monotonic() + timeout_seconds
        with self._arrived:
            self._check_connected()
            while not self._incoming:
                self._check_connected()
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    return []
                self._arrived.wait(remaining)
            return [self._incoming.popleft() for _ in range(min(max_items, len(self._incoming)))]

    def acknowledge(self, message: Message) -> None:
        """See the port."""
        self.acknowledge_many((message,))

    def acknowledge_many(self, messages: Iterable[Message]) -> None:
        """See the port."""
        self._ledger.request([m.acknowledge for m in messages if m.acknowledge is not None])
        self._broker.acknowledged(self, self._ledger.release())

    def close(self) -> None:
        """See the port."""
        if self._connected:
            self._connected = False
            self._broker.detach(self)
            with self._arrived:
                self._arrived.notify_all()

    # Called by the broker, under its lock.

    def deliver(self, item: Incoming) -> None:
        """Append `item` to what `receive` returns."""
        if isinstance(item, SessionStarted):
            self.is_lost = False
        with self._arrived:
            self._incoming.append(item)
            self._arrived.notify_all()

    def deliver_message(self, message: PublishedMessage, packet_id: int, *, retain: bool) -> None:
        """Append a message under a token of this connection."""
        token = self._ledger.received(packet_id)
        self.deliver(Message(message.topic, message.payload, retain, 1, token))

    def lost(self, reason: str) -> None:
        """Take note that the connection is gone."""
        self._ledger.connection_lost()
        if not self.is_lost:
            self.is_lost = True
            self.deliver(SessionLost(reason))

    def _check_connected(self) -> None:
        if not self._connected:
            raise TransportError(
                "the transport is not connected", hint="call connect first", cause="closed_by_us"
            )

    def _forget_refused(self, error: RefusedError) -> None:
        refused = error.facts.get("filters")
        for name in refused if isinstance(refused, tuple) else ():
            self.filters.pop(name, None)
