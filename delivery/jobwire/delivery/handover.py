"""Hands a kept event over to the registry process of its home, which has a connection to the broker open.

One line of JSON a message, over a Unix socket in the home:

    worker   {"job": ID, "seq": N, "expiry": SECONDS | null, "broker": NAME | null, ...}
    process  {"taken": true}                            at once
             {"delivered": true, "confirmed": true}     when the broker and the record have the event
             {"delivered": false, "reason": REASON}     where it cannot: the worker then does it, or tells why

The event is on the disk before, so whatever goes wrong here costs time and nothing else.
"""

# Not `socket`, which brings selectors and arrays: half of what a worker's start costs beyond Python's own.
import _socket as socket
import json
import os
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from jobwire.core.clock import Clock

SOCKET_FILE = "serve.sock"
MAX_MESSAGE = 1024
# A process that is alive answers in a millisecond; one that is stopped (SIGSTOP) never does.
TAKEN_SECONDS = 1.0
_QUEUE_SECONDS = 0.02
# As long as a PUBACK and the record may take; the process itself gives up before that.
ANSWER_SECONDS = 9.0
# What did not answer is left alone for so long by whoever speaks again and again.
_QUIET_SECONDS = 30.0
# sun_path has 108 bytes on Linux (unix(7)).
_LONGEST_PATH = 107
_NO_BROKER = "no_broker"


class HandedOver(NamedTuple):
    """What became of an event: `delivered` and `confirmed` as in `Delivery`.

    `no_broker` is the address at which the process finds no broker; empty where that is not the matter.
    """

    delivered: bool
    confirmed: bool = False
    no_broker: str = ""


class HandOver:
    """A worker's connection to the registry process of its home; not thread-safe.

    `wishes` are the broker settings that the worker brings along: a process that uses others does not send
    for it. `expiry_seconds` is for retained terminal events; None leaves it to the process, 0 is never.
    """

    def __init__(
        self, home: str, *, wishes: Mapping[str, object], expiry_seconds: int | None, clock: Clock
    ) -> None:
        self._home = home
        self._wishes = dict(wishes)
        self._expiry_seconds = expiry_seconds
        self._clock = clock
        self._socket: socket.socket | None = None
        self._unread = b""
        self._not_before = 0.0

    def connect(self) -> bool:
        """Tell whether a process is there to hand over to; connects where needed."""
        if self._socket is not None:
            return True
        if self._clock.monotonic() < self._not_before:
            return False
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            connection.settimeout(TAKEN_SECONDS)
            with socket_address(self._home) as address:
                self._queue_up(connection, address)
            if peer_uid(connection) in {os.geteuid(), 0}:
                self._socket = connection
                return True
        except OSError:
            pass  # no process, or one that was killed and left its socket
        connection.close()
        return False

    def _queue_up(self, connection: socket.socket, address: str) -> None:
        """Connect; a full queue answers EAGAIN at once, whatever the timeout (connect(2)). Raises OSError."""
        give_up = self._clock.monotonic() + TAKEN_SECONDS
        while True:
            try:
                connection.connect(address)
            except BlockingIOError:
                if self._clock.monotonic() >= give_up:
                    raise
                self._clock.sleep(_QUEUE_SECONDS)
            else:
                return

    def deliver(self, job_id: str, seq: int) -> HandedOver | None:
        """Have everything up to `seq` sent and confirmed. None where the worker has to send by itself.

        Blocks for TAKEN_SECONDS where the process stands still, for ANSWER_SECONDS where it hangs later.
        """
        if not self.connect() or self._socket is None:
            return None
        request = {"job": job_id, "seq": seq, "expiry": self._expiry_seconds, **self._wishes}
        try:
            self._socket.sendall(json.dumps(request).encode() + b"\n")
            answer = self._read(self._socket, TAKEN_SECONDS)
            if answer.get("taken") is True:
                answer = self._read(self._socket, ANSWER_SECONDS)
        except (OSError, ValueError):
            self.close()
            self._not_before = self._clock.monotonic() + _QUIET_SECONDS
            return None
        if answer.get("delivered") is True:
            return HandedOver(delivered=True, confirmed=answer.get("confirmed") is True)
        if answer.get("reason") == _NO_BROKER:
            return HandedOver(delivered=False, no_broker=str(answer.get("address")))
        return None

    def mention(self, job_id: str, seq: int) -> bool:
        """Have everything up to `seq` sent, without waiting for the broker; tell whether that was taken."""
        if not self.connect() or self._socket is None:
            return False
        request = {"job": job_id, "seq": seq, "expiry": self._expiry_seconds, **self._wishes}
        try:
            self._socket.sendall(json.dumps(request).encode() + b"\n")
            return self._read(self._socket, TAKEN_SECONDS).get("taken") is True
        except (OSError, ValueError):
            return False
        finally:
            self.close()

    def close(self) -> None:
        """Disconnect; idempotent."""
        if self._socket is not None:
            self._socket.close()
            self._socket, self._unread = None, b""

    def _read(self, connection: socket.socket, seconds: float) -> dict[str, object]:
        """Return the next message; raises OSError or ValueError where none comes."""
        give_up = self._clock.monotonic() + seconds
        while b"\n" not in self._unread:
            connection.settimeout(max(0.001, give_up - self._clock.monotonic()))
            more = connection.recv(MAX_MESSAGE)
            self._unread += more
            if not more or len(self._unread) > MAX_MESSAGE:
                raise ConnectionAbortedError
        line, _, self._unread = self._unread.partition(b"\n")
        message = json.loads(line)
        return message if isinstance(message, dict) else {}


@contextmanager
def socket_address(home: str) -> Iterator[str]:
    """Give the name by which the home's socket can be bound or connected to, however deep the home lies."""
    path = f"{os.path.abspath(home)}/{SOCKET_FILE}"  # noqa: PTH100 - pathlib is an import more at start-up
    if len(os.fsencode(path)) <= _LONGEST_PATH:
        yield path
        return
    folder = os.open(home, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{SOCKET_FILE}"
    finally:
        os.close(folder)


def peer_uid(connection: socket.socket) -> int:
    """Return whose process is at the other end, as the kernel knows it (SO_PEERCRED, unix(7))."""
    size = struct.calcsize("3i")
    _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return int(uid)


def no_broker(address: str) -> dict[str, object]:
    """Return the process's answer where it has no broker."""
    return {"delivered": False, "reason": _NO_BROKER, "address": address}
