"""Work that is nobody's: an agent that has nothing to do is given the message that asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobwire.coordination.projection import is_planned
from jobwire.coordination.stored import InboxMessage
from jobwire.coordination.tasks.following import check_claim
from jobwire.coordination.thread import InboxThread, ThreadStatus
from jobwire.core.errors import ConflictError

if TYPE_CHECKING:
    from jobwire.coordination.store import CoordinationStore, Transaction

_LOOKED_AT = 50
_RANKS = {"high": 0, "normal": 1, "low": 2}


def adopt(store: CoordinationStore, agent: str) -> bool:
    """Deliver the most urgent open work to the agent as well; tell whether there was any.

    Several may be given the same: who claims it first has it, and for the others it is settled.
    """
    values = {"assigned_to": "", "status": ThreadStatus.PENDING, "limit": _LOOKED_AT}
    if not store.rows("candidates", values):
        return False
    with store.changing() as change:
        for row in change.rows("candidates", values):
            thread = InboxThread(*row)
            if thread.work and _may_claim(change, thread, agent) and _deliver(change, thread, agent):
                return True
    return False


def _may_claim(change: Transaction, thread: InboxThread, agent: str) -> bool:
    if not is_planned(change, thread):
        return True
    try:
        check_claim(change, thread, agent, change.now_ms)
    except ConflictError:
        return False
    return True


def _deliver(change: Transaction, thread: InboxThread, agent: str) -> bool:
    """Deliver the thread's last task; False where the agent had it before."""
    row = change.row("request_before", {"thread_id": thread.thread_id, "seq": 2**62})
    if row is None:
        return False
    message = InboxMessage(*row)
    if change.row("delivery", {"agent_id": agent, "seq": message.seq}) is not None:
        return False
    change.execute(
        "insert_delivery",
        {
            "agent_id": agent,
            "seq": message.seq,
            "thread_id": thread.thread_id,
            "rank": _RANKS[message.priority],
            "expires_at_ms": message.expires_at_ms,
        },
    )
    return True
