"""Taking deliveries, acknowledging and giving them back: at least once, in order within one thread."""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from jobwire.coordination import delivery
from jobwire.coordination.blobs import BlobFolder
from jobwire.coordination.delivery import LEASE_SECONDS, MAX_TRIES, DeliveryState, InboxDelivery
from jobwire.coordination.message import STORE_AGENT, NewMessage, check_message, digest_of
from jobwire.coordination.reading import leads_of, message_of, thread_of
from jobwire.coordination.sending import Bulk, post, write
from jobwire.core.bounds import check_line, check_seconds
from jobwire.core.errors import NotFoundError, NoWorkError

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobwire.coordination.store import CoordinationStore, Transaction
    from jobwire.coordination.stored import InboxMessage

MAX_REASON = 512
_EVERY = 10_000
_LOOKED_AT = 100


class Taken(NamedTuple):
    """A message that we hold, and the lease under which it is acknowledged."""

    message: InboxMessage
    delivery: InboxDelivery

    @property
    def token(self) -> int:
        """Return the lease's token."""
        return self.delivery.lease_token or 0


def take(
    store: CoordinationStore,
    agent: str,
    *,
    incarnation: str = "",
    seconds: float = LEASE_SECONDS,
    max_tries: int = MAX_TRIES,
) -> Taken:
    """Lease the agent's next message for `seconds`: the most urgent of those that are first in their threads.

    What lapsed before is dead after `max_tries`. Raises NoWorkError (no_match).
    """
    check_seconds("lease", seconds)
    with store.changing() as change:
        _move_lapsed(change, agent, max_tries)
        found = _next(change, agent)
        if found is not None:
            token = change.event("taken", source=agent, thread_id=found.thread_id)
            held = delivery.taken(
                found, incarnation=incarnation, token=token, seconds=seconds, now_ms=change.now_ms
            )
            put(change, held)
            return Taken(message_of(change, held.seq), held)
    raise NoWorkError(
        f"nothing to take for {agent}", hint="`inbox watch` waits for something", code="no_match"
    )


def may_take(store: CoordinationStore, agent: str) -> bool:
    """Tell whether there may be something to take; changes nothing."""
    values = {"agent_id": agent, "now_ms": store.now_ms, "limit": 1}
    return bool(store.rows("next_deliveries", values) or store.rows("lapsed_deliveries", values))


def renew(
    store: CoordinationStore, agent: str, message: str | int, *, token: int | None = None
) -> InboxDelivery:
    """Extend the lease by what was granted; raises ConflictError (lease_lost) for an old holder."""
    with store.changing() as change:
        held = delivery_of(change, agent, message_of(change, message))
        return put(change, delivery.renewed(held, token=token, now_ms=change.now_ms))


def ack(
    store: CoordinationStore,
    agent: str,
    message: str | int,
    *,
    token: int | None = None,
    receipt: NewMessage | None = None,
) -> InboxDelivery:
    """Say that the message is done, in one transaction with its receipt; again is no error.

    The receipt is an event, or with `receipt` that message to the sender. Raises ConflictError (lease_lost).
    """
    large = _checked(store, receipt)
    with store.changing() as change:
        said = message_of(change, message)
        held = delivery_of(change, agent, said)
        done = delivery.acked(held, token=token, now_ms=change.now_ms)
        if done != held:
            put(change, done)
            change.event(
                "receipt",
                source=agent,
                thread_id=said.thread_id,
                run_id=said.run_id,
                message_id=said.id,
                payload={"state": "done", "attempts": done.attempts},
            )
            change.agents.add(said.from_agent)
            if large is not None:
                new, bulk = large
                _say_receipt(change, new, bulk, said)
            advance(change, agent)
        return done


def ack_through(store: CoordinationStore, agent: str, seq: int) -> int:
    """Say that all up to `seq` that the agent was given is done; return how many deliveries that were."""
    with store.changing() as change:
        values = {"agent_id": agent, "through": seq, "limit": -1}
        held = [InboxDelivery(*row) for row in change.rows("open_deliveries", values)]
        # What it has never seen stays: a cursor beyond the end hides nothing.
        seen = [one for one in held if one.delivered_ms is not None]
        for one in seen:
            put(change, delivery.settled(one, change.now_ms))
        if seen:
            change.event(
                "receipt", source=agent, payload={"state": "done", "through": seq, "count": len(seen)}
            )
            advance(change, agent)
        return len(seen)


