"""The process's end of the hand-over: takes what workers here have kept, and answers when it is confirmed.

One thread reads and answers, a few others send; none of them waits for a client. A client has one request
at a time; whoever says anything else than a request, or more than fits, is disconnected.
"""

import contextlib
import errno
import json
import logging
import os
import selectors
import socket
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import Empty, Queue, SimpleQueue
from typing import NamedTuple, Protocol

from jobwire.core.canonical import MAX_INTEGER
from jobwire.core.clock import Clock
from jobwire.core.errors import JobwireError, RefusedError, TransportError
from jobwire.core.token_bucket import TokenBucket
from jobwire.core.topics import is_job_id
from jobwire.delivery.handover import MAX_MESSAGE, no_broker, peer_uid, socket_address
from jobwire.storage.failures import storage_failure

MAX_CLIENTS = 256
# Requests a second of all clients together: far more than records are written.
_BURST, _PER_SECOND = 1000, 2000
# Less than a client waits (handover.ANSWER_SECONDS): it hears how far it came.
_PATIENCE_SECONDS = 7.0
# A worker goes on when the broker has its event and the disk keeps the confirmation waiting.
_CONFIRM_SECONDS = 2.0
# A process that was just started, or a broker that restarts: who asks meanwhile is no worse off for waiting.
_AWAY_SECONDS = 2.0
_TICK_SECONDS = 0.25
# MQTT 5, 3.3.2.3.3: a four byte integer.
_MAX_EXPIRY = 2**32 - 1
_log = logging.getLogger("jobwire.registry")

Answer = Mapping[str, object]
_TAKEN: Answer = {"taken": True}
# The worker sends by itself.
_ALONE: Answer = {"delivered": False, "reason": "alone"}


class SentSoFar(NamedTuple):
    """How far a job's events came: acknowledged by the broker, confirmed in the record."""

    acked_seq: int
    confirmed_seq: int


class Send(Protocol):
    """Sends what is due of a job. Raises JobwireError, TransportError where there is no broker."""

    def __call__(self, job_id: str, *, expiry_seconds: int | None) -> SentSoFar:
        """Send; `expiry_seconds` None is the process's own, 0 is never."""
        ...


class PublishingBroker(NamedTuple):
    """Where the process publishes; what a worker brings along for another is not for it."""

    address: str
    host: str
    port: int
    topic_root: str


class HandOverRequest(NamedTuple):
    """What a client asks for."""

    job_id: str
    seq: int
    expiry_seconds: int | None


class _Client:
    __slots__ = ("delivered", "give_up_at", "request", "socket", "unread")

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.unread = b""
        self.request: HandOverRequest | None = None
        self.delivered = False
        self.give_up_at = 0.0


