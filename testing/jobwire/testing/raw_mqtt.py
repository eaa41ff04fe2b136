"""A client that sends exactly what a test tells it to, packet by packet.

It can stay silent, not acknowledge, break the protocol and look at each byte that comes back. Not for
applications: those use jobwire.transport.
"""

import contextlib
import socket
import ssl
from collections import deque
from pathlib import Path
from typing import NamedTuple, Self

CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = 1, 2, 3, 4, 5, 6, 7
SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT = 8, 9, 10, 11, 12, 13, 14
LEVEL_3_1_1, LEVEL_5 = 4, 5
_CONTINUED = 0x80


class Packet(NamedTuple):
    """One packet as it came: the type, the flag bits of the first byte, and the rest."""

    kind: int
    flags: int
    body: bytes


class Publish(NamedTuple):
    """A received PUBLISH."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    dup: bool
    packet_id: int | None


class Will(NamedTuple):
    """What CONNECT asks the broker to publish if the client vanishes."""

    topic: str
    payload: bytes
    qos: int = 1
    retain: bool = False


class ConnectionClosedError(Exception):
    """The broker ended the connection, or never let it come about."""


class ConnectRefusedError(Exception):
    """The broker answered CONNECT with `code`."""

    def __init__(self, code: int) -> None:
        super().__init__(f"CONNACK {code}")
        self.code = code


def text(value: str | bytes) -> bytes:
    """Return an MQTT string: two bytes of length, then UTF-8 (bytes are taken as they are)."""
    raw = value.encode() if isinstance(value, str) else value
    return len(raw).to_bytes(2, "big") + raw


def packet(kind: int, flags: int, body: bytes) -> bytes:
    """Return a packet with its fixed header (MQTT 3.1.1, 2.2)."""
    length, encoded = len(body), bytearray()
    while True:
        length, digit = divmod(length, _CONTINUED)
        encoded.append(digit | (_CONTINUED if length else 0))
        if not length:
            return bytes([kind << 4 | flags]) + bytes(encoded) + body


def client_context(
    ca: Path,
    certfile: Path | None = None,
    keyfile: Path | None = None,
    *,
    tls12: bool = False,
    check_host_name: bool = True,
) -> ssl.SSLContext:
    """Return a client's TLS context that trusts `ca`, with a client certificate where given."""
    context = ssl.create_default_context(cafile=ca)
    context.check_hostname = check_host_name
    context.minimum_version = ssl.TLSVersion.TLSv1_2 if tls12 else ssl.TLSVersion.TLSv1_3
    if tls12:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    if certfile is not None:
        context.load_cert_chain(certfile, keyfile)
    return context


