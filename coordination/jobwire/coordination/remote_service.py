"""The store's end of the wire: requests of agents on other hosts, each applied once, answered, and journaled.

A request is acknowledged to the broker after its change is in the store, in one transaction with its id and
its answer. Whoever asks again, because the answer was lost, gets the first one. A doorbell tells an agent
that there is something to look at; a lost one costs it a little time.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from jobwire.coordination import agents
from jobwire.coordination.agent_verbs import call, verb_named
from jobwire.coordination.agents import Beat, Joining
from jobwire.coordination.marks import catch_up
from jobwire.coordination.message import STORE_AGENT
from jobwire.coordination.remote_form import (
    RemoteAnswer,
    RemoteRequest,
    failure,
    open_presence,
    open_request,
    seal_answer,
    seal_doorbell,
)
from jobwire.coordination.store import JoinedStore
from jobwire.coordination.task_verbs import TASK_VERBS
from jobwire.core.backoff import retry_delay
from jobwire.core.canonical import canonical_json
from jobwire.core.errors import (
    ConflictError,
    InvalidInputError,
    JobwireError,
    NotFoundError,
    RefusedError,
    StorageError,
    TransportError,
)
from jobwire.core.ports import Message
from jobwire.core.told import code_of
from jobwire.storage.wake import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jobwire.coordination.remote_keys import AgentKeys
    from jobwire.coordination.store import CoordinationStore
    from jobwire.core.ports import Transport
    from jobwire.core.topics import Topics

# A request older than this is refused, and its id is forgotten a day later.
REPLAY_SECONDS = 30 * 86400.0
_FORGET_SECONDS = REPLAY_SECONDS + 86400.0
_CONNECT_SECONDS = 10.0
_PUBACK_SECONDS = 5.0
_RECEIVE_SECONDS = 0.25
_MANY = 100
_BELL_EXPIRY_SECONDS = 300
_HOUR = 3600.0
_TELL_SECONDS = 60.0
_log = logging.getLogger("jobwire.agents")


class Crossing(NamedTuple):
    """One message between an agent and the store, for the journal."""

    topic: str
    payload: bytes


class RemoteService:
    """Serves agents over one connection; `serve` and `ring` each from a thread of its own.

    `journal` keeps what crossed. Messages of unknown agents, and those that their key did not sign, are
    counted and dropped.
    """

    def __init__(
        self,
        *,
        store: CoordinationStore,
        keys: AgentKeys,
        topics: Topics,
        connect: Callable[[], Transport],
        journal: Callable[[list[Crossing]], object],
    ) -> None:
        self._store = store
        self._keys = keys
        self._topics = topics
        self._new_transport = connect
        self._journal = journal
        self._clock = store.clock
        self._transport: Transport | None = None
        self._seen: set[str] = set()
        self._numbers: dict[str, tuple[str, int]] = {}
        self._told_at = float("-inf")
        self._forgot_at = float("-inf")
        self.counts: Counter[str] = Counter()

    def serve(self, stop: Callable[[], bool]) -> None:
        """Answer agents until `stop` says so; connects again by itself."""
        tries = 0
        while not stop():
            transport = self._new_transport()
            try:
                transport.subscribe([self._topics.agent("+", "outbox"), self._topics.agent("+", "presence")])
                transport.connect(_CONNECT_SECONDS)
                self._transport = transport
                tries = 0
                while not stop():
                    self._take(transport)
            except TransportError as error:
                tries += 1
                self._tell(f"agents on other hosts are not served: {error.message}", refused=error)
                self._pause(retry_delay(tries, 0.0), stop)
            finally:
                self._transport = None
                transport.close()

    def ring(self, stop: Callable[[], bool]) -> None:
        """Ring at the inbox of each agent that was heard of and that a change concerns."""
        last = self._store.latest_event()

        def news() -> int | None:
            latest = self._store.latest_event()
            return latest if latest > last or stop() else None

        while not stop():
            latest = wait_until(news, home=self._store.home, names=["events"], seconds=_RECEIVE_SECONDS)
            if latest is None or latest == last:
                continue
            between = {"after": last, "through": latest}
            rows = self._store.rows("concerned_between", between) + self._store.rows("lock_moves", between)
            last = latest
            for agent in {row[0] for row in rows}:
                if agent in self._seen and (key := self._keys.key(agent)) is not None:
                    self._publish(agent, seal_doorbell(agent, latest, key), expiry=_BELL_EXPIRY_SECONDS)
                    self.counts["doorbells"] += 1

    def facts(self) -> dict[str, object]:
        """Return the figures for the health file."""
        return {"connected": self._transport is not None, "heard_of": len(self._seen), **self.counts}

    def _take(self, transport: Transport) -> None:
        for item in transport.receive_many(_MANY, _RECEIVE_SECONDS):
            if isinstance(item, Message):
                self.handle(item)
                transport.acknowledge(item)
        now = self._clock.monotonic()
        if now - self._forgot_at >= _HOUR:
            self._forgot_at = now
            before = int((self._clock.now() - _FORGET_SECONDS) * 1000)
            with self._store.changing() as change:
                change.execute("forget_remote_requests", {"before": before})

    def handle(self, message: Message) -> None:
        """Take one message in: whatever it is, it is dealt with when this returns."""
        address = self._topics.parse_agent(message.topic)
        key = None if address is None else self._key(address.agent)
        if address is None or key is None:
            return self._refuse("unknown agent", message.topic)
        if address.kind == "presence":
            return self._note(address.agent, message, key)
        request = open_request(message.payload, key, address.agent)
        if request is None:
            return self._refuse("not signed with its agent's key", message.topic)
        self._seen.add(request.agent)
        sealed = seal_answer(request.agent, self.answer(request), key)
        self.counts["requests"] += 1
        inbox = self._topics.agent(request.agent, "inbox")
        self._keep([Crossing(message.topic, message.payload), Crossing(inbox, sealed)])
        self._publish(request.agent, sealed, expiry=_BELL_EXPIRY_SECONDS)
        return None

    def answer(self, request: RemoteRequest) -> RemoteAnswer:
        """Apply a request, unless it was applied before, and return the one answer to it."""
        try:
            return self._answered(request)
        except JobwireError as error:
            return failure(request.id, error, code_of(error))
        except Exception:  # noqa: BLE001 - the boundary of each request: no agent ends who serves all
            _log.exception("request %s of %s", request.verb, request.agent)
            defect = StorageError(f"{request.verb} failed", hint="the log of `jobwire serve` says more")
            return failure(request.id, defect, "storage")

    def _answered(self, request: RemoteRequest) -> RemoteAnswer:
        if self._clock.now() - request.at > REPLAY_SECONDS:
            raise InvalidInputError(
                "the request is older than 30 days", hint="is the clock right on the agent's host?"
            )
        verb = verb_named(request.verb)
        verb.check(request.verb, request.args)
        if verb.changes:
            return self._applied(request)
        found = call(self._store, request.agent, request.verb, request.args)
        return RemoteAnswer(request.id, found, None)

    def _applied(self, request: RemoteRequest) -> RemoteAnswer:
        said = canonical_json({"verb": request.verb, "args": dict(request.args)})
        digest = hashlib.sha256(said).hexdigest()
        values = {"agent_id": request.agent, "request_id": request.id}
        crossed = None
        if verb_named(request.verb).crosses and not self._store.rows("remote_request", values):
            crossed = self._crossed(request, digest)
        elif request.verb in TASK_VERBS:
            # Within the transaction no job is looked at, and a task is where its job is.
            catch_up(self._store)
        with self._store.changing() as change:
            before = change.row("remote_request", values)
            if before is not None:
                if before[0] != digest:
                    raise ConflictError(
                        f"there is another request with the id {request.id}",
                        hint="an id is given once",
                        code="duplicate_id",
                    )
                self.counts["repeated"] += 1
                return RemoteAnswer(request.id, json.loads(before[1]), None)
            result = crossed
            if result is None:
                result = call(JoinedStore(self._store, change), request.agent, request.verb, request.args)
            kept = {**values, "digest": digest, "answer": json.dumps(result), "now_ms": change.now_ms}
            change.execute("put_remote_request", kept)
            return RemoteAnswer(request.id, result, None)

    def _crossed(self, request: RemoteRequest, digest: str) -> dict[str, object]:
        """Do what changes a job's record too, which is locked before the store.

        The message's id is made of the request: killed before the answer is kept, it is done again, and finds
        what it said.
        """
        args = dict(request.args)
        if "id" in verb_named(request.verb).takes and not args.get("id"):
            name = f"{request.agent}\0{request.id}\0{digest}"
            args["id"] = f"w-{hashlib.sha256(name.encode()).hexdigest()[:40]}"
        return call(self._store, request.agent, request.verb, args)

    def _note(self, agent: str, message: Message, key: str) -> None:
        """Take note of a presence; a retained one from before is no sign of life."""
        if not message.payload or message.retain:
            return
        said = open_presence(message.payload, key, agent)
        if said is None:
            self._refuse("not signed with its agent's key", message.topic)
            return
        incarnation, number = self._numbers.get(agent, ("", -1))
        if said.incarnation == incarnation and said.number <= number and not said.lost:
            return
        self._seen.add(agent)
        try:
            if said.lost:
                self._lost(agent, said.incarnation)
                self._keep([Crossing(message.topic, message.payload)])
            else:
                self._numbers[agent] = (said.incarnation, said.number)
                self._beat(agent, Beat(said.status, said.current_task, said.progress), said.interval_seconds)
        except InvalidInputError as error:
            self._refuse(error.message, message.topic)
        self.counts["presences"] += 1

    def _beat(self, agent: str, said: Beat, interval: float) -> None:
        with self._store.changing() as change:
            try:
                agents.beat(change, agent, said)
            except NotFoundError:
                agents.join(change, agent, Joining(interval_seconds=interval, status=said.status))
                agents.beat(change, agent, said)

    def _lost(self, agent: str, incarnation: str) -> None:
        if self._numbers.get(agent, (incarnation, 0))[0] == incarnation:
            with self._store.changing() as change:
                change.event("agent_unreachable", source="jobwire", summary=agent)

    def _key(self, agent: str) -> str | None:
        if agent == STORE_AGENT:
            return None  # to it all is open; tickets of that name were written once
        try:
            return self._keys.key(agent)
        except JobwireError as error:
            self._tell(str(error))
            return None

    def _publish(self, agent: str, payload: bytes, *, expiry: int) -> None:
        transport = self._transport
        if transport is None:
            return
        try:
            transport.publish(
                self._topics.agent(agent, "inbox"),
                payload,
                retain=False,
                deadline_seconds=_PUBACK_SECONDS,
                expiry_seconds=expiry,
            )
        except TransportError as error:
            # It asks again, and gets the same answer.
            self._tell(f"{agent} was not answered: {error.message}")

    def _keep(self, crossings: Iterable[Crossing]) -> None:
        try:
            self._journal(list(crossings))
        except JobwireError as error:
            self._tell(f"what crossed is not journaled: {error.message}")

    def _refuse(self, reason: str, topic: str) -> None:
        self.counts["refused"] += 1
        self._tell(f"a message on {topic!r:.120} is dropped: {reason}")

    def _tell(self, text: str, *, refused: TransportError | None = None) -> None:
        now = self._clock.monotonic()
        if now - self._told_at >= _TELL_SECONDS:
            self._told_at = now
            hint = f" ({refused.hint})" if isinstance(refused, RefusedError) else ""
            _log.warning("%s%s", text, hint)

    def _pause(self, seconds: float, stop: Callable[[], bool]) -> None:
        waiting = threading.Event()
        until = self._clock.monotonic() + seconds
        while not stop() and self._clock.monotonic() < until:
            waiting.wait(_RECEIVE_SECONDS)