class HandOverServer:
    """Listens in one home. `connected` tells whether there is a broker just now."""

    def __init__(
        self, *, home: str, broker: PublishingBroker, send: Send, connected: Callable[[], bool], clock: Clock
    ) -> None:
        self._home = home
        self._broker = broker
        self._send = send
        self._connected = connected
        self._clock = clock
        self._bucket = TokenBucket(burst=_BURST, per_second=_PER_SECOND)
        self._selector = selectors.DefaultSelector()
        self._listener: socket.socket | None = None
        self._clients: dict[int, _Client] = {}
        # Who waits, by job. Changed by the reading thread alone; others ask whether a job is in it.
        self._waiting: dict[str, list[_Client]] = {}
        # Several threads take from it. A SimpleQueue's get(timeout=) waits for ever where another thread took
        # what woke it and its time was over meanwhile (CPython 3.11, Modules/_queuemodule.c).
        self._to_send: Queue[HandOverRequest] = Queue()
        self._queued: set[str] = set()
        self._queued_guard = threading.Lock()
        self._news: SimpleQueue[Callable[[], None]] = SimpleQueue()
        # Monotonic seconds: since when there has been no broker, None while there is one; the next look.
        self._away_since: float | None = None
        self._look_at = 0.0
        self._waker, self._woken = socket.socketpair()
        for end in (self._waker, self._woken):
            end.setblocking(False)
        self.handed_over = 0

    def facts(self) -> dict[str, object]:
        """Return what the health file says."""
        return {"clients": len(self._clients), "events": self.handed_over}

    def is_awaited(self, job_id: str) -> bool:
        """Tell whether a worker waits for the confirmation of this job's event; from any thread."""
        return job_id in self._waiting

    def confirmed(self, job_id: str, seq: int) -> None:
        """Note that the record has everything up to `seq`; from any thread."""
        if job_id in self._waiting:
            self._tell(lambda: self._note(job_id, confirmed_seq=seq))

    def open(self) -> None:
        """Begin to listen. The caller is the home's only registry process: a socket found there is stale.

        Raises StorageError.
        """
        try:
            with socket_address(self._home) as address:
                Path(address).unlink(missing_ok=True)
                listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
                try:
                    listener.bind(address)
                    # The home itself is its owner's alone; nobody got in between.
                    Path(address).chmod(0o600)
                    listener.listen(MAX_CLIENTS)
                    listener.setblocking(False)
                except BaseException:
                    listener.close()
                    raise
        except OSError as error:
            raise storage_failure("listen in", self._home, error) from error
        self._listener = listener
        self._away_since = self._clock.monotonic()
        self._selector.register(listener, selectors.EVENT_READ, None)
        self._selector.register(self._woken, selectors.EVENT_READ, None)

    def serve(self, stop: Callable[[], bool]) -> None:
        """Read and answer until `stop`; from one thread, after `open`."""
        while not stop():
            for key, _ in self._selector.select(_TICK_SECONDS):
                if isinstance(key.data, _Client):
                    self._read(key.data)
                elif isinstance(key.fileobj, socket.socket) and key.fileobj is not self._woken:
                    self._accept(key.fileobj)
            self._hear()
            self._look_for_broker()
            self._give_up()

    def send_next(self) -> None:
        """Send for the next job that is asked for, if there is one within a moment; from several threads."""
        try:
            request = self._to_send.get(timeout=_TICK_SECONDS)
        except Empty:
            return
        with self._queued_guard:
            self._queued.discard(request.job_id)
        job_id = request.job_id
        try:
            sent = self._send(job_id, expiry_seconds=request.expiry_seconds)
        except RefusedError:
            self._tell(lambda: self._answer_all(job_id, _ALONE))
        except TransportError:
            self._tell(self._not_sent)
        except JobwireError as error:
            _log.info("job %s is left to its worker: %s", job_id, error)
            self._tell(lambda: self._answer_all(job_id, _ALONE))
        else:
            self._tell(lambda: self._note(job_id, confirmed_seq=sent.confirmed_seq, acked_seq=sent.acked_seq))

    def close(self) -> None:
        """End: whoever waits goes on alone. Idempotent."""
        if self._listener is not None:
            with contextlib.suppress(OSError), socket_address(self._home) as address:
                Path(address).unlink()
            self._listener.close()
            self._listener = None
        for client in list(self._clients.values()):
            self._drop(client)
        for end in (self._waker, self._woken):
            end.close()
        self._selector.close()

    def _tell(self, news: Callable[[], None]) -> None:
        """Let the reading thread do something."""
        self._news.put(news)
        with contextlib.suppress(OSError):  # full: it is awake anyway; closed: it is over
            self._waker.send(b"\0")

    def _hear(self) -> None:
        with contextlib.suppress(OSError):
            while self._woken.recv(4096):
                pass
        with contextlib.suppress(Empty):
            while True:
                self._news.get_nowait()()

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except OSError as error:
            if error.errno in {errno.EMFILE, errno.ENFILE}:
                # It stays in line, and would be asked for again at once.
                self._clock.sleep(_TICK_SECONDS)
            return
        connection.setblocking(False)
        try:
            stranger = peer_uid(connection) not in {os.geteuid(), 0}
        except OSError:
            stranger = True
        if stranger or (len(self._clients) >= MAX_CLIENTS and not self._make_room()):
            connection.close()
            return
        client = self._clients[connection.fileno()] = _Client(connection)
        self._selector.register(connection, selectors.EVENT_READ, client)

    def _make_room(self) -> bool:
        """Disconnect the client that has been idle for the longest time; it connects again when it speaks."""
        idle = next((client for client in self._clients.values() if client.request is None), None)
        if idle is not None:
            self._drop(idle)
        return idle is not None

    def _read(self, client: _Client) -> None:
        try:
            more = client.socket.recv(MAX_MESSAGE)
        except BlockingIOError:
            return
        except OSError:
            more = b""
        client.unread += more
        line, end, rest = client.unread.partition(b"\n")
        if not more or client.request is not None or rest or len(client.unread) > MAX_MESSAGE:
            self._drop(client)
        elif end:
            client.unread = b""
            self._take(client, line)

    def _take(self, client: _Client, line: bytes) -> None:
        request = parse_request(line)
        if request is None:
            self._drop(client)
            return
        # The one that spoke last is the last to make room.
        self._clients[client.socket.fileno()] = self._clients.pop(client.socket.fileno())
        now = self._clock.monotonic()
        if not self._bucket.take(1, now) or not self._is_ours(line):
            self._answer(client, _ALONE)
        elif self._is_away(now):
            self._answer(client, no_broker(self._broker.address))
        elif self._say(client, _TAKEN):
            client.request, client.delivered = request, False
            client.give_up_at = now + _PATIENCE_SECONDS
            self._waiting.setdefault(request.job_id, []).append(client)
            if self._away_since is None:
                self._queue(request)

    def _queue(self, request: HandOverRequest) -> None:
        with self._queued_guard:
            if request.job_id in self._queued:
                return
            self._queued.add(request.job_id)
        self._to_send.put(request)

    def _is_away(self, now: float) -> bool:
        return self._away_since is not None and now - self._away_since >= _AWAY_SECONDS

    def _look_for_broker(self) -> None:
        """Send what waited for the connection when it stands; what waits in vain is told so.

        Not before: a broker that was killed knows nothing of the registry's session until it is back, and
        would take the events and forget them.
        """
        now = self._clock.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + _TICK_SECONDS
        if self._connected():
            if self._away_since is not None:
                for client in self._unsent():
                    if client.request is not None:
                        self._queue(client.request)
            self._away_since = None
        elif self._away_since is None:
            self._away_since = now
        elif self._is_away(now):
            for client in self._unsent():
                self._answer(client, no_broker(self._broker.address))

    def _unsent(self) -> list[_Client]:
        return [client for clients in self._waiting.values() for client in clients if not client.delivered]

    def _not_sent(self) -> None:
        """Note that the broker was not reached: tried again at the next look, unless it is away by then."""
        if self._away_since is None:
            self._away_since = self._clock.monotonic()

    def _is_ours(self, line: bytes) -> bool:
        """Tell whether the broker settings that the worker brings along are ours."""
        wishes = json.loads(line)
        ours = {"broker": self._broker.host, "port": self._broker.port, "topic_root": self._broker.topic_root}
        return all(wishes.get(name) in (None, value, str(value)) for name, value in ours.items())

    def _note(self, job_id: str, *, confirmed_seq: int, acked_seq: int | None = None) -> None:
        """Answer those whose event is confirmed; with `acked_seq`, after sending, those whose was not due.

        Why it was not (another attempt has the job, say), their worker finds out.
        """
        soon = self._clock.monotonic() + _CONFIRM_SECONDS
        for client in list(self._waiting.get(job_id, ())):
            request = client.request
            if request is None:
                continue
            if request.seq <= confirmed_seq:
                self.handed_over += 1
                self._answer(client, {"delivered": True, "confirmed": True})
            elif acked_seq is not None and request.seq <= acked_seq:
                client.delivered = True
                client.give_up_at = min(client.give_up_at, soon)
            elif acked_seq is not None:
                self._answer(client, _ALONE)

    def _answer_all(self, job_id: str, answer: Answer) -> None:
        for client in list(self._waiting.get(job_id, ())):
            self._answer(client, answer)

    def _give_up(self) -> None:
        now = self._clock.monotonic()
        late = [one for clients in self._waiting.values() for one in clients if one.give_up_at <= now]
        for client in late:
            self._answer(client, {"delivered": True, "confirmed": False} if client.delivered else _ALONE)

    def _answer(self, client: _Client, answer: Answer) -> None:
        """End the client's request."""
        self._forget(client)
        self._say(client, answer)

    def _say(self, client: _Client, answer: Answer) -> bool:
        try:
            # Some 50 bytes: who lets so many of them lie that it would block does not read.
            client.socket.sendall(json.dumps(answer).encode() + b"\n")
        except OSError:
            self._drop(client)
            return False
        return True

    def _forget(self, client: _Client) -> None:
        if client.request is None:
            return
        others = [one for one in self._waiting.pop(client.request.job_id, []) if one is not client]
        if others:
            self._waiting[client.request.job_id] = others
        client.request = None

    def _drop(self, client: _Client) -> None:
        self._forget(client)
        if self._clients.pop(client.socket.fileno(), None) is not None:
            self._selector.unregister(client.socket)
            client.socket.close()


def parse_request(line: bytes) -> HandOverRequest | None:
    """Return the request in `line`, None where it is none."""
    try:
        body = json.loads(line)
        job_id, seq, expiry = body["job"], body["seq"], body.get("expiry")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if type(job_id) is not str or not is_job_id(job_id) or type(seq) is not int:
        return None
    if not 1 <= seq <= MAX_INTEGER or not (expiry is None or _is_expiry(expiry)):
        return None
    return HandOverRequest(job_id, seq, expiry)


def _is_expiry(value: object) -> bool:
    return type(value) is int and 0 <= value <= _MAX_EXPIRY
