"""A reply: a message in a thread that its participants share."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jobwire.coordination.blobs import BlobFolder
from jobwire.coordination.marks import catch_up
from jobwire.coordination.message import NewMessage, check_message
from jobwire.coordination.reading import message_of, part_in, thread_of
from jobwire.coordination.routing.directives import WORD
from jobwire.coordination.sending import Bulk, Posted, write
from jobwire.coordination.taking import settle_in_thread
from jobwire.coordination.thread import ThreadStatus, check_may_reply
from jobwire.core.errors import InvalidInputError

if TYPE_CHECKING:
    from jobwire.coordination.store import CoordinationStore, Transaction
    from jobwire.coordination.thread import InboxThread

ANSWER = "answer"


class Replied(NamedTuple):
    """What was said in a thread, and the request of its job that this answers."""

    posted: Posted
    request: str | None = None


def reply(store: CoordinationStore, new: NewMessage, *, request: str | None = None) -> Replied:
    """Say something in a thread; to the others in it where nobody is named.

    An answer is the answer to what the thread's job asks, if it asks something: see `answering`. What was
    read of the thread is done with that. Raises NotFoundError, InvalidInputError (forbidden) for somebody
    who has no part in the thread, ConflictError where the request was settled before.
    """
    if request is not None and new.kind != ANSWER:
        raise InvalidInputError("only an answer settles a request", hint=f"--kind {ANSWER}")
    if new.thread_id is None:
        new = new._replace(thread_id=message_of(store, str(new.in_reply_to)).thread_id)
    new = check_message(new)
    if new.kind == ANSWER:
        catch_up(store)
        thread = thread_of(store, str(new.thread_id))
        # Whoever asks does not answer itself by going on to talk.
        asked = thread.status == ThreadStatus.BLOCKED and new.from_agent != thread.assigned_to
        if request is not None or asked:
            from jobwire.coordination.answering import answer  # noqa: PLC0415 - brings the registry

            answered = answer(store, _addressed(store, thread, new), thread, request)
            if answered is not None:
                return answered
    large = Bulk.of(new, BlobFolder(store.home))
    with store.changing() as change:
        new = _addressed(change, thread_of(change, str(new.thread_id)), new)
        posted = write(change, new, large)
        done_with_read(change, str(new.thread_id), new.from_agent)
        if new.body.startswith(WORD) or f"\n{WORD}" in new.body:
            from jobwire.coordination.routing.route import route_answer  # noqa: PLC0415 - few replies have any

            route_answer(change, posted, new)
        return Replied(posted)


def done_with_read(change: Transaction, thread_id: str, agent: str) -> None:
    """Settle what the agent has seen of the thread in which it spoke: its unread messages stay."""
    rows = change.rows("open_in_thread", {"agent_id": agent, "thread_id": thread_id, "through": 2**62})
    seen = (int(row[1]) for row in rows if row[12] is not None)
    settle_in_thread(change, agent, thread_id, max(seen, default=0))


def _addressed(reader: CoordinationStore | Transaction, thread: InboxThread, new: NewMessage) -> NewMessage:
    """Return the message with its recipients; refuses somebody who has no part in the thread."""
    standing = part_in(reader, thread.thread_id, new.from_agent)
    check_may_reply(thread, new.from_agent, leads=standing.leads, takes_part=standing.takes_part)
    return new._replace(to=new.to or _others(reader, thread, new.from_agent))


def _others(reader: CoordinationStore | Transaction, thread: InboxThread, agent: str) -> tuple[str, ...]:
    """Return who wrote to the agent last, else who asked for the work and who does it."""
    last = reader.rows("last_from_others", {"thread_id": thread.thread_id, "agent_id": agent})
    names = (last[0][0],) if last else (thread.created_by, thread.assigned_to)
    return tuple(name for name in dict.fromkeys(names) if name not in {"", agent})
