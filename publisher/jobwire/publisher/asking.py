"""How a worker hears what it was answered: from the record on this disk, or from the broker by a ticket."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, NamedTuple, Protocol

from jobwire.core.clock import epoch
from jobwire.core.errors import ConflictError, NoWorkError, StoppedError, UnreachableError
from jobwire.delivery.signing import STOP_HINT, check_open
from jobwire.jobs.request_form import MAX_REQUESTS
from jobwire.jobs.requests import Answer, Request, RequestState, find
from jobwire.storage.wake import wait_until

if TYPE_CHECKING:
    import threading

    from jobwire.core.clock import Clock
    from jobwire.delivery.outbox_sender import OutboxSender
    from jobwire.delivery.ticket_log import TicketEventLog
    from jobwire.jobs.record import JobRecord
    from jobwire.registry.event_log import HomeEventLog

_LONG_SECONDS = 86400.0
# How long the connection is kept from others who want to say something, and how long they have then.
_SLICE_SECONDS = 0.25
_TURN_SECONDS = 0.005
_AWAY_SECONDS = 1.0
NOBODY, DEFAULT = "nobody", "default"


class NoAnswerError(NoWorkError):
    """Nobody answered in time; `facts["request"]` names the request, which is closed."""


class Heard(NamedTuple):
    """What became of a request: its answer, or None where nobody answered in time."""

    answer: Answer | None


class Answers(Protocol):
    """Where one job's answers are heard."""

    def asked(self, request_id: str) -> bool:
        """Tell whether the request is known already: then it is not asked again."""
        ...

    def answer(self, request_id: str) -> Answer | None:
        """Return the answer, if there is one by now."""
        ...

    def wait(self, request_id: str, seconds: float) -> Heard | None:
        """Return what became of the request, None after `seconds`.

        Raises StoppedError where the job ended, was claimed again, or the request was settled elsewhere.
        """
        ...


def new_request_id(job_id: str) -> str:
    """Return an id that names its job, so that it is found at once."""
    return f"{job_id}.{secrets.token_hex(3)}"


def no_answer(request_id: str, seconds: float) -> NoAnswerError:
    """Return the error of a request that nobody answered."""
    return NoAnswerError(
        f"nobody answered {request_id} within {seconds:g} s",
        hint="go on without the answer, or ask again",
        code="timeout",
        request=request_id,
    )


class HomeAnswers:
    """See `Answers`: the record tells, and whoever changes the request in it wakes us."""

    def __init__(self, events: HomeEventLog, *, clock: Clock) -> None:
        self._events = events
        self._clock = clock
        # What the file was when it was read, and the record: one, since several threads may look.
        self._kept: tuple[object, JobRecord | None] = (None, None)

    def asked(self, request_id: str) -> bool:
        """See `Answers.asked`; raises StoppedError for a job that is not ours, or full of requests."""
        record = self._record()
        check_open(record)
        if sum(not one.settled for one in record.requests) >= MAX_REQUESTS:
            raise StoppedError(
                f"job {record.job_id} asks {MAX_REQUESTS} things already", hint="wait for their answers"
            )
        found = find(record.requests, request_id)
        return found is not None and found.attempt == record.attempt

    def answer(self, request_id: str) -> Answer | None:
        """See `Answers.answer`."""
        found = find(self._record().requests, request_id)
        return answer_in(found) if found is not None and found.answer is not None else None

    def wait(self, request_id: str, seconds: float) -> Heard | None:
        """See `Answers.wait`."""
        return wait_until(
            lambda: self._look(request_id),
            home=self._events.home,
            names=[f"request:{request_id}"],
            seconds=min(seconds, self._left(request_id), _LONG_SECONDS),
            clock=self._clock,
        )

    def _record(self) -> JobRecord:
        """Return the record, read again once it changed: two hundred who wait look every second."""
        seen, record = self._kept
        now = self._events.stamp()
        if record is None or now is None or now != seen:
            record = self._events.record()
            self._kept = now, record
        return record

    def _left(self, request_id: str) -> float:
        """Return how long the request can still be answered."""
        found = find(self._record().requests, request_id)
        if found is None or found.expires_at is None:
            return _LONG_SECONDS
        return max(0.0, epoch(found.expires_at) - self._clock.now())

    def _look(self, request_id: str) -> Heard | None:
        record = self._record()
        found = find(record.requests, request_id)
        if found is not None and found.answer is not None and found.state is not RequestState.VOID:
            return Heard(answer_in(found))
        if record.terminal:
            raise StoppedError(f"job {record.job_id} is {record.status}", hint=STOP_HINT)
        if found is None or found.state is RequestState.OPEN:
            return None
        if found.state is RequestState.EXPIRED:
            return Heard(None)
        raise StoppedError(
            f"request {request_id} was settled without an answer: it is {found.state}",
            hint="whoever settled it knows how to go on",
        )


class TicketAnswers:
    """See `Answers`: the broker brings them, over the connection that the events go by.

    Another connection under the same certificate would end that one. `guard` is held while it is used.
    """

    def __init__(
        self, events: TicketEventLog, sender: OutboxSender, *, guard: threading.Lock, clock: Clock
    ) -> None:
        self._events = events
        self._sender = sender
        self._guard = guard
        self._clock = clock
        events.listen_for_answers()
        with guard:
            sender.close()

    def asked(self, request_id: str) -> bool:  # noqa: ARG002 - the registry knows: asked twice is asked once
        """See `Answers.asked`."""
        return False

    def answer(self, request_id: str) -> Answer | None:
        """See `Answers.answer`."""
        return self._events.answer(request_id)

    def wait(self, request_id: str, seconds: float) -> Heard | None:
        """See `Answers.wait`."""
        give_up = self._clock.monotonic() + seconds
        while (found := self._events.answer(request_id)) is None:
            left = give_up - self._clock.monotonic()
            if left <= 0:
                return None
            try:
                with self._guard:
                    self._sender.hear(min(left, _SLICE_SECONDS))
                pause = _TURN_SECONDS
            except ConflictError as error:
                raise StoppedError(error.message, hint=STOP_HINT) from error
            except UnreachableError:
                self._sender.close()
                pause = _AWAY_SECONDS
            # Others who want to say something get their turn.
            self._clock.sleep(min(left, pause))
        return Heard(found)


def answer_in(request: Request) -> Answer:
    """Return the answer that an answered request carries."""
    return Answer(
        request.answer or "",
        request.answered_by or NOBODY,
        request.answered_through or DEFAULT,
        request.always,
    )
