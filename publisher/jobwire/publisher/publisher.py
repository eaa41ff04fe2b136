"""For workers written in Python: one object that speaks for a job and keeps its connection."""

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from jobwire.core.clock import Clock, SystemClock
from jobwire.core.errors import (
    InvalidInputError,
    JobwireError,
    RefusedError,
    StoppedError,
    TransitionError,
    UnreachableError,
)
from jobwire.core.redaction import Redactor
from jobwire.delivery.outbox import DEFAULT_ATTEMPTS
from jobwire.delivery.outbox_sender import OutboxSender, Route
from jobwire.delivery.publishing import Published, confirm, deliver, publish
from jobwire.delivery.signing import Draft
from jobwire.jobs.event import MAX_DETAIL, TERMINAL_EVENTS, EventType
from jobwire.jobs.request_form import REQUEST, RESOLVED, RequestKind, request_body
from jobwire.jobs.requests import Answer
from jobwire.publisher.asking import (
    DEFAULT,
    NOBODY,
    Answers,
    HomeAnswers,
    TicketAnswers,
    new_request_id,
    no_answer,
)
from jobwire.publisher.build import open_event_log, open_handover, open_route
from jobwire.publisher.cleaning import clean, refuse_unclean
from jobwire.publisher.variables import ENV_JOB, ENV_TICKET
from jobwire.registry.event_log import HomeEventLog

_log = logging.getLogger("jobwire.publisher")
# After a failed delivery events only go into the outbox for this long: a worker must not wait for an
# absent broker at each of its steps.
_RETRY_AFTER_SECONDS = 5.0
# How often a wait for an answer looks whether it is to end.
_LOOK_SECONDS = 1.0


