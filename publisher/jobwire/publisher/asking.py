"""How a worker hears what it was answered: from the record on this disk, or from the broker by a ticket."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, NamedTuple, Protocol

from jobwire.core.clock import epoch
from jobwire.core.errors import NoWorkError, StoppedError
from jobwire.delivery.signing import STOP_HINT, check_open
from jobwire.jobs.requests import MAX_REQUESTS, Answer, Request, RequestState, find
from jobwire.storage.wake import wait_until

if TYPE_CHECKING:
    from jobwire.core.clock import Clock
    from jobwire.registry.event_log import HomeEventLog

_LONG_SECONDS = 86400.0
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

    def wait(self, request_id: str, seconds: float) -> Heard | None:
        """Return what became of the request, None after `seconds`.

        Raises StoppedError where the job ended, was claimed again, or the request was settled elsewhere.
        """
        ...

    def close(self) -> None:
        """Free what waiting took."""
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
    """See `Answers`: the record tells, and whoever changes it wakes us."""

    def __init__(self, events: HomeEventLog, *, clock: Clock) -> None:
        self._events = events
        self._clock = clock

    def asked(self, request_id: str) -> bool:
        """See `Answers.asked`; raises StoppedError for a job that is not ours, or full of requests."""
        record = self._events.record()
        check_open(record)
        if sum(not one.settled for one in record.requests) >= MAX_REQUESTS:
            raise StoppedError(
                f"job {record.job_id} asks {MAX_REQUESTS} things already", hint="wait for their answers"
            )
        found = find(record.requests, request_id)
        return found is not None and found.attempt == record.attempt

    def wait(self, request_id: str, seconds: float) -> Heard | None:
        """See `Answers.wait`."""
        return wait_until(
            lambda: self._look(request_id),
            home=self._events.home,
            names=[f"job:{self._events.job_id}"],
            seconds=min(seconds, self._left(request_id), _LONG_SECONDS),
            clock=self._clock,
        )

    def close(self) -> None:
        """See `Answers.close`."""

    def _left(self, request_id: str) -> float:
        """Return how long the request can still be answered."""
        found = find(self._events.record().requests, request_id)
        if found is None or found.expires_at is None:
            return _LONG_SECONDS
        return max(0.0, epoch(found.expires_at) - self._clock.now())

    def _look(self, request_id: str) -> Heard | None:
        record = self._events.record()
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


def answer_in(request: Request) -> Answer:
    """Return the answer that an answered request carries."""
    return Answer(
        request.answer or "",
        request.answered_by or NOBODY,
        request.answered_through or DEFAULT,
        request.always,
    )
