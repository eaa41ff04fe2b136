"""From a delivery that was taken to a job that is ours: which thread's work it is, and whether it is any.

Work that is nobody's is delivered to an agent that has nothing to do.
"""

from __future__ import annotations

import contextlib
import hashlib
from typing import TYPE_CHECKING, NamedTuple

from jobwire.coordination import taking
from jobwire.coordination.delivery import DeliveryState, InboxDelivery, settled
from jobwire.coordination.handling.tries import Handled, Tries, end_try, postponed
from jobwire.coordination.marks import catch_up
from jobwire.coordination.message import MAX_HOP, MAX_SUBJECT, STORE_AGENT, NewMessage
from jobwire.coordination.projection import is_planned
from jobwire.coordination.reading import part_in, thread_of
from jobwire.coordination.routing.route import ALERT, RECEIPT
from jobwire.coordination.sending import begin_thread, move
from jobwire.coordination.stored import InboxMessage
from jobwire.coordination.tasks.following import check_claim
from jobwire.coordination.thread import InboxThread, ThreadStatus
from jobwire.core.clock import epoch
from jobwire.core.errors import ConflictError, StoppedError
from jobwire.jobs.lifecycle import Status

if TYPE_CHECKING:
    from jobwire.coordination.lease_file import LeaseToken
    from jobwire.coordination.store import CoordinationStore, Transaction
    from jobwire.coordination.taking import Taken
    from jobwire.coordination.work import Shape, ThreadWork

_LOOKED_AT = 50
_RANKS = {"high": 0, "normal": 1, "low": 2}
ASKED = frozenset({"task", "question"})
# What a lead is run for besides: what became of the work, and what it has to decide.
_OF_LEADS = frozenset({RECEIPT, ALERT})
# What the threads of jobs are called that handle other messages than tasks.
_BESIDE = "a-"
STOPPED = "the autopilot was stopped"
_DIED = "its worker died without a last word"


class Assignment(NamedTuple):
    """A delivery that a command is to handle: the message, and the job that does it in a thread of work."""

    message: InboxMessage
    delivery: InboxDelivery
    thread: InboxThread
    token: LeaseToken
    handled: Handled


def is_wanted(message: InboxMessage, *, leads: bool) -> bool:
    """Tell whether a command is to be run for a message: it asks for something, or tells a lead the outcome.

    What went over the last hop asks for nothing more, unless it is a task. Nor does the receipt of what was
    no task.
    """
    if message.kind == "task":
        return True
    if message.hop >= MAX_HOP or (message.from_agent == STORE_AGENT and message.type != ALERT):
        return False
    if message.kind == RECEIPT and message.thread_id.startswith(_BESIDE):
        return False
    return message.kind in ASKED or (leads and (message.kind in _OF_LEADS or message.type in _OF_LEADS))


def asks_for_work(store: CoordinationStore, agent: str, message: InboxMessage) -> bool:
    """Tell whether a command is to be run for an agent's message."""
    return is_wanted(message, leads=part_in(store, message.thread_id, agent).leads)


def assign(
    work: ThreadWork, taken: Taken, *, seconds: float, tries: Tries, shape: Shape
) -> Assignment | None:
    """Make the delivery's work ours, as a job; None where there is nothing to do, or not yet.

    Raises what claiming raises, but for conflicts: what is somebody else's is put off or settled.
    """
    store, message = work.store, taken.message
    catch_up(store)
    if not asks_for_work(store, work.agent, message):
        _settle(store, taken)
        return None
    thread = _thread_for(work, message)
    if _is_over(store, thread, message):
        _settle(store, taken)
        return None
    if thread.ended and is_planned(store, thread):
        # A task of a plan is opened by its plan, with a message of its own.
        _settle(store, taken)
        return None
    if thread.ended:
        with store.changing() as change:
            reopen(change, thread_of(change, thread.thread_id))
    try:
        claimed = work.claim(thread.thread_id, seconds, settles=False, shape=shape)
    except ConflictError as error:
        until = error.facts.get("not_before_ms")
        if error.facts.get("code") == "lease_conflict":
            until = round(epoch(str(error.facts["until"])) * 1000)
        if isinstance(until, int):
            _put_off(store, taken, until)
        else:
            _settle(store, taken)
        return None
    handled = Handled(work.agent, message.seq, message.thread_id, claimed.event_id, tries)
    return Assignment(message, taken.delivery, claimed.thread, claimed.token, handled)


