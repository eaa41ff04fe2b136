"""The events of a job on another host: a ticket file, and the outbox and locks beside it."""

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from jobwire.core.clock import Clock, utc_timestamp
from jobwire.core.errors import ConflictError
from jobwire.core.ports import Message
from jobwire.core.roles import Role
from jobwire.core.settings import BrokerSettings
from jobwire.core.topics import Topics
from jobwire.delivery.outbox import Position, SignedEvent
from jobwire.delivery.outbox_file import OutboxFile
from jobwire.delivery.signing import (
    Draft,
    check_attempt,
    check_open,
    claimed_again,
    ended,
    event_in,
    sign_next,
)
from jobwire.delivery.ticket_files import broker_layer, read_ticket
from jobwire.jobs.answers import AnswerSheet, decode_answers
from jobwire.jobs.lifecycle import EVENT_TRANSITIONS, TERMINAL_STATUSES, Status
from jobwire.jobs.record import JobRecord
from jobwire.jobs.requests import Answer
from jobwire.jobs.snapshot import Snapshot, UnknownStateError, decode_snapshot
from jobwire.storage import file_lock
from jobwire.storage.files import FileSystem, SystemFiles
from jobwire.transport import load_settings

_ANSWER = "/answer"
_log = logging.getLogger("jobwire.publisher")