def nack(
    store: CoordinationStore,
    agent: str,
    message: str | int,
    reason: str = "",
    *,
    token: int | None = None,
    permanent: bool = False,
    max_tries: int = MAX_TRIES,
) -> InboxDelivery:
    """Give the message back after a try that failed: later again, or dead after the last one."""
    check_line("reason", reason, MAX_REASON, empty=True)
    with store.changing() as change:
        held = delivery_of(change, agent, message_of(change, message))
        delivery.check_holder(held, token)
        return _fail(change, held, reason or "given back", max_tries=max_tries, permanent=permanent)


def requeue_of(change: Transaction, agent: str, reason: str) -> int:
    """Queue again what a dead agent held; return how many deliveries that were."""
    held = [row for row in _open(change, agent) if row.state == DeliveryState.LEASED]
    for one in held:
        _fail(change, one, reason, max_tries=MAX_TRIES)
    return len(held)


def settle_in_thread(change: Transaction, agent: str, thread_id: str, through: int) -> None:
    """Settle what an agent was sent in a thread on which it acted: it claimed it, or answered."""
    values = {"agent_id": agent, "thread_id": thread_id, "through": through}
    for row in change.rows("open_in_thread", values):
        put(change, delivery.settled(InboxDelivery(*row), change.now_ms))
    advance(change, agent)


def mark_read(store: CoordinationStore, agent: str, thread_id: str, through: int) -> None:
    """Note that the agent has seen the thread's messages up to `through`."""
    if not store.rows("unread_in", {"agent_id": agent, "thread_id": thread_id})[0][0]:
        return
    with store.changing() as change:
        change.execute(
            "read_in_thread",
            {"agent_id": agent, "thread_id": thread_id, "now_ms": change.now_ms, "through": through},
        )


def dead_of(store: CoordinationStore, agent: str | None = None, *, limit: int = 50) -> list[Taken]:
    """Return what was given up, newest first."""
    rows = store.rows("dead_deliveries", {"agent_id": agent, "limit": limit})
    return [Taken(message_of(store, row[1]), InboxDelivery(*row)) for row in rows]


def dead_deliveries_of(store: CoordinationStore, message: str | int) -> list[Taken]:
    """Return the dead deliveries of one message; raises NotFoundError where it has none."""
    said = message_of(store, message)
    rows = [InboxDelivery(*row) for row in store.rows("deliveries_of", {"seq": said.seq})]
    found = [Taken(said, one) for one in rows if one.state == DeliveryState.DEAD]
    if not found:
        raise _not_dead(said.id)
    return found


def redrive(
    store: CoordinationStore, message: str | int, agent: str | None, *, by: str, force: bool = False
) -> list[InboxDelivery]:
    """Queue dead deliveries of a message again; raises ConflictError beyond the cap unless `force`."""
    move = partial(delivery.redriven, force=force)
    return _each_dead(store, message, agent, by=by, event="redriven", move=move)


def drop(store: CoordinationStore, message: str | int, agent: str | None, *, by: str) -> list[InboxDelivery]:
    """Give up dead deliveries of a message for good."""
    return _each_dead(store, message, agent, by=by, event="dropped", move=delivery.dropped)


def put(change: Transaction, held: InboxDelivery) -> InboxDelivery:
    """Write a delivery, and return it."""
    change.execute("put_delivery", {**held._asdict(), "state": str(held.state)})
    return held


def advance(change: Transaction, agent: str) -> None:
    """Move the agent's cursor to where all before it is final."""
    first = change.rows("first_open", {"agent_id": agent})[0][0]
    change.execute("put_cursor", {"agent_id": agent, "seq": first - 1, "now_ms": change.now_ms})


def find_delivery(reader: CoordinationStore | Transaction, agent: str, seq: int) -> InboxDelivery | None:
    """Return a message's delivery to the agent, None where it was not sent to it."""
    rows = reader.rows("delivery", {"agent_id": agent, "seq": seq})
    return InboxDelivery(*rows[0]) if rows else None


def delivery_of(reader: CoordinationStore | Transaction, agent: str, message: InboxMessage) -> InboxDelivery:
    """Return the message's delivery to the agent; raises NotFoundError."""
    found = find_delivery(reader, agent, message.seq)
    if found is None:
        raise NotFoundError(
            f"message {message.id} was not sent to {agent}",
            hint="is it another agent's?",
            code="message_not_found",
        )
    return found