class RawClient:
    """One connection. All reads time out after `deadline_seconds` with TimeoutError."""

    def __init__(
        self, host: str, port: int, context: ssl.SSLContext | None, *, deadline_seconds: float = 10.0
    ) -> None:
        """Connect TCP and TLS; raises ConnectionClosedError if the handshake is refused."""
        plain = socket.create_connection((host, port), timeout=deadline_seconds)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket: socket.socket = plain
        try:
            if context is not None:
                self.socket = context.wrap_socket(plain, server_hostname=host)
        except OSError as error:
            plain.close()
            raise ConnectionClosedError(str(error)) from error
        self.level = LEVEL_3_1_1
        self.session_present = False
        self.received: deque[Publish] = deque()
        self._next_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()

    def connect(
        self,
        client_id: str = "",
        *,
        username: str | None = None,
        password: str | None = None,
        clean: bool = True,
        keep_alive: int = 60,
        will: Will | None = None,
        level: int = LEVEL_3_1_1,
    ) -> Self:
        """Send CONNECT; raises ConnectRefusedError with the code, ConnectionClosedError without an answer.

        The socket is closed when it raises.
        """
        self.level = level
        flags = 0x02 if clean else 0
        body = text(client_id)
        if will is not None:
            flags |= 0x04 | will.qos << 3 | (0x20 if will.retain else 0)
            body += self._properties + text(will.topic) + text(will.payload)
        if username is not None:
            flags |= 0x80
            body += text(username)
        if password is not None:
            flags |= 0x40
            body += text(password)
        head = text("MQTT") + bytes([level, flags]) + keep_alive.to_bytes(2, "big")
        try:
            self.send(CONNECT, 0, head + self._properties + body)
            self.session_present = self._connack()
        except BaseException:
            self.drop()
            raise
        return self

    def _connack(self) -> bool:
        answer = self.read()
        if answer.kind != CONNACK:
            raise ConnectionClosedError(f"packet type {answer.kind} instead of CONNACK")
        if answer.body[1]:
            raise ConnectRefusedError(answer.body[1])
        return bool(answer.body[0] & 1)

    def send(self, kind: int, flags: int = 0, body: bytes = b"") -> None:
        """Send one packet; raises ConnectionClosedError."""
        self.send_bytes(packet(kind, flags, body))

    def send_bytes(self, data: bytes) -> None:
        """Send bytes as they are; raises ConnectionClosedError."""
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise ConnectionClosedError(str(error)) from error

    def read(self) -> Packet:
        """Return the next packet; raises ConnectionClosedError or TimeoutError."""
        try:
            return read_packet(self.socket)
        except TimeoutError:
            raise
        except OSError as error:
            raise ConnectionClosedError(str(error)) from error

    def expect(self, kind: int) -> Packet:
        """Return the next packet of `kind`; PUBLISH packets on the way go to `received`."""
        while True:
            found = self.read()
            if found.kind == kind:
                return found
            if found.kind == PUBLISH:
                self.received.append(parse_publish(found, level=self.level))

    def subscribe(self, topic_filter: str, qos: int = 1) -> int:
        """Return the SUBACK code."""
        identifier = self.next_id()
        head = identifier.to_bytes(2, "big") + self._properties
        self.send(SUBSCRIBE, 2, head + text(topic_filter) + bytes([qos]))
        return self.expect(SUBACK).body[-1]

    def publish(
        self, topic: str | bytes, payload: bytes, *, qos: int = 1, retain: bool = False, wait: bool = True
    ) -> int:
        """Publish and wait for the PUBACK of QoS 1 unless told not to; return its reason (0 in 3.1.1)."""
        head = text(topic) + (self.next_id().to_bytes(2, "big") if qos else b"") + self._properties
        self.send(PUBLISH, qos << 1 | int(retain), head + payload)
        if qos != 1 or not wait:
            return 0
        answer = self.expect(PUBACK).body
        # Version 5 leaves the reason out where it is 0 (MQTT 5, 3.4.2.1).
        return answer[2] if len(answer) > 2 else 0  # noqa: PLR2004 - after the packet id

    def acknowledge(self, message: Publish) -> None:
        """Send the PUBACK of a received QoS 1 message."""
        self.send(PUBACK, 0, (message.packet_id or 0).to_bytes(2, "big"))

    def next_message(self) -> Publish:
        """Return the next PUBLISH; raises TimeoutError or ConnectionClosedError."""
        if not self.received:
            self.received.append(parse_publish(self.expect(PUBLISH), level=self.level))
        return self.received.popleft()

    def settle(self) -> list[Publish]:
        """Return everything the broker had sent before it answered a PINGREQ just now.

        What a broker routed before it read the ping is written before the answer, so an empty list shows that
        nothing came without waiting for time to pass.
        """
        self.send(PINGREQ)
        self.expect(PINGRESP)
        messages = list(self.received)
        self.received.clear()
        return messages

    def disconnect(self) -> None:
        """Say DISCONNECT and close: no Will."""
        with contextlib.suppress(ConnectionClosedError):
            self.send(DISCONNECT)
        self.drop()

    def drop(self) -> None:
        """Close without a word, as a crash does."""
        self.socket.close()

    def closed_by_broker(self) -> bool:
        """Tell whether the broker ends the connection before the deadline; reads away what comes."""
        try:
            while True:
                self.read()
        except ConnectionClosedError:
            return True
        except TimeoutError:
            return False

    @property
    def _properties(self) -> bytes:
        # An empty property list is one byte in version 5 and nothing before.
        return b"\0" if self.level == LEVEL_5 else b""

    def next_id(self) -> int:
        """Return a fresh packet id."""
        self._next_id = self._next_id % 65_535 + 1
        return self._next_id


def read_packet(connection: socket.socket) -> Packet:
    """Return the next packet; raises OSError, at the end of the stream ConnectionError."""
    first = _exactly(connection, 1)[0]
    length = shift = 0
    while True:
        digit = _exactly(connection, 1)[0]
        length |= (digit & ~_CONTINUED) << shift
        shift += 7
        if not digit & _CONTINUED:
            return Packet(first >> 4, first & 0x0F, _exactly(connection, length))


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise ConnectionError("end of stream")
        data += part
    return data


def parse_publish(found: Packet, *, level: int = LEVEL_3_1_1) -> Publish:
    """Return the message of a PUBLISH packet."""
    length = int.from_bytes(found.body[:2], "big")
    topic, rest = found.body[2 : 2 + length].decode(), found.body[2 + length :]
    qos = found.flags >> 1 & 3
    identifier = int.from_bytes(rest[:2], "big") if qos else None
    payload = rest[2:] if qos else rest
    if level == LEVEL_5:
        # What we ask for never fills more than one byte of property length.
        payload = payload[1 + payload[0] :]
    return Publish(topic, payload, qos, bool(found.flags & 1), bool(found.flags & 8), identifier)
