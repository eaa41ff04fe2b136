"""An answer in a thread answers what the thread's job asks, by the same rule as `jobwire answer`.

Message and answer are one change, by the steps of `projection`: both are there, or neither is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobwire.coordination.blobs import BlobFolder
from jobwire.coordination.message import NewMessage, digest_of
from jobwire.coordination.projection import cross, settle
from jobwire.coordination.replying import Replied, done_with_read
from jobwire.coordination.sending import Bulk, already, new_id
from jobwire.coordination.stored import InboxMessage
from jobwire.core.errors import InvalidInputError, NotFoundError
from jobwire.jobs.request_form import RequestKind
from jobwire.jobs.requests import Answer, Request, find, open_requests
from jobwire.registry.requests import answer_locked
from jobwire.registry.store import RecordStore

if TYPE_CHECKING:
    from jobwire.coordination.sending import Posted
    from jobwire.coordination.store import CoordinationStore, Transaction
    from jobwire.coordination.thread import InboxThread
    from jobwire.jobs.record import JobRecord

_THROUGH = "inbox"


def answer(
    store: CoordinationStore, new: NewMessage, thread: InboxThread, request_id: str | None
) -> Replied | None:
    """Settle the named request, or the only open one, with the message's summary, else its body.

    None where none is named, and none is open that takes an answer. A message that is repeated under its
    id is not said again. Raises ConflictError where the request was settled before, NotFoundError
    (request_not_found), InvalidInputError: forbidden for a permission; where several are open.
    """
    new = new._replace(id=new.id or new_id())
    if rows := store.rows("message", {"id": new.id}):
        before = InboxMessage(*rows[0])
        return Replied(already(before, digest_of(new)), before.correlation_id)
    if thread.job_id is None:
        raise _unknown(thread, request_id)
    large = Bulk.of(new, BlobFolder(store.home))
    records = RecordStore(store.home, clock=store.clock)
    with records.locked(thread.job_id) as locked:
        settle(store, locked)
        asked = _asked(locked.record, thread, request_id)
        if asked is None:
            return None
        given = Answer(new.summary or new.body, new.from_agent, _THROUGH)
        said = new._replace(correlation_id=asked.id)

        def change_record() -> None:
            answer_locked(locked, asked.id, given, store.clock.now(), op=said.id)

        def also(change: Transaction, _: Posted) -> None:
            done_with_read(change, thread.thread_id, said.from_agent)

        posted = cross(store, locked, said, large, change_record, also=also, digest=digest_of(new))
    return Replied(posted, asked.id)


def _asked(record: JobRecord, thread: InboxThread, request_id: str | None) -> Request | None:
    """Return the request that is meant."""
    if request_id is not None:
        asked = find(record.requests, request_id)
        if asked is None:
            raise _unknown(thread, request_id)
    else:
        # Without an id nobody waits for an answer: what is said to it is a message.
        named = [one for one in open_requests(record.requests) if one.named]
        if len(named) > 1:
            raise InvalidInputError(
                f"job {record.job_id} asks {len(named)} things: {', '.join(one.id for one in named[:8])}",
                hint="name the one that you answer: --request ID",
            )
        if not named:
            return None
        asked = named[0]
    if asked.kind is RequestKind.PERMISSION:
        raise InvalidInputError(
            f"request {asked.id} is for a permission: that is for a person to give, not in the inbox",
            hint="`jobwire answer`, the page or `jobwire top`; reply with --kind event to say something",
            code="forbidden",
        )
    return asked


def _unknown(thread: InboxThread, request_id: str | None) -> NotFoundError:
    return NotFoundError(
        f"thread {thread.thread_id} has no request {str(request_id)[:80]!r}",
        hint="`jobwire feed` shows what is open",
        code="request_not_found",
    )
