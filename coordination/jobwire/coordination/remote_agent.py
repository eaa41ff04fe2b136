"""An agent on another host: the verbs of the store over MQTT, by the ticket that it was given.

What changes something is kept in `<ticket>.outbox` before it is sent, and stays there until the process that
owns the store has answered: a broker that is away delays it, and whoever asks twice is answered once. One
process at a time speaks for a ticket, because the broker knows one connection by its name; who waits for long
makes room for who has something to say.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Self

from jobwire.coordination.agent_ticket import AgentTicket, read_agent_ticket
from jobwire.coordination.agent_verbs import following, verb_named
from jobwire.coordination.agents import Beat, Joining
from jobwire.coordination.remote_form import (
    Presence,
    RemoteAnswer,
    RemoteRequest,
    check_args,
    is_doorbell,
    open_answer,
    seal_presence,
    seal_request,
)
from jobwire.coordination.remote_outbox import KeptRequest, RemoteOutbox
from jobwire.core.clock import Clock, SystemClock
from jobwire.core.errors import InvalidInputError, TransportError, UnreachableError
from jobwire.core.exit_codes import ExitCode
from jobwire.core.ports import LastWill, Message
from jobwire.core.topics import Topics, agent_identity
from jobwire.delivery.ticket_files import broker_layer
from jobwire.storage import file_lock
from jobwire.storage.files import SystemFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from jobwire.core.ports import Transport

_CONNECT_SECONDS = 10.0
_ANSWER_SECONDS = 30.0
_AGAIN_SECONDS = 3.0
_PUBACK_SECONDS = 5.0
_TURN_SECONDS = 15.0
_ASK_SECONDS = 1.0
_SLICE_SECONDS = 0.25
_LOOK_SECONDS = 2.0
_LONGEST_LOOK_SECONDS = 30.0
_GROWTH = 1.5
_MANY = 100
# Answers that no repetition changes: the request is dealt with.
_FINAL = frozenset({ExitCode.NO_WORK, ExitCode.CONFLICT, ExitCode.INVALID, ExitCode.NOT_FOUND})
_log = logging.getLogger("jobwire.agent")


class RemoteAgent:
    """Speaks for the agent of the ticket in `path`: an `AgentPort`, and the pulse of a Heartbeat.

    Any thread may call any method. `present` says that the broker is to tell the others if we vanish.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        present: bool = False,
        clock: Clock | None = None,
        connect: Callable[[AgentTicket, LastWill | None], Transport] | None = None,
    ) -> None:
        self.path = Path(path)
        self._ticket = read_agent_ticket(self.path)
        self.agent = self._ticket.agent
        self._topics = Topics(self._ticket.topic_root)
        self._clock = clock or SystemClock()
        self._outbox = RemoteOutbox(self.path, self._clock)
        self._connect = connect or self._by_paho
        self._present = present
        self._incarnation = os.environ.get("JOBWIRE_INCARNATION", "") or secrets.token_hex(8)
        self._number = 0
        self._interval = 10.0
        self._guard = threading.RLock()
        self._transport: Transport | None = None
        self._lock: int | None = None
        self._turn_mark = 0
        self._rung = False
        self._pause = threading.Event()
        self._answers: dict[str, RemoteAnswer] = {}

    def call(
        self, verb: str, args: Mapping[str, object], *, seconds: float = _ANSWER_SECONDS
    ) -> dict[str, object]:
        """Ask for one thing and return the answer; what was kept before goes first.

        Raises the error that was answered; UnreachableError where nobody answered: what is worth it is then
        kept, and sent before the next request.
        """
        keeps = verb_named(verb).keeps
        request = KeptRequest(secrets.token_hex(12), verb, dict(check_args(args)), self._clock.now())
        # Refused here, where it can be mended: too large, or not JSON.
        self._sealed(request)
        with self._guard:
            if keeps:
                self._outbox.keep(request)
            try:
                with self._our_turn():
                    self._send_kept(before=request.id, seconds=seconds)
                    answer = self._ask(request, seconds)
            except TransportError as error:
                self._disconnect()
                if keeps:
                    raise UnreachableError(
                        f"{error.message}; it is kept in {self._outbox.path}",
                        hint="the next command of this ticket sends it",
                        kept=True,
                    ) from error
                raise
            if keeps:
                self._settle(request, answer)
        return answer.outcome()

    def wait(self, verb: str, args: Mapping[str, object], seconds: float) -> dict[str, object]:
        """Look, then sleep until a doorbell rings, and look again; by the clock too, each 2 to 30 s."""
        until = self._clock.monotonic() + seconds
        asked, pause = dict(args), _LOOK_SECONDS
        found: dict[str, object] = {"woke": False}
        if "after" in asked:
            found["next_event_id"] = asked["after"]
        while True:
            self._rung = False
            with contextlib.suppress(UnreachableError):
                found = self.call(verb, asked)
                if found["woke"]:
                    return found
                asked = following(asked, found)
            left = until - self._clock.monotonic()
            if left <= 0:
                return found
            self._sleep(min(left, pause))
            pause = min(pause * _GROWTH, _LONGEST_LOOK_SECONDS)

    def join(self, agent: str, joining: Joining) -> object:
        """Begin a life of the agent; where nobody answers its beats will do."""
        self._of_ours(agent)
        self._interval = joining.interval_seconds
        args = {"run_id": joining.run_id, "incarnation": self._incarnation, "status": str(joining.status)}
        try:
            return self.call("join", {**args, "interval_seconds": joining.interval_seconds})
        except UnreachableError as error:
            _log.warning("%s has not joined yet: %s", agent, error.message)
            return None

    def beat(self, agent: str, said: Beat) -> None:
        """Publish one sign of life, retained."""
        self._of_ours(agent)
        with self._guard:
            self._number += 1
            payload = seal_presence(self._presence(said), self._ticket.key)
            try:
                with self._our_turn() as transport:
                    topic = self._topics.agent(self.agent, "presence")
                    transport.publish(topic, payload, retain=True, deadline_seconds=_PUBACK_SECONDS)
            except TransportError:
                self._disconnect()
                raise

    def flush(self) -> int:
        """Send what is kept; return how many requests are left. Raises TransportError."""
        with self._guard, self._our_turn():
            self._send_kept(before="", seconds=_ANSWER_SECONDS)
            return len(self._outbox.requests())

    def close(self) -> None:
        """Disconnect; what is kept stays."""
        with self._guard:
            self._disconnect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _of_ours(self, agent: str) -> None:
        if agent != self.agent:
            raise InvalidInputError(f"this is the ticket of {self.agent}, not of {agent}", code="forbidden")

    def _presence(self, said: Beat) -> Presence:
        return Presence(
            self.agent,
            self._incarnation,
            self._number,
            str(said.status),
            said.current_task,
            said.progress,
            self._interval,
        )

    def _send_kept(self, *, before: str, seconds: float) -> None:
        """Send what was kept before the request `before`, in order; an answer settles each."""
        for request in self._outbox.requests():
            if request.id == before:
                return
            answer = self._ask(request, seconds)
            self._settle(request, answer)
            if answer.error is not None:
                _log.warning("%s, which was kept, was refused: %s", request.verb, answer.error.get("error"))

    def _settle(self, request: KeptRequest, answer: RemoteAnswer) -> None:
        error = answer.error
        if error is None or error.get("exit_code") in _FINAL:
            self._outbox.forget(request.id)

    # The connection.

    def _ask(self, request: KeptRequest, seconds: float) -> RemoteAnswer:
        transport = self._transport
        if transport is None:
            raise UnreachableError("the connection is down")
        topic, payload = self._topics.agent(self.agent, "outbox"), self._sealed(request)
        until = self._clock.monotonic() + seconds
        again = 0.0
        while (left := until - self._clock.monotonic()) > 0:
            if self._clock.monotonic() >= again:
                # Again, because the process may just have begun to listen; it does each request once.
                transport.publish(topic, payload, retain=False, deadline_seconds=_PUBACK_SECONDS)
                again = self._clock.monotonic() + _AGAIN_SECONDS
            self._receive(transport, min(left, _SLICE_SECONDS))
            if (answer := self._answers.pop(request.id, None)) is not None:
                return answer
        raise UnreachableError(
            f"no answer within {seconds:g} s", hint="is `jobwire serve` running where the store is?"
        )

    def _sealed(self, request: KeptRequest) -> bytes:
        return seal_request(RemoteRequest(self.agent, *request), self._ticket.key)

    def _receive(self, transport: Transport, seconds: float) -> None:
        for item in transport.receive_many(_MANY, seconds):
            if not isinstance(item, Message):
                continue
            transport.acknowledge(item)
            answer = open_answer(item.payload, self._ticket.key, self.agent)
            if answer is not None:
                # An answer that nobody waits for any more: the request is asked again, and answered again.
                self._answers = {answer.id: answer}
            elif is_doorbell(item.payload, self._ticket.key, self.agent):
                self._rung = True

    def _sleep(self, seconds: float) -> None:
        """Sleep until the doorbell rings; make room for other processes of this ticket, and threads."""
        until = self._clock.monotonic() + seconds
        while not self._rung and (left := until - self._clock.monotonic()) > 0:
            with self._guard:
                try:
                    if self._transport is None:
                        with self._our_turn():
                            return  # Who rang meanwhile was not heard: look.
                    if self._wanted():
                        self._disconnect()
                        self._clock.sleep(min(left, _SLICE_SECONDS))
                        continue
                    self._receive(self._transport, min(left, _SLICE_SECONDS))
                except TransportError:
                    self._disconnect()
                    self._clock.sleep(min(left, _SLICE_SECONDS))

    @contextlib.contextmanager
    def _our_turn(self) -> Iterator[Transport]:
        """Give the connection, made where there is none once nobody else of this ticket has one."""
        if self._transport is None:
            self._lock = self._acquired()
            self._turn_mark = self._mark()
            transport = self._connect(self._ticket, self._will())
            try:
                transport.subscribe([self._topics.agent(self.agent, "inbox")])
                transport.connect(_CONNECT_SECONDS)
            except BaseException:
                transport.close()
                self._disconnect()
                raise
            self._transport = transport
            threading.Thread(target=self._make_room, args=(transport,), name="turns", daemon=True).start()
        yield self._transport

    def _acquired(self) -> int:
        """Wait for our turn; whoever has just got it may have missed that we want it, so we say so again."""
        until = self._clock.monotonic() + _TURN_SECONDS
        while True:
            self._mark_wanted()
            try:
                return file_lock.acquire(
                    self.path.with_name(f"{self.path.name}.lock"),
                    clock=self._clock,
                    deadline_seconds=_ASK_SECONDS,
                    what="the ticket",
                )
            except file_lock.LockTimeoutError:
                if self._clock.monotonic() >= until:
                    raise

    def _will(self) -> LastWill | None:
        if not self._present:
            return None
        lost = self._presence(Beat())._replace(lost=True)
        return LastWill(self._topics.agent(self.agent, "presence"), seal_presence(lost, self._ticket.key))

    def _disconnect(self) -> None:
        transport, self._transport = self._transport, None
        lock, self._lock = self._lock, None
        if transport is not None:
            transport.close()
        if lock is not None:
            file_lock.release(lock)

    # Who wants the connection touches a file; who has it looks.

    @property
    def _wanted_path(self) -> Path:
        return self.path.with_name(f"{self.path.name}.wanted")

    def _mark_wanted(self) -> None:
        self._wanted_path.touch(mode=0o600)
        os.utime(self._wanted_path)

    def _mark(self) -> int:
        try:
            return self._wanted_path.stat().st_mtime_ns
        except OSError:
            return 0

    def _wanted(self) -> bool:
        return self._mark() != self._turn_mark

    def _make_room(self, transport: Transport) -> None:
        """Give the connection up once another process of this ticket wants it, and nobody here uses it."""
        while self._transport is transport:
            self._pause.wait(_SLICE_SECONDS)
            if self._wanted():
                with self._guard:
                    if self._transport is transport:
                        self._disconnect()

    def _by_paho(self, ticket: AgentTicket, will: LastWill | None) -> Transport:
        from jobwire.transport import PahoTransport, load_settings  # noqa: PLC0415 - slow to import

        layer = broker_layer(ticket, self.path, SystemFiles())
        settings = load_settings(home=None, role="", command_line=layer, record={}, environ={})
        return PahoTransport(
            settings, client_id=agent_identity(ticket.agent), clean_session=True, clock=self._clock, will=will
        )
