"""A reply: a message in a thread that its participants share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobwire.coordination.blobs import BlobFolder
from jobwire.coordination.message import NewMessage, check_message
from jobwire.coordination.reading import message_of, part_in, thread_of
from jobwire.coordination.sending import Bulk, Posted, write
from jobwire.coordination.taking import settle_in_thread
from jobwire.coordination.thread import check_may_reply

if TYPE_CHECKING:
    from jobwire.coordination.store import CoordinationStore, Transaction
    from jobwire.coordination.thread import InboxThread


def reply(store: CoordinationStore, new: NewMessage) -> Posted:
    """Say something in a thread; to the others in it where nobody is named.

    What was read of the thread is done with that. Raises NotFoundError, InvalidInputError (forbidden) for
    somebody who has no part in the thread.
    """
    if new.thread_id is None:
        new = new._replace(thread_id=message_of(store, str(new.in_reply_to)).thread_id)
    new = check_message(new)
    large = Bulk.of(new, BlobFolder(store.home))
    with store.changing() as change:
        thread = thread_of(change, str(new.thread_id))
        standing = part_in(change, thread.thread_id, new.from_agent)
        check_may_reply(thread, new.from_agent, leads=standing.leads, takes_part=standing.takes_part)
        to = new.to or _others(change, thread, new.from_agent)
        read = _last_read(change, thread.thread_id, new.from_agent)
        posted = write(change, new._replace(to=to), large)
        settle_in_thread(change, new.from_agent, thread.thread_id, read)
        return posted


def _others(change: Transaction, thread: InboxThread, agent: str) -> tuple[str, ...]:
    """Return who wrote to the agent last, else who asked for the work and who does it."""
    last = change.row("last_from_others", {"thread_id": thread.thread_id, "agent_id": agent})
    names = (last[0],) if last is not None else (thread.created_by, thread.assigned_to)
    return tuple(name for name in dict.fromkeys(names) if name not in {"", agent})


def _last_read(change: Transaction, thread_id: str, agent: str) -> int:
    """Return up to which message the agent has seen the thread: an unread one is not done by a reply."""
    values = {"agent_id": agent, "thread_id": thread_id, "through": 2**62}
    rows = change.rows("open_in_thread", values)
    seen = [int(row[1]) for row in rows if row[12] is not None]
    return max(seen, default=0)
