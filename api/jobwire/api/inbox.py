"""One agent's inbox as Python programs use it: send, reply, take, wait for a reply, search."""

import json
import logging
import os
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import Self

from jobwire.coordination import reading, replying, sending, taking
from jobwire.coordination.blobs import BlobFolder
from jobwire.coordination.delivery import LEASE_SECONDS, MAX_TRIES, InboxDelivery
from jobwire.coordination.delivery_lease import DeliveryLease
from jobwire.coordination.marks import catch_up
from jobwire.coordination.message import Artifact, NewMessage
from jobwire.coordination.sending import Posted
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.stored import InboxMessage
from jobwire.coordination.taking import Taken
from jobwire.coordination.thread import InboxThread
from jobwire.coordination.waiting import wait_reply
from jobwire.coordination.work import Claimed, ThreadWork
from jobwire.coordination.work_words import Worded
from jobwire.core.bounds import DEFAULT_LEASE_SECONDS
from jobwire.core.errors import JobwireError, NoWorkError
from jobwire.core.topics import check_agent
from jobwire.storage.wake import wait_until

_log = logging.getLogger("jobwire.inbox")
# `stop` is seen within so long.
_CHECK_SECONDS = 1.0
NEVER = 10 * 365 * 86400.0


class TakenMessage:
    """A message that is ours: its lease is renewed by itself until it is acknowledged or given back.

    Reads as the message does: `summary`, `body`, `payload`, `from_agent`, `thread_id`, `id`, `kind`, `type`.
    """

    def __init__(self, store: CoordinationStore, agent: str, taken: Taken, *, max_tries: int) -> None:
        blobs = BlobFolder(store.home)
        message = taken.message
        self.message: InboxMessage = message
        self.delivery: InboxDelivery = taken.delivery
        self.id, self.seq, self.thread_id = message.id, message.seq, message.thread_id
        self.from_agent, self.kind, self.type = message.from_agent, message.kind, message.type
        self.summary = message.summary
        self.body: str = message.full_body(blobs)
        text = message.full_payload(blobs)
        self.payload: object = None if text is None else json.loads(text)
        self._store = store
        self._agent = agent
        self._token = taken.token
        self._max_tries = max_tries
        self._settled = False
        seconds = self.delivery.lease_seconds or LEASE_SECONDS
        self._lease = DeliveryLease(store, agent, message.seq, token=taken.token, seconds=seconds)

    @property
    def settled(self) -> bool:
        """Tell whether it was acknowledged or given back here."""
        return self._settled

    def ack(self, summary: str = "", *, body: str = "", payload: object = None) -> None:
        """Say that it is done; with words as a receipt to its sender. Raises ConflictError (lease_lost)."""
        receipt = None
        if summary or body or payload is not None:
            receipt = NewMessage(
                self._agent,
                kind="result",
                type="receipt",
                summary=summary,
                body=body,
                payload=_text_of(payload),
            )
        self._leave()
        taking.ack(self._store, self._agent, self.seq, token=self._token, receipt=receipt)

    def nack(self, reason: str = "", *, permanent: bool = False) -> None:
        """Give it back: it comes again later, and is dead after the last try or at once if `permanent`."""
        self._leave()
        taking.nack(
            self._store,
            self._agent,
            self.seq,
            reason[: taking.MAX_REASON],
            token=self._token,
            permanent=permanent,
            max_tries=self._max_tries,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._settled and error is None:
            self.ack()
        elif not self._settled:
            self.give_back(f"its handler ended with {type(error).__name__}")

    def give_back(self, reason: str) -> None:
        """Give back what is still ours, whatever the store says: the handler's own failure is the news."""
        if self._settled:
            return
        try:
            self.nack(reason)
        except JobwireError as error:
            _log.warning("message %s is not given back: %s", self.id, error)

    def _leave(self) -> None:
        self._settled = True
        self._lease.end()


class AgentInbox:
    """What one agent sends and receives in a home's store; any number of threads may use it at a time.

        inbox = Home().inbox("builder")
        for message in inbox.take():
            build(message.body)

    A message is acknowledged when the loop comes back for the next, and given back where an exception or
    `break` leaves the loop before that: each is worked on at least once. Methods raise InvalidInputError,
    NotFoundError, ConflictError and StorageError with the words of the commands in `facts["code"]`.
    """

    def __init__(self, store: CoordinationStore, agent: str) -> None:
        self.agent = check_agent(agent)
        self.store = store
        self._incarnation = os.environ.get("JOBWIRE_INCARNATION", "")

    def send(
        self,
        to: str | Iterable[str],
        summary: str = "",
        *,
        body: str = "",
        payload: object = None,
        kind: str | None = None,
        type: str = "",  # noqa: A002 - the field's name
        subject: str = "",
        thread: str | None = None,
        run: str = "default",
        task: str | None = None,
        priority: str = "normal",
        acceptance: Sequence[str] = (),
        artifacts: Sequence[str] = (),
        id: str = "",  # noqa: A002 - as above
    ) -> Posted:
        """Send a message to one or more, durably; into a thread, or as a new one, which is a task then."""
        return sending.send(
            self.store,
            NewMessage(
                self.agent,
                (to,) if isinstance(to, str) else tuple(to),
                kind=kind or ("task" if thread is None else "event"),
                type=type,
                summary=summary,
                body=body,
                payload=_text_of(payload),
                id=id,
                thread_id=thread,
                subject=subject,
                run_id=run,
                task_id=task,
                priority=priority,
                acceptance=tuple(acceptance),
                artifacts=tuple(map(Artifact, artifacts)),
            ),
        )

    def reply(
        self,
        to: "str | TakenMessage | InboxMessage",
        summary: str = "",
        *,
        body: str = "",
        payload: object = None,
        kind: str = "answer",
        request: str | None = None,
        id: str = "",  # noqa: A002 - as above
    ) -> Posted:
        """Say something in a thread, or in answer to a message.

        An answer settles the `request` that the thread's job asks, or the only open one; permissions are a
        person's to give. Raises ConflictError where it was settled before.
        """
        thread, answered = (to, None) if isinstance(to, str) else (to.thread_id, to.id)
        new = NewMessage(
            self.agent,
            () if isinstance(to, str) else (to.from_agent,),
            kind=kind,
            summary=summary,
            body=body,
            payload=_text_of(payload),
            id=id,
            thread_id=thread,
            in_reply_to=answered,
        )
        return replying.reply(self.store, new, request=request).posted

    def take(
        self,
        *,
        wait_seconds: float | None = None,
        lease_seconds: float = LEASE_SECONDS,
        max_tries: int = MAX_TRIES,
        stop: threading.Event | None = None,
    ) -> Generator[TakenMessage, None, None]:
        """Yield our messages, one after the other, until none came for `wait_seconds` or `stop` is set.

        None waits for ever; `stop` is seen within a second.
        """
        stop = stop or threading.Event()
        take = partial(self._taken, lease_seconds, max_tries)
        while (taken := self._next(take, wait_seconds, stop)) is not None:
            message = TakenMessage(self.store, self.agent, taken, max_tries=max_tries)
            try:
                yield message
            except BaseException:
                message.give_back("its worker left it")
                raise
            if not message.settled:
                message.ack()

    def wait_reply(
        self, thread: str, *, seconds: float = NEVER, kinds: Sequence[str] = (), after: int | None = None
    ) -> InboxMessage | None:
        """Wait for what others say in the thread after our last question, or after event `after`."""
        waited = wait_reply(
            self.store, agent=self.agent, thread_id=thread, seconds=seconds, kinds=kinds, after=after
        )
        if waited.found is None or waited.found.seq is None:
            return None
        taking.mark_read(self.store, self.agent, thread, waited.found.seq)
        return reading.message_of(self.store, waited.found.seq)

    def ask(
        self, to: str | Iterable[str], question: str, *, thread: str | None = None, seconds: float = NEVER
    ) -> InboxMessage | None:
        """Ask another agent and wait for its reply; None after `seconds`. Persons are asked by a job."""
        posted = self.send(to, question, kind="question", thread=thread)
        return self.wait_reply(posted.thread_id, seconds=seconds, after=posted.event_id)

    def fetch(
        self, *, statuses: Sequence[str] = reading.FETCHED, limit: int = 20, unread: bool = False
    ) -> list[InboxThread]:
        """Return threads for us, the most urgent first; changes nothing."""
        catch_up(self.store)
        return reading.fetch(
            self.store, self.agent, statuses=() if unread else statuses, limit=limit, unread=unread
        )

    def messages(self, thread: str) -> list[InboxMessage]:
        """Return a thread's messages, oldest first."""
        reading.thread_of(self.store, thread)
        return reading.messages_of(self.store, thread)

    def search(self, words: str, *, limit: int = 20) -> list[InboxMessage]:
        """Return messages that hold all the words, newest first."""
        return reading.search(self.store, words, limit=limit)

    def claim(self, thread: str, lease_seconds: float = DEFAULT_LEASE_SECONDS) -> Claimed:
        """Take a thread's work, for nobody but us; each update extends the lease by `lease_seconds`."""
        return self._work().claim(thread, lease_seconds)

    def renew(self, thread: str, lease_seconds: float | None = None) -> Claimed:
        """Hold a thread for longer."""
        return self._work().renew(thread, lease_seconds)

    def update(self, thread: str, summary: str, *, body: str = "", blocked: bool = False) -> Worded:
        """Say how the work goes, or with `blocked` what it waits for."""
        status = "blocked" if blocked else "in_progress"
        return self._work().update(self._words(thread, "progress", summary, body, None), status)

    def done(self, thread: str, summary: str, *, body: str = "", payload: object = None) -> Worded:
        """Say that the work is done."""
        return self._work().done(self._words(thread, "result", summary, body, payload))

    def fail(self, thread: str, summary: str, *, body: str = "", payload: object = None) -> Worded:
        """Say that the work failed."""
        return self._work().fail(self._words(thread, "result", summary, body, payload))

    def cancel(self, thread: str, reason: str = "") -> Worded:
        """Cancel a thread."""
        return self._work().cancel(thread, reason)

    def close(self) -> None:
        """Close this thread's connection; the next call opens it again."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _work(self) -> ThreadWork:
        return ThreadWork(self.store, self.agent, incarnation=self._incarnation)

    def _words(self, thread: str, kind: str, summary: str, body: str, payload: object) -> NewMessage:
        return NewMessage(
            self.agent, kind=kind, summary=summary, body=body, payload=_text_of(payload), thread_id=thread
        )

    def _next(
        self, take: Callable[[], Taken | None], wait_seconds: float | None, stop: threading.Event
    ) -> Taken | None:
        clock = self.store.clock
        give_up = clock.monotonic() + (NEVER if wait_seconds is None else wait_seconds)
        while not stop.is_set():
            left = give_up - clock.monotonic()
            taken = wait_until(
                take,
                home=self.store.home,
                names=[f"agent:{self.agent}"],
                seconds=max(0.0, min(left, _CHECK_SECONDS)),
                clock=clock,
            )
            if taken is not None or left <= _CHECK_SECONDS:
                return taken
        return None

    def _taken(self, seconds: float, max_tries: int) -> Taken | None:
        if not taking.may_take(self.store, self.agent):
            return None
        try:
            return taking.take(
                self.store, self.agent, incarnation=self._incarnation, seconds=seconds, max_tries=max_tries
            )
        except NoWorkError:
            return None


def _text_of(payload: object) -> str | None:
    return None if payload is None else json.dumps(payload, ensure_ascii=False)