def _each_dead(
    store: CoordinationStore,
    message: str | int,
    agent: str | None,
    *,
    by: str,
    event: str,
    move: Callable[[InboxDelivery], InboxDelivery],
) -> list[InboxDelivery]:
    with store.changing() as change:
        said = message_of(change, message)
        rows = [InboxDelivery(*row) for row in change.rows("deliveries_of", {"seq": said.seq})]
        found = [one for one in rows if one.state == DeliveryState.DEAD and agent in {None, one.agent_id}]
        if not found:
            raise _not_dead(said.id)
        moved = [put(change, move(one)) for one in found]
        for one in moved:
            change.agents.add(one.agent_id)
            change.event(
                event,
                source=by,
                thread_id=said.thread_id,
                message_id=said.id,
                payload={"agent": one.agent_id},
            )
            advance(change, one.agent_id)
        return moved


def _not_dead(message_id: str) -> NotFoundError:
    return NotFoundError(
        f"message {message_id} is not dead", hint="`inbox dead list` shows what is", code="message_not_found"
    )


def _next(change: Transaction, agent: str) -> InboxDelivery | None:
    while True:
        values = {"agent_id": agent, "now_ms": change.now_ms, "limit": _LOOKED_AT}
        rows = [InboxDelivery(*row) for row in change.rows("next_deliveries", values)]
        expired = [
            one for one in rows if one.expires_at_ms is not None and one.expires_at_ms <= change.now_ms
        ]
        for one in expired:
            give_up(change, delivery.dead(one, "expired"))
        live = [one for one in rows if one not in expired]
        if live or not expired:
            return live[0] if live else None


def _move_lapsed(change: Transaction, agent: str, max_tries: int) -> None:
    for row in change.rows("lapsed_deliveries", {"agent_id": agent, "now_ms": change.now_ms}):
        _fail(change, InboxDelivery(*row), "its lease ran out", max_tries=max_tries)


def _fail(
    change: Transaction, held: InboxDelivery, reason: str, *, max_tries: int, permanent: bool = False
) -> InboxDelivery:
    after = delivery.failed(
        held,
        reason,
        now_ms=change.now_ms,
        jitter=random.random(),  # noqa: S311 - spreads retries, keeps no secret
        max_tries=max_tries,
        permanent=permanent,
    )
    if after.state == DeliveryState.DEAD:
        return give_up(change, after)
    change.event("requeued", source=held.agent_id, thread_id=held.thread_id, summary=reason)
    change.agents.add(held.agent_id)
    return put(change, after)


def give_up(change: Transaction, after: InboxDelivery) -> InboxDelivery:
    """Write a dead delivery, and tell sender and lead."""
    put(change, after)
    said = message_of(change, after.seq)
    change.event(
        "dead", source=STORE_AGENT, thread_id=said.thread_id, message_id=said.id, summary=after.last_error
    )
    names = dict.fromkeys((said.from_agent, *leads_of(change, said.run_id)))
    told = tuple(name for name in names if name not in {after.agent_id, STORE_AGENT})
    if told and said.type != "delivery_dead":
        post(
            change,
            NewMessage(
                STORE_AGENT,
                told,
                kind="event",
                type="delivery_dead",
                summary=f"message {said.id} for {after.agent_id} is dead: {after.last_error}"[:1024],
                thread_id=said.thread_id or None,
                run_id=said.run_id,
                in_reply_to=said.id,
            ),
        )
    advance(change, after.agent_id)
    return after


def _say_receipt(change: Transaction, new: NewMessage, bulk: Bulk, said: InboxMessage) -> None:
    """Write the receipt of a delivery, and send what its directives ask for."""
    from jobwire.coordination.routing import route  # noqa: PLC0415 - it uses what stands here

    receipt = new._replace(thread_id=said.thread_id, in_reply_to=said.id, to=(said.from_agent,))
    copy = route.copied(change, receipt, thread_of(change, said.thread_id), answered=said)
    posted = write(change, copy, bulk, digest_of(receipt) if receipt.id else "")
    route.route_end(change, posted, copy, bulk, final=True)


def _open(change: Transaction, agent: str) -> list[InboxDelivery]:
    values = {"agent_id": agent, "through": 2**62, "limit": _EVERY}
    return [InboxDelivery(*row) for row in change.rows("open_deliveries", values)]


def _checked(store: CoordinationStore, receipt: NewMessage | None) -> tuple[NewMessage, Bulk] | None:
    if receipt is None:
        return None
    new = check_message(receipt)
    return new, Bulk.of(new, BlobFolder(store.home))