class Publisher:
    """Says what happens to one job; thread-safe.

        with Publisher(job_id) as job:
            job.started()
            job.progress("12 of 30 files", percent=40)
            job.completed(files=30)

    Every method keeps its event durably before it sends it, and blocks for at most `attempts` tries
    (about 15 s each where a broker accepts connections but does not answer). Where the broker is away,
    or its settings are wrong, the answer says `delivered=False` and the next event, or the end of the `with`
    block, sends it.

    Raises StoppedError when the job was cancelled or claimed again: stop working. Also ConflictError
    (finished), TransitionError, InvalidInputError (no event can carry it), RefusedError (the event is
    kept), StorageError (it is not).

    A path in `detail` is cut to its last part, a secret in `detail` or data is replaced, each with a
    warning to the log; with `strict` that is an InvalidInputError instead.

    An exception that leaves the block before a terminal event was said becomes an `error` event with
    its class name; `sys.exit(0)` is none. A block that is left without a terminal event is warned about in
    the log "jobwire.publisher": the job goes on, and its watchers wait.

    Without arguments the environment says which job (JOBWIRE_JOB, JOBWIRE_ATTEMPT, JOBWIRE_TICKET,
    JOBWIRE_HOME, JOBWIRE_EXPIRY_SECONDS); a home that nobody names is found as commands find theirs.
    `broker` holds settings as command line options do. Where a registry process works on the home it sends
    the events over its connection; `direct` connects to the broker all the same.
    """

    def __init__(
        self,
        job_id: str | None = None,
        *,
        home: Path | str | None = None,
        ticket: Path | str | None = None,
        attempt: int | None = None,
        broker: Mapping[str, object] | None = None,
        strict: bool = False,
        attempts: int = DEFAULT_ATTEMPTS,
        confirm_seconds: float | None = None,
        direct: bool = False,
        environ: Mapping[str, str] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._environ = dict(os.environ if environ is None else environ)
        self._clock = clock or SystemClock()
        if ticket is None and job_id is None:
            ticket = self._environ.get(ENV_TICKET) or None
        self._events = open_event_log(
            job_id=job_id or (None if ticket else self._environ.get(ENV_JOB)),
            ticket=None if ticket is None else str(ticket),
            home=None if home is None else str(home),
            attempt=attempt,
            clock=self._clock,
            environ=self._environ,
        )
        # A command speaks once, this object for long: the attempt it began in is the one it speaks for.
        self._events.pin()
        self._broker = dict(broker or {})
        self._redactor = Redactor(self._environ)
        self._strict = strict
        self._attempts = attempts
        self._confirm_seconds = confirm_seconds
        self._guard = threading.Lock()
        self._sender = OutboxSender(self._events, self._route, clock=self._clock)
        self._handover = (
            None
            if direct
            else open_handover(
                self._events, command_line=self._broker, environ=self._environ, clock=self._clock
            )
        )
        self._quiet_until = 0.0
        self._ended = False

    @property
    def job_id(self) -> str:
        """Return the job's id."""
        return self._events.job_id

    @property
    def ended(self) -> bool:
        """Tell whether the terminal event was said here."""
        return self._ended

    def started(self, /, detail: str = "", **data: object) -> Published:
        """Say that work on this attempt begins; the first event of an attempt."""
        return self.say(EventType.STARTED, detail, data)

    def progress(self, /, detail: str = "", **data: object) -> Published:
        """Say how far the work is."""
        return self.say(EventType.PROGRESS, detail, data)

    def permission_required(self, /, detail: str = "", **data: object) -> Published:
        """Say that somebody must decide before the work goes on; the next event takes it back."""
        return self.say(EventType.PERMISSION_REQUIRED, detail, data)

    def completed(self, /, detail: str = "", **data: object) -> Published:
        """Say that the work is done. Terminal."""
        return self.say(EventType.COMPLETED, detail, data)

    def error(self, /, detail: str = "", **data: object) -> Published:
        """Say that the work failed. Terminal."""
        return self.say(EventType.ERROR, detail, data)

    def ask(
        self,
        text: str,
        *,
        kind: str = RequestKind.QUESTION,
        choices: Sequence[str] = (),
        default: str | None = None,
        scope: str | None = None,
        tool: str | None = None,
        digest: str | None = None,
        preview: str | None = None,
        timeout_seconds: float | None = None,
        request: str | None = None,
        on_answer: Callable[[Answer], object] = lambda _: None,
        stop: threading.Event | None = None,
    ) -> Answer:
        """Ask a person and return the answer; blocks, while other threads may go on saying things.

        `request` is the request's id: asked again after a restart, it is waited for again. Without an answer
        within `timeout_seconds` the answer is `default`, by nobody; without that, NoAnswerError. Raises
        StoppedError where the job ended or was claimed again meanwhile, InvalidInputError, RefusedError where
        the account may not hear answers. `on_answer` is called before the registry hears that we have it.
        Once `stop` is set, StoppedError within a second: the request stays open.
        """
        request_id = request or new_request_id(self.job_id)
        body = request_body(
            request_id,
            self._redactor.mask_secrets(text),
            kind=kind,
            choices=choices,
            default=default,
            scope=scope,
            tool=tool,
            digest=digest,
            preview=None if preview is None else self._redactor.mask_secrets(preview),
            timeout_seconds=timeout_seconds,
        )
        answers = self._answers()
        if not answers.asked(request_id):
            line = self._redactor.redact(" ".join(str(body["text"]).split()))[:MAX_DETAIL]
            self._tell_first(EventType.PERMISSION_REQUIRED, line, {REQUEST: body})
        until = float("inf") if timeout_seconds is None else self._clock.monotonic() + timeout_seconds
        heard = None
        while heard is None and (left := until - self._clock.monotonic()) > 0:
            if stop is not None and stop.is_set():
                raise StoppedError(f"request {request_id} is no longer waited for")
            heard = answers.wait(request_id, left if stop is None else min(left, _LOOK_SECONDS))
        given = heard.answer if heard is not None else None
        if given is not None:
            on_answer(given)
            self._tell(EventType.PROGRESS, f"answered by {given.by}", {RESOLVED: [request_id]})
            return given
        self._tell(EventType.PROGRESS, "goes on without an answer", {RESOLVED: [request_id]})
        # What was answered at the same moment is the answer.
        given = answers.answer(request_id)
        if given is None and default is None:
            raise no_answer(request_id, timeout_seconds or 0.0)
        given = given or Answer(default or "", NOBODY, DEFAULT)
        on_answer(given)
        return given

    def say(self, event: str, detail: str = "", data: Mapping[str, object] | None = None) -> Published:
        """Publish any event; what the named methods do, with data whose keys need not be names."""
        draft = self._cleaned(Draft(str(event), detail, data or {}))
        with self._guard:
            published = self._publish(draft)
            if published.failure is not None:
                self._reported(published.failure)
            elif published.delivered:
                self._quiet_until = 0.0
            return published

    def keep(self, event: str, detail: str = "", data: Mapping[str, object] | None = None) -> Published:
        """Keep any event durably, without sending it: `send` does that, also from another thread.

        Waits for the disk and never for a broker. Raises as `say`, but nothing about a broker.
        """
        draft = self._cleaned(Draft(str(event), detail, data or {}))
        entry = self._events.append(draft)
        self._ended = self._ended or draft.event in TERMINAL_EVENTS
        return Published(self._events.job_id, entry.seq, entry.event, delivered=False)

    def send(self) -> None:
        """Send what was kept, in one try, and wait for the registry process after a terminal event.

        Raises UnreachableError, RefusedError or ConfigError: what was not sent stays in the outbox.
        """
        with self._guard:
            ended, seq = self._ended, self._events.outbox.last_seq
            if not seq:
                return
            delivery = deliver(self._events, lambda: self._sender, seq, handover=self._handover, attempts=1)
            if delivery.failure is not None:
                raise delivery.failure
            if ended and not delivery.confirmed:
                confirm(self._events, lambda: self._sender, seq, self._confirm_seconds, terminal=True)

    def flush(self) -> bool:
        """Send what is waiting, now; tell whether all of it was delivered. Raises as the events do."""
        with self._guard:
            delivery = self._sender.flush(attempts=self._attempts)
            if delivery.failure is not None:
                self._reported(delivery.failure)
            return delivery.delivered

    def close(self) -> None:
        """Disconnect; what is not delivered stays in the outbox. Idempotent."""
        with self._guard:
            self._sender.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        well = left_well(error)
        try:
            if not (well or self._ended or isinstance(error, (StoppedError, GeneratorExit))):
                self._fail(f"ended by {type(error).__name__}")
            elif self._quiet_until:
                self.flush()
            if well and not self._ended:
                _log.warning(
                    "job %s: the block was left without completed() or error(): the job goes on", self.job_id
                )
        except JobwireError as failure:
            if kind is None:
                raise
            # The caller's own exception is the news.
            _log.warning("%s", failure)
        finally:
            self.close()

    def _answers(self) -> Answers:
        if isinstance(self._events, HomeEventLog):
            return HomeAnswers(self._events, clock=self._clock)
        from jobwire.delivery.ticket_log import TicketEventLog  # noqa: PLC0415 - only where there is a ticket

        assert isinstance(self._events, TicketEventLog)  # noqa: S101 - there are two
        settings = self._events.settings(self._broker, self._environ)
        if settings.username and not settings.certfile:
            raise RefusedError(
                f"the account {settings.username} may not hear answers: they are for their job alone",
                hint="a ticket with a certificate may: jobwire registry ticket JOB --certificate",
            )
        return TicketAnswers(self._events, self._sender, guard=self._guard, clock=self._clock)

    def _tell(self, event: str, detail: str, data: Mapping[str, object]) -> None:
        """Say it without waiting for a broker, where the registry's record is on this disk.

        The registry process sends it, or the job's next event does.
        """
        if not isinstance(self._events, HomeEventLog):
            self.say(event, detail, data)
            return
        kept = self.keep(event, detail, data)
        with self._guard:
            if self._handover is not None:
                self._handover.deliver(self.job_id, kept.seq)

    def _tell_first(self, event: str, detail: str, data: Mapping[str, object]) -> None:
        """Say it; who claimed the job and has said nothing yet says `started` before it."""
        try:
            self._tell(event, detail, data)
        except TransitionError:  # the attempt's first event is `started`
            self._tell(EventType.STARTED, "", {})
            self._tell(event, detail, data)

    def _fail(self, detail: str) -> None:
        try:
            self.error(detail)
        except TransitionError:  # the attempt's first event is `started`
            self.started()
            self.error(detail)

    def _cleaned(self, draft: Draft) -> Draft:
        cleaned = clean(draft, self._redactor)
        if self._strict:
            refuse_unclean(cleaned)
        for sentence in cleaned.warnings():
            _log.warning("%s", sentence)
        return cleaned.draft

    def _publish(self, draft: Draft) -> Published:
        terminal = draft.event in TERMINAL_EVENTS
        if self._clock.monotonic() < self._quiet_until and not terminal:
            entry = self._events.append(draft)
            return Published(self._events.job_id, entry.seq, entry.event, delivered=False)
        published = publish(
            self._events,
            lambda: self._sender,
            draft,
            handover=self._handover,
            attempts=self._attempts,
            confirm_seconds=self._confirm_seconds,
        )
        self._ended = self._ended or terminal
        return published

    def _reported(self, failure: JobwireError) -> None:
        """Raise what the worker must know; an absent broker and wrong settings are no end of its work."""
        if not isinstance(failure, (UnreachableError, InvalidInputError)):
            raise failure
        self._quiet_until = self._clock.monotonic() + _RETRY_AFTER_SECONDS
        _log.warning("%s", failure)

    def _route(self) -> Route:
        return open_route(self._events, command_line=self._broker, environ=self._environ, clock=self._clock)


def left_well(error: BaseException | None) -> bool:
    """Tell whether a block was left as one that went well: at its end, or by `sys.exit(0)`."""
    return error is None or (isinstance(error, SystemExit) and error.code in {None, 0})