class TicketEventLog:
    """See `EventLog`. The registry's word comes from the signed, retained `state` topic.

    Without a record, seq and state of the job are the last entry of the outbox beside the ticket: one
    ticket file is one worker's. A copy of it in use elsewhere takes the same numbers, and so does a
    ticket that was moved without its outbox: whoever is behind the registry's word is stopped.
    """

    def __init__(
        self, path: Path, *, clock: Clock, files: FileSystem | None = None, attempt: int | None = None
    ) -> None:
        self._path = path
        self._clock = clock
        self._files = files or SystemFiles()
        self._ticket = read_ticket(path)
        self._snapshot: Snapshot | None = None
        self._puzzled = False
        self._sheet: AnswerSheet | None = None
        self._asks = False
        self.outbox = OutboxFile(f"{path}.outbox", files=self._files)
        self.job_id = self._ticket.job_id
        if attempt is not None:
            check_attempt(self._record(None), attempt)

    def pin(self) -> None:
        """See `EventLog.pin`: a ticket is one attempt's."""

    def settings(self, command_line: Mapping[str, object], environ: Mapping[str, str]) -> BrokerSettings:
        """See `EventLog.settings`: a jobwire.toml beside the ticket fills in what the ticket leaves open."""
        return load_settings(
            home=self._path.parent,
            role=Role.WORKER,
            command_line=command_line,
            record=broker_layer(self._ticket, self._path, self._files),
            environ=environ,
        )

    def append(self, draft: Draft) -> SignedEvent:
        """See `EventLog.take`."""
        self.check_stopped()
        with self._lock("lock", file_lock.DEFAULT_DEADLINE_SECONDS):
            record = self._record(self._own_last())
            check_open(record)
            _, entry = sign_next(record, draft, seq=record.last_seq + 1, now=self._clock.now())
            self.outbox.append(entry)
            return entry

    def recover(self) -> Position:
        """See `EventLog.recover`: there is no second place to bring up."""
        with self._lock("lock", file_lock.DEFAULT_DEADLINE_SECONDS):
            self.outbox.set_aside()
        return self.position()

    def position(self) -> Position:
        """See `EventLog.position`: confirmed is what the registry's state says.

        A certificate may read the job's state, so without a state nothing is confirmed; a role account
        may not, so there PUBACK is all there is until a state was heard.
        """
        confirmed = 0 if {"certfile", "certfile_pem"} & set(self._ticket.broker) else None
        if self._snapshot is not None:
            confirmed = self._snapshot.last_seq
        return Position(self._ticket.attempt, self.outbox.last_seq, confirmed)

    def is_attended(self) -> bool:
        """See `EventLog.is_attended`: another host's processes cannot be seen from here."""
        return True

    def trim(self, through_seq: int) -> None:
        """See `EventLog.trim`."""
        with self._lock("lock", file_lock.DEFAULT_DEADLINE_SECONDS):
            self.outbox.trim(through_seq)

    def sending(self, *, deadline_seconds: float) -> contextlib.AbstractContextManager[None]:
        """See `EventLog.sending`."""
        return self._lock("send.lock", deadline_seconds)

    def filters(self, topic_root: Callable[[], str]) -> list[str]:
        """See `EventLog.filters`."""
        topics = Topics(topic_root())
        return [topics.state(self.job_id), *([topics.answer(self.job_id)] if self._asks else [])]

    def listen_for_answers(self) -> None:
        """Hear answers as well, from the next connection on."""
        self._asks = True

    def answer(self, request_id: str) -> Answer | None:
        """Return what was heard in answer to a request."""
        return None if self._sheet is None else self._sheet.answers.get(request_id)

    def hear(self, message: Message) -> None:
        """See `EventLog.hear`: what is not signed for this ticket's holder, or not understood, is ignored."""
        if message.topic.endswith(_ANSWER):
            self._hear_answers(message.payload)
            return
        try:
            heard = decode_snapshot(message.payload, job_id=self.job_id, token=self._ticket.auth_token)
        except UnknownStateError as error:
            if not self._puzzled:
                _log.warning("%s", error)
            self._puzzled = True
            return
        if heard is None:
            return
        # A retained state that was kept back by somebody must not undo what is known.
        if self._snapshot is None or _place(heard) >= _place(self._snapshot):
            self._snapshot = heard

    def _hear_answers(self, payload: bytes) -> None:
        ticket = self._ticket
        heard = decode_answers(payload, job_id=self.job_id, attempt=ticket.attempt, token=ticket.auth_token)
        # An old sheet that was kept back by somebody brings no answer back.
        if heard is not None and (self._sheet is None or heard.n > self._sheet.n):
            self._sheet = heard

    def check_stopped(self) -> None:
        """See `EventLog.check_stopped`."""
        heard = self._snapshot
        if heard is None:
            return
        if heard.superseded or heard.attempt > self._ticket.attempt:
            raise claimed_again(self.job_id, self._ticket.attempt, heard.attempt)
        if heard.status is Status.CANCELLED:
            raise ended(self.job_id, heard.status)
        last = self.outbox.last()
        self._check_sole(heard, last)
        if heard.status not in TERMINAL_STATUSES or last is None or last.seq <= heard.last_seq:
            return
        # The end may be our own, with earlier events still missing there: those must go on being sent.
        if EVENT_TRANSITIONS[Status.RUNNING, last.event] is not heard.status:
            raise ended(self.job_id, heard.status)

    def _check_sole(self, heard: Snapshot, last: SignedEvent | None) -> None:
        """Raise ConflictError where the registry holds events of this attempt that were not said here."""
        if last is not None and last.attempt != self._ticket.attempt:
            return  # of an earlier ticket: `take` empties it
        said = max(self._ticket.last_seq, last.seq if last else 0)
        if heard.last_seq > said:
            raise ConflictError(
                f"somebody else speaks for job {self.job_id}: its seq is {heard.last_seq}, here it is {said}",
                hint="one ticket is one worker's, and moves together with its .outbox; "
                f"`jobwire registry ticket {self.job_id}` writes one that counts on from there",
                job_id=self.job_id,
                last_seq=heard.last_seq,
                own_seq=said,
            )

    def _own_last(self) -> SignedEvent | None:
        """Return the newest entry of this ticket; an earlier ticket's outbox is emptied."""
        last = self.outbox.last()
        if last is None:
            return None
        if event_in(last.seq, last.payload).job_id == self.job_id:
            if last.attempt == self._ticket.attempt:
                return last
            if last.attempt > self._ticket.attempt:
                # An old ticket was put back in the place of a newer one.
                raise claimed_again(self.job_id, self._ticket.attempt, last.attempt)
        unsent = [entry.seq for entry in self.outbox.entries(after=self.outbox.mark.read().acked_seq)]
        if unsent:
            _log.warning(
                "%s held %d unsent events of another ticket: they are dropped", self.outbox.path, len(unsent)
            )
        self.outbox.remove()
        return None

    def _record(self, last: SignedEvent | None) -> JobRecord:
        """Return what is known of the job in the form that the lifecycle's rules take."""
        stamp = utc_timestamp(self._clock.now())
        return JobRecord(
            job_id=self.job_id,
            auth_token=self._ticket.auth_token,
            created_at=stamp,
            updated_at=stamp,
            status=EVENT_TRANSITIONS[Status.RUNNING, last.event] if last else Status.RUNNING,
            attempt=self._ticket.attempt,
            attempt_seq=self._ticket.attempt_seq,
            last_seq=max(self._ticket.last_seq, last.seq if last else 0),
        )

    @contextlib.contextmanager
    def _lock(self, suffix: str, deadline_seconds: float) -> Iterator[None]:
        with file_lock.held(
            f"{self._path}.{suffix}",
            clock=self._clock,
            deadline_seconds=deadline_seconds,
            what=f"the ticket {self._path}",
        ):
            yield


def _place(snapshot: Snapshot) -> tuple[int, bool, int, str]:
    # An end is final, whatever its time says: the registry's clock may have been set back before it.
    ended = snapshot.status in TERMINAL_STATUSES
    return snapshot.attempt, ended, snapshot.last_seq, snapshot.updated_at
