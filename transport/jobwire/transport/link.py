"""One MQTT connection, from TCP connect to close, driven by one thread."""

import select
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from jobwire.core.errors import UnreachableError
from jobwire.core.ports import LastWill, Message
from jobwire.core.settings import BrokerSettings
from jobwire.transport import failures
from jobwire.transport.acknowledgements import AckLedger
from jobwire.transport.paho_client import (
    MQTTMessage,
    PahoClient,
    ReasonCode,
    SubscribeOptions,
    connect_properties,
    publish_properties,
)
from jobwire.transport.sockets import BufferedSocket, open_socket
from jobwire.transport.waker import Waker

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl

# What a topic becomes that is not UTF-8: no filter of ours and no job has this name.
UNDECODABLE_TOPIC = "\ufffd"
_FAILURE = 0x80
_BURST = 128
_PROTOCOL_ERROR = 2  # paho's MQTT_ERR_PROTOCOL
_READABLE = select.POLLIN | select.POLLHUP | select.POLLERR | select.POLLNVAL


class SessionOptions(NamedTuple):
    """How we present ourselves; `expiry_seconds` and `receive_maximum` exist in MQTT 5 only."""

    client_id: str
    clean: bool
    expiry_seconds: int
    keepalive_seconds: int
    receive_maximum: int
    will: LastWill | None = None


class LinkHandler(Protocol):
    """What a link reports, in its own thread. An exception raised here comes out of `pump`."""

    def on_connack(self, *, session_present: bool) -> None:
        """Take note that the broker accepted us."""
        ...

    def on_messages(self, messages: Sequence[Message]) -> None:
        """Take what one burst of reading brought."""
        ...

    def on_puback(self, packet_id: int, code: int, name: str) -> None:
        """Take the answer to a publish."""
        ...

    def on_suback(self, packet_id: int, codes: Sequence[int]) -> None:
        """Take the answer to a subscribe, one code a filter."""
        ...