class WoundUp(NamedTuple):
    """How a job stands after its worker is gone, and whether that said its last word."""

    status: Status
    died: bool


def wind_up(work: ThreadWork, one: Assignment, *, stopped: bool = False) -> WoundUp:
    """Decide about a delivery whose worker is gone, where it did not itself.

    `stopped`: that was for our sake, so it is given back and no failure.
    """
    store = work.store
    record = work.records.get(one.token.job_id)
    died = False
    if record.status is Status.RUNNING and record.attempt == one.token.attempt:
        new = NewMessage(work.agent, thread_id=one.thread.thread_id, summary=_DIED, type="receipt")
        died = True
        # Where it ended, or its lease ran out, while we looked, the record says what became of it.
        with contextlib.suppress(ConflictError, StoppedError):
            if stopped:
                work.give_back(one.token, STOPPED)
            else:
                work.finish(new, good=False, token=str(one.token), handled=one.handled)
        record = work.records.get(one.token.job_id)
    catch_up(store)
    with store.changing() as change:
        held = _held(change, one)
        if held is None:
            return WoundUp(record.status, died)
        planned = is_planned(change, one.thread)
        if record.status in {Status.COMPLETED, Status.CANCELLED} or (record.terminal and planned):
            end_try(change, one.handled, good=True)
        elif not record.terminal:
            taking.put(change, postponed(held, change.now_ms))
            change.agents.add(work.agent)
        elif end_try(change, one.handled, good=False, reason=record.detail):
            reopen(change, thread_of(change, one.thread.thread_id))
    return WoundUp(record.status, died)


def reopen(change: Transaction, thread: InboxThread) -> None:
    """Let a thread whose job ended have another one."""
    if not thread.ended:
        return
    number = change.event(
        "thread_pending",
        source=STORE_AGENT,
        thread_id=thread.thread_id,
        run_id=thread.run_id,
        task_id=thread.task_id,
    )
    again = thread._replace(
        status=ThreadStatus.PENDING,
        assigned_to=thread.addressed_to,
        job_id=None,
        updated_at=change.at,
        changed=number,
    )
    move(change, again)


def _held(change: Transaction, one: Assignment) -> InboxDelivery | None:
    """Return the delivery where it is still held under our lease."""
    held = taking.find_delivery(change, one.delivery.agent_id, one.delivery.seq)
    if held is None or held.state != DeliveryState.LEASED or held.lease_token != one.delivery.lease_token:
        return None
    return held


def _is_over(store: CoordinationStore, thread: InboxThread, message: InboxMessage) -> bool:
    """Tell whether the work was done, or cancelled, after the message asked for it."""
    if thread.status == ThreadStatus.CANCELLED:
        return True
    values = {"thread_id": thread.thread_id, "after": message.seq}
    return thread.status == ThreadStatus.DONE and bool(store.rows("claimed_after", values))


def _thread_for(work: ThreadWork, message: InboxMessage) -> InboxThread:
    """Return the thread whose work the message asks for: its own, or one beside it where it is no task."""
    store = work.store
    if message.kind == "task":
        return thread_of(store, message.thread_id)
    name = hashlib.sha256(work.agent.encode()).hexdigest()[:12]
    thread_id = f"{_BESIDE}{message.seq}-{name}"
    with store.changing() as change:
        if change.row("thread", {"thread_id": thread_id}) is None:
            subject = f"{message.kind} of {message.from_agent}: {message.summary}"[:MAX_SUBJECT]
            about = NewMessage(
                message.from_agent,
                kind="task",
                subject=subject,
                run_id=message.run_id,
                priority=message.priority,
            )
            begin_thread(change, about, thread_id, [work.agent])
            change.event("thread_pending", source=work.agent, thread_id=thread_id)
        return thread_of(change, thread_id)


def _settle(store: CoordinationStore, taken: Taken) -> None:
    with store.changing() as change:
        held = taking.find_delivery(change, taken.delivery.agent_id, taken.delivery.seq)
        if held is not None and held.state == DeliveryState.LEASED:
            taking.put(change, settled(held, change.now_ms))
            taking.advance(change, taken.delivery.agent_id)


def _put_off(store: CoordinationStore, taken: Taken, until_ms: int) -> None:
    with store.changing() as change:
        held = taking.find_delivery(change, taken.delivery.agent_id, taken.delivery.seq)
        if held is not None:
            taking.put(change, postponed(held, until_ms))


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
