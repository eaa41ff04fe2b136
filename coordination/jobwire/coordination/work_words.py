"""What a holder says of its work: the job's signed event and the thread's message, as one change."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from jobwire.coordination.blobs import BlobFolder
from jobwire.coordination.message import STORE_AGENT, NewMessage, check_message, digest_of
from jobwire.coordination.projection import cross, settle
from jobwire.coordination.reading import thread_of
from jobwire.coordination.sending import Bulk, Posted, already, new_id
from jobwire.coordination.stored import InboxMessage, thread_json
from jobwire.coordination.taking import settle_in_thread
from jobwire.coordination.thread_requests import asking, request_id_of, settling
from jobwire.core.errors import InvalidInputError
from jobwire.core.redaction import Redactor
from jobwire.delivery.handover import HandOver
from jobwire.delivery.signing import Draft, sign_next
from jobwire.jobs.event import MAX_DETAIL
from jobwire.registry.audit import PUBLISHER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobwire.coordination.handling.tries import Handled
    from jobwire.coordination.store import CoordinationStore, Transaction
    from jobwire.coordination.thread import InboxThread
    from jobwire.coordination.work_seat import WorkSeat
    from jobwire.registry.store import LockedRecord

ASKS = "permission_required"


class Worded(NamedTuple):
    """What was said in a thread, and the thread after it."""

    posted: Posted
    thread: InboxThread

    def to_json(self) -> dict[str, object]:
        """Return it as commands print it."""
        return {**self.posted._asdict(), "thread": thread_json(self.thread)}


class JobWords(NamedTuple):
    """What becomes an event of a thread's job: its kind, its message, what more its data holds.

    `choices` are those of a question; `handled` is the try of a delivery that ends with it.
    """

    event: str
    new: NewMessage
    data: Mapping[str, object] = {}
    choices: tuple[str, ...] = ()
    handled: Handled | None = None


def in_job(seat: WorkSeat, thread: InboxThread, words: JobWords, token: str | None) -> Worded:
    """Say it as the holder of the thread's job; raises ConflictError for anybody else."""
    store, new = seat.store, words.new
    large = Bulk.of(new, BlobFolder(store.home))

    def settled(change: Transaction, posted: Posted) -> None:
        if locked.record.terminal and words.handled is None:
            settle_in_thread(change, seat.agent, thread.thread_id, posted.event_id)

    with seat.records.locked(str(thread.job_id)) as locked:
        settle(store, locked)
        seat.check_holder(thread, locked.record, token)
        append = partial(_append, seat, locked, words)
        posted = cross(store, locked, new, large, append, also=settled, handled=words.handled)
        record, after = locked.record, thread_of(store, thread.thread_id)
    ended = after.ended or after.job_id != record.job_id
    if ended and (kept := seat.lease_file(thread.thread_id)) is not None:
        kept.remove()
    mention(store, record.job_id, record.last_seq)
    return Worded(posted, after)


def check_words(new: NewMessage, event: str) -> None:
    """Refuse a question or an end without a word."""
    if not (new.summary or new.body):
        raise InvalidInputError(
            "say in --summary what is missing" if event == ASKS else "say it in --summary",
            hint="whoever reads it knows no more than that",
        )


def addressed(seat: WorkSeat, thread: InboxThread, new: NewMessage) -> NewMessage:
    """Return the message with an id and its recipients: who asked, and on cancelling who works."""
    to = new.to or tuple(
        name
        for name in dict.fromkeys((thread.created_by, thread.assigned_to))
        if name not in {"", seat.agent, STORE_AGENT}
    )
    return check_message(new._replace(to=to, id=new.id or new_id(), run_id=thread.run_id))


def said_before(store: CoordinationStore, new: NewMessage) -> Posted | None:
    """Return what became of the same message before; raises ConflictError (duplicate_id) for another."""
    rows = store.rows("message", {"id": new.id})
    return already(InboxMessage(*rows[0]), digest_of(new)) if rows else None


def with_request(thread: InboxThread, new: NewMessage) -> NewMessage:
    """Return a question with the id of the request that the thread's job makes of it."""
    if thread.job_id is None:
        return new
    return new._replace(correlation_id=request_id_of(thread.job_id, new.id))


def mention(store: CoordinationStore, job_id: str, seq: int) -> None:
    """Tell a registry process that there is something to send; without one the next publish sends it."""
    handover = HandOver(store.home, wishes={}, expiry_seconds=None, clock=store.clock)
    handover.mention(job_id, seq)


def _append(seat: WorkSeat, locked: LockedRecord, words: JobWords) -> None:
    """Append the job's signed event, with the message's id as its op; `started` before the first."""
    now, new = seat.store.clock.now(), words.new
    record = locked.record
    if record.last_seq == record.attempt_seq:
        started, signed = sign_next(record, Draft("started"), seq=record.last_seq + 1, now=now)
        record = locked.apply(started, signed.payload, source=PUBLISHER)
    # The message stays on this disk; what goes over the wire holds no path and no secret.
    redactor = Redactor(seat.environ)
    about = asking(record, new, redactor, words.choices) if words.event == ASKS else {}
    about = settling(record) if words.event == "progress" else about
    draft = Draft(
        words.event, redactor.redact(new.summary)[:MAX_DETAIL], {**words.data, "op": new.id, **about}
    )
    said, signed = sign_next(record, draft, seq=record.last_seq + 1, now=now)
    locked.apply(said, signed.payload, source=PUBLISHER)
