"""A server that says exactly what a test wrote down: for the answers no real broker gives on demand."""

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from jobwire.testing.raw_mqtt import read_packet

_DEADLINE_SECONDS = 60.0
Script = Callable[["Peer"], None]


class Peer:
    """One accepted connection, reading and writing whole MQTT packets; blocking, with a deadline."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def read_packet(self) -> tuple[int, bytes]:
        """Return type (the upper four bits of byte 1) and body of the next packet."""
        kind, _, body = read_packet(self._connection)
        return kind, body

    def send(self, data: bytes) -> None:
        """Send raw bytes."""
        self._connection.sendall(data)

    def expect(self, kind: int) -> bytes:
        """Read packets until one of type `kind`, and return its body."""
        while True:
            found, body = self.read_packet()
            if found == kind:
                return body

    def certificate(self) -> dict[str, object]:
        """Return the client's verified certificate as `ssl.SSLSocket.getpeercert` does, {} without."""
        if not isinstance(self._connection, ssl.SSLSocket):
            return {}
        return dict(self._connection.getpeercert() or {})

    def wait_for_end(self) -> None:
        """Read until the client closes."""
        with contextlib.suppress(OSError):
            while self._connection.recv(4096):
                pass


# Packet types (MQTT 3.1.1, 2.2.1).
CONNECT, PUBLISH, SUBSCRIBE = 1, 3, 8


def connack(code: int = 0, *, session_present: bool = False, version5: bool = False) -> bytes:
    """Return a CONNACK."""
    body = bytes((session_present, code)) + (b"\0" if version5 else b"")
    return bytes((0x20, len(body))) + body


def suback(request: bytes, *codes: int, version5: bool = False) -> bytes:
    """Return a SUBACK to the body of a SUBSCRIBE."""
    body = request[:2] + (b"\0" if version5 else b"") + bytes(codes)
    return bytes((0x90, len(body))) + body


def puback(request: bytes, code: int = 0) -> bytes:
    """Return a PUBACK to the body of a PUBLISH; a code other than 0 exists in MQTT 5 only."""
    (topic_length,) = struct.unpack("!H", request[:2])
    packet_id = request[2 + topic_length : 4 + topic_length]
    return b"\x40\x03" + packet_id + bytes((code,)) if code else b"\x40\x02" + packet_id


def publish(topic: bytes, payload: bytes, *, packet_id: int = 0, version5: bool = False) -> bytes:
    """Return a PUBLISH with QoS 1, or QoS 0 without a packet id; up to 127 bytes."""
    body = struct.pack("!H", len(topic)) + topic
    body += struct.pack("!H", packet_id) if packet_id else b""
    body += (b"\0" if version5 else b"") + payload
    return bytes((0x32 if packet_id else 0x30, len(body))) + body


class ScriptedServer:
    """Runs one script a connection, in order of arrival; the last one serves all further ones.

    With `context` it speaks TLS. A script that raises because its client hung up is fine; any other
    exception is raised again when the server is left.
    """

    def __init__(self, *scripts: Script, context: ssl.SSLContext | None = None) -> None:
        self._scripts = scripts
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.host = "127.0.0.1"
        self.connections = 0
        self._errors: list[BaseException] = []
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, name="scripted-server", daemon=True)
        self._workers: list[threading.Thread] = []

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.settimeout(_DEADLINE_SECONDS)
            script = self._scripts[min(self.connections, len(self._scripts) - 1)]
            self.connections += 1
            worker = threading.Thread(target=self._serve, args=(connection, script), daemon=True)
            self._workers.append(worker)
            worker.start()

    def _serve(self, connection: socket.socket, script: Script) -> None:
        try:
            if self._context is not None:
                connection = self._context.wrap_socket(connection, server_side=True)
            self._open.append(connection)
            script(Peer(connection))
        except OSError:
            pass  # the client ended it, as most of these tests want it to
        except BaseException as error:  # noqa: BLE001 - raised again in __exit__
            self._errors.append(error)
        finally:
            connection.close()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # close alone does not wake a thread that is in accept or recv; shutdown does.
        for sock in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(_DEADLINE_SECONDS)
        for worker in self._workers:
            worker.join(_DEADLINE_SECONDS)
        if self._errors and error is None:
            raise self._errors[0]
