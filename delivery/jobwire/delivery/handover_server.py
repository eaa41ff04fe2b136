"""The process's end of the hand-over: sends what workers here have kept, and answers when it is confirmed.

Each request waits in a thread of its own (`registry.call_service`), in which it is sent as well.
"""

import contextlib
import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from jobwire.core.canonical import MAX_INTEGER
from jobwire.core.clock import Clock
from jobwire.core.errors import JobwireError, RefusedError, TransportError
from jobwire.core.settings import BrokerSettings
from jobwire.core.topics import is_job_id
from jobwire.delivery.handover import MENTION

# Less than a client waits (handover.ANSWER_SECONDS): it hears how far it came.
_PATIENCE_SECONDS = 7.0
# A worker goes on when the broker has its event and the disk keeps the confirmation waiting.
_CONFIRM_SECONDS = 2.0
# A process that was just started, or a broker that restarts: who asks meanwhile is no worse off for waiting.
_AWAY_SECONDS = 2.0
_AGAIN_SECONDS = 0.25
# MQTT 5, 3.3.2.3.3: a four byte integer.
_MAX_EXPIRY = 2**32 - 1
_log = logging.getLogger("jobwire.registry")

Answer = Mapping[str, object]
# The worker sends by itself.
_ALONE: Answer = {"delivered": False}


class SentSoFar(NamedTuple):
    """How far a job's events came: acknowledged by the broker, confirmed in the record."""

    acked_seq: int
    confirmed_seq: int


# Sends what is due of a job; seconds of expiry None are the process's own, 0 is never. Raises JobwireError,
# TransportError where there is no broker.
Send = Callable[[str, int | None], SentSoFar]


class HandOverRequest(NamedTuple):
    """What a client asks for; `wishes` are the broker settings that it brings along."""

    job_id: str
    seq: int
    expiry_seconds: int | None
    wishes: Mapping[str, object]


class _Awaited(NamedTuple):
    """One worker that waits for the confirmation of `seq`; `over` is set with it, and at the end."""

    seq: int
    over: threading.Event


class HandOverServer:
    """The `Callee` of hand-overs. Thread-safe. Begins without a broker: `broker_found` tells of one.

    What a worker brings along for another broker than `broker` is not for it.
    """

    def __init__(self, *, broker: BrokerSettings, send: Send, clock: Clock) -> None:
        self._broker = broker
        self._send = send
        self._clock = clock
        self._changed = threading.Condition()
        # Since when (monotonic seconds) there has been no broker; None while there is one.
        self._away_since: float | None = clock.monotonic()
        # Who waits, by job.
        self._waiting: dict[str, list[_Awaited]] = {}
        self._closed = False
        self.handed_over = 0

    def facts(self) -> dict[str, object]:
        """Return what the health file says."""
        return {"clients": len(self._waiting), "events": self.handed_over}

    def begin(self) -> None:
        """Note that workers can ask from now on; the connection may follow in a moment."""
        with self._changed:
            if self._away_since is not None:
                self._away_since = self._clock.monotonic()

    def take(self, name: str, environ: dict[str, str], given: bytes) -> Callable[[object], bytes] | None:  # noqa: ARG002 - see `Callee`
        """See `Callee.take`."""
        request = parse_request(given)
        if request is None or not self._is_ours(request):
            return None
        answer = self._mentioned if name == MENTION else self._delivered
        return lambda _: json.dumps(answer(request)).encode()

    def is_awaited(self, job_id: str) -> bool:
        """Tell whether a worker waits for the confirmation of this job's event."""
        return job_id in self._waiting

    def confirmed(self, job_id: str, seq: int) -> None:
        """Note that the record has everything up to `seq`."""
        for one in tuple(self._waiting.get(job_id, ())):
            if one.seq <= seq:
                one.over.set()

    def broker_lost(self) -> None:
        """Note that the connection is gone."""
        with self._changed:
            self._away_since = self._clock.monotonic()

    def broker_found(self) -> None:
        """Note that the connection stands: send what waited for it."""
        with self._changed:
            self._away_since = None
            self._changed.notify_all()

    def close(self) -> None:
        """End: whoever waits goes on alone. Idempotent."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            for one in [one for waiting in self._waiting.values() for one in waiting]:
                one.over.set()

    def _mentioned(self, request: HandOverRequest) -> Answer:
        sent = self._sent(request, self._clock.monotonic() + _PATIENCE_SECONDS)
        return {"delivered": isinstance(sent, SentSoFar)}

    def _delivered(self, request: HandOverRequest) -> Answer:
        give_up = self._clock.monotonic() + _PATIENCE_SECONDS
        with self._awaited(request) as over:
            sent = self._sent(request, give_up)
            if not isinstance(sent, SentSoFar):
                return sent
            if sent.confirmed_seq < request.seq:
                if sent.acked_seq < request.seq:
                    return _ALONE  # not due: another attempt has the job, say; its worker finds out
                over.wait(max(0.0, min(_CONFIRM_SECONDS, give_up - self._clock.monotonic())))
                if self._closed or not over.is_set():
                    return {"delivered": True, "confirmed": False}
        self.handed_over += 1
        return {"delivered": True, "confirmed": True}

    @contextlib.contextmanager
    def _awaited(self, request: HandOverRequest) -> Iterator[threading.Event]:
        """Take note for the block that somebody waits; give what is set with the confirmation."""
        one = _Awaited(request.seq, threading.Event())
        with self._changed:
            self._waiting.setdefault(request.job_id, []).append(one)
        try:
            yield one.over
        finally:
            with self._changed:
                self._waiting[request.job_id].remove(one)
                if not self._waiting[request.job_id]:
                    del self._waiting[request.job_id]

    def _sent(self, request: HandOverRequest, give_up: float) -> SentSoFar | Answer:
        """Send what is due of the job; return how far that is, or what its worker is told instead."""
        while self._finds_broker():
            if self._closed or self._clock.monotonic() >= give_up:
                return _ALONE
            try:
                return self._send(request.job_id, request.expiry_seconds)
            except RefusedError:
                return _ALONE
            except TransportError:
                self._clock.sleep(_AGAIN_SECONDS)
            except JobwireError as error:
                _log.info("job %s is left to its worker: %s", request.job_id, error)
                return _ALONE
        return {"delivered": False, "no_broker": self._broker.address}

    def _finds_broker(self) -> bool:
        """Wait for the connection where it was lost a moment ago; tell whether it stands, or all is over.

        Not before: a broker that was killed knows nothing of the registry's session until it is back, and
        would take the events and forget them.
        """
        with self._changed:
            while self._away_since is not None and not self._closed:
                left = self._away_since + _AWAY_SECONDS - self._clock.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(left)
        return True

    def _is_ours(self, request: HandOverRequest) -> bool:
        """Tell whether the broker settings that the worker brings along are ours."""
        ours = {"broker": self._broker.host, "port": self._broker.port, "topic_root": self._broker.topic_root}
        return all(request.wishes.get(name) in (None, value, str(value)) for name, value in ours.items())


def parse_request(given: bytes) -> HandOverRequest | None:
    """Return the request in `given`, None where it is none."""
    try:
        body: dict[str, Any] = json.loads(given)
        job_id, seq, expiry = body["job"], body["seq"], body.get("expiry")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if type(job_id) is not str or not is_job_id(job_id) or type(seq) is not int:
        return None
    if not 1 <= seq <= MAX_INTEGER or not (expiry is None or _is_expiry(expiry)):
        return None
    return HandOverRequest(job_id, seq, expiry, body)


def _is_expiry(value: object) -> bool:
    return type(value) is int and 0 <= value <= _MAX_EXPIRY