class Link:
    """Speaks MQTT over one socket. Nothing survives it: a new connection is a new link.

    So nothing unacknowledged of an old connection can be sent again by itself, as paho would do.
    """

    def __init__(
        self,
        *,
        settings: BrokerSettings,
        session: SessionOptions,
        context: "ssl.SSLContext | None",
        handler: LinkHandler,
        ledger: AckLedger,
        waker: Waker,
    ) -> None:
        self._settings = settings
        self._session = session
        self._context = context
        self._handler = handler
        self._ledger = ledger
        self._waker = waker
        self.version5 = settings.protocol != "3.1.1"
        self.accepted = False
        self._deadline = 0.0
        self._ended_by: ReasonCode | None = None
        self._socket: BufferedSocket | None = None
        self._messages: list[Message] = []
        self._poll = select.poll()
        self._poll.register(waker.fileno(), select.POLLIN)
        self._mask = 0
        self._client = self._new_client()

    def _new_client(self) -> PahoClient:
        client = PahoClient(
            self._open_socket,
            client_id=self._session.client_id,
            clean_session=self._session.clean,
            version5=self.version5,
        )
        if self._settings.username is not None:
            password = self._settings.password
            client.username_pw_set(self._settings.username, password.reveal() if password else None)
        if (will := self._session.will) is not None:
            client.will_set(will.topic, will.payload, qos=1, retain=True)
        client.on_connect = self._on_connect
        client.on_message = self._on_message
        client.on_publish = self._on_publish
        client.on_subscribe = self._on_subscribe
        client.on_disconnect = self._on_disconnect
        return client

    def open(self, deadline: float) -> None:
        """Connect the socket and queue CONNECT; raises TransportError by monotonic time `deadline`."""
        self._deadline = deadline
        host, port, keepalive = self._settings.host, self._settings.port, self._session.keepalive_seconds
        try:
            if self.version5:
                properties = connect_properties(
                    expiry_seconds=0 if self._session.clean else self._session.expiry_seconds,
                    receive_maximum=self._session.receive_maximum,
                )
                self._client.connect(
                    host, port, keepalive, clean_start=self._session.clean, properties=properties
                )
            else:
                self._client.connect(host, port, keepalive)
        except OSError as error:
            raise failures.opening_failed(error, self._settings) from error

    def _open_socket(self) -> BufferedSocket:
        raw = open_socket(
            self._settings.host, self._settings.port, context=self._context, deadline=self._deadline
        )
        self._socket = BufferedSocket(raw)
        return self._socket

    def pump(self, timeout_seconds: float, *, reading: bool) -> None:
        """Send what is queued, wait for something to do, read and dispatch it.

        Raises TransportError when the connection is over. With `reading` False incoming bytes stay
        in the kernel, so TCP slows the broker down.
        """
        sock = self._send()
        ready = self._wait(sock, timeout_seconds, reading=reading)
        if ready & select.POLLIN or (reading and not sock.drained):
            self._read(sock)
        if reading:
            # Not while reading is off: paho would miss the unread PINGRESP and hang up.
            self._check(self._client.loop_misc())

    def _send(self) -> BufferedSocket:
        sock = self._socket
        if sock is None:
            raise self._lost()
        for packet_id in self._ledger.release():
            self._client.ack(packet_id, 1)
        if self._client.want_write():
            self._check(self._client.loop_write())
        try:
            sock.flush()
        except OSError as error:
            raise self._lost() from error
        return sock

    def _wait(self, sock: BufferedSocket, timeout_seconds: float, *, reading: bool) -> int:
        """Return POLLIN if the socket is readable, else 0."""
        mask = (select.POLLIN if reading else 0) | (select.POLLOUT if sock.unsent else 0)
        if mask != self._mask:
            # poll() reports a hang-up even for an empty mask: then the socket must not be in the set.
            (self._poll.register if mask else self._poll.unregister)(
                sock.fileno(), *((mask,) if mask else ())
            )
            self._mask = mask
        ready = 0
        pending = reading and not sock.drained
        for descriptor, events in self._poll.poll(0 if pending else max(0.0, timeout_seconds) * 1000):
            if descriptor == self._waker.fileno():
                self._waker.clear()
            elif events & _READABLE:
                ready = select.POLLIN
        return ready

    def _read(self, sock: BufferedSocket) -> None:
        """Read up to a burst of packets; paho handles one a call."""
        sock.drained = False
        client = self._client
        try:
            for _ in range(_BURST):
                rc = client.loop_read()
                if rc:
                    self._check(rc)
                if sock.drained:
                    break
        finally:
            if self._messages:
                messages, self._messages = self._messages, []
                self._handler.on_messages(messages)

    def publish(self, topic: str, payload: bytes, *, retain: bool, expiry_seconds: int | None) -> int:
        """Queue one PUBLISH and return its packet id."""
        properties = None
        if self.version5 and expiry_seconds is not None:
            properties = publish_properties(expiry_seconds=expiry_seconds)
        return self._client.publish(topic, payload, qos=1, retain=retain, properties=properties).mid

    def subscribe(self, filters: Sequence[str], *, again: bool) -> int:
        """Queue one SUBSCRIBE and return its packet id.

        `again`: after a reconnect, retained messages are wanted only for subscriptions that the
        broker did not keep (MQTT 5, 3.8.3.1, Retain Handling 1); 3.1.1 sends them always. A shared
        subscription gets none (4.8.2), which Mosquitto 2.0.11 must be told (Retain Handling 2).
        """
        if self.version5:
            usual = SubscribeOptions(qos=1, retainHandling=1 if again else 0)
            shared = SubscribeOptions(qos=1, retainHandling=2)
            packet_id = self._client.subscribe(
                [(name, shared if name.startswith("$share/") else usual) for name in filters]
            )[1]
        else:
            packet_id = self._client.subscribe([(name, 1) for name in filters])[1]
        if packet_id is None:
            raise self._lost()
        return packet_id

    def disconnect(self) -> None:
        """Send DISCONNECT after everything queued, as far as the kernel takes it, and close."""
        if self.accepted and self._socket is not None:
            for packet_id in self._ledger.release():
                self._client.ack(packet_id, 1)
            self._client.disconnect()
            self._client.loop_write()
        self.close()

    def close(self) -> None:
        """Close the socket."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _check(self, rc: int) -> None:
        if rc == _PROTOCOL_ERROR and not self.accepted and not self.version5:
            raise failures.wrong_version(self._settings)
        if rc or self._client.socket() is None:
            raise self._lost()

    def _lost(self) -> Exception:
        failure = self._socket.failure if self._socket is not None else None
        if not self.accepted:
            return failures.lost_before_connack(self._settings, failure)
        if self._ended_by is not None:
            reason, cause = f"the broker ended it: {self._ended_by.getName()}", "server_disconnect"
        elif failure is not None:
            reason, cause = failure.strerror or str(failure), "network"
        else:
            reason, cause = "closed by the broker, or no sign of life from it", "closed"
        return UnreachableError(
            f"lost the connection to {self._settings.address}: {reason}",
            hint="the broker may be restarting, or another client uses the same client id",
            cause=cause,
            address=self._settings.address,
        )

    # paho's callbacks: the first two parameters are the client and its user data.

    def _on_connect(self, _c: object, _u: object, flags: object, reason: ReasonCode, _p: object) -> None:
        if reason.value >= _FAILURE:
            raise failures.connect_refused(reason.value, reason.getName(), self._settings)
        self.accepted = True
        self._handler.on_connack(session_present=bool(getattr(flags, "session_present", False)))

    def _on_message(self, _c: object, _u: object, message: MQTTMessage) -> None:
        try:
            topic = message.topic
        except UnicodeDecodeError:
            topic = UNDECODABLE_TOPIC
        token = self._ledger.received(message.mid) if message.qos else None
        self._messages.append(
            Message(topic, bytes(message.payload), bool(message.retain), message.qos, token)
        )

    def _on_publish(self, _c: object, _u: object, packet_id: int, reason: ReasonCode, _p: object) -> None:
        self._handler.on_puback(packet_id, reason.value, reason.getName())

    def _on_subscribe(
        self, _c: object, _u: object, packet_id: int, reasons: Sequence[ReasonCode], _p: object
    ) -> None:
        self._handler.on_suback(packet_id, [reason.value for reason in reasons])

    def _on_disconnect(self, _c: object, _u: object, flags: object, reason: ReasonCode, _p: object) -> None:
        if getattr(flags, "is_disconnect_packet_from_server", False):
            self._ended_by = reason
