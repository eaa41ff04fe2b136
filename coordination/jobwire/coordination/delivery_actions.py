"""What the verbs of deliveries do: take, ack, nack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobwire.coordination import present, taking
from jobwire.coordination.actions import said
from jobwire.coordination.command import incarnation, say, who_am_i
from jobwire.coordination.message import NewMessage
from jobwire.coordination.places import open_store
from jobwire.coordination.reading import message_json
from jobwire.coordination.stored import delivery_json
from jobwire.coordination.taking import TakingRules
from jobwire.core.errors import InvalidInputError, NoWorkError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from jobwire.coordination.delivery import InboxDelivery
    from jobwire.coordination.store import CoordinationStore


def take(args: Namespace) -> int:
    """Lease the next message."""
    store = open_store(args)
    rules = TakingRules(args.lease_seconds, args.max_tries)
    try:
        taken = taking.take(store, who_am_i(args), incarnation=incarnation(), rules=rules)
    except NoWorkError as error:
        error.facts["response"] = {"event_id": store.latest_event()}
        raise
    message = message_json(store, taken.message)
    body = {"message": message, "delivery": delivery_json(taken.delivery), "lease_token": str(taken.token)}
    text = f"{present.message(message)}\n\nlease: {taken.token}"
    say(args, {**body, "event_id": store.latest_event()}, text)
    return 0


def ack(args: Namespace) -> int:
    """Say that a message is done, or all up to a number."""
    agent = who_am_i(args)
    store = open_store(args)
    if args.through is not None:
        count = taking.ack_through(store, agent, args.through)
        say(args, {"acked": count, "event_id": store.latest_event()}, f"{count} messages are done")
        return 0
    receipt = said(args, NewMessage(agent, kind="result", type="receipt"))
    words = receipt.summary or receipt.body or receipt.payload or receipt.artifacts
    held = taking.ack(store, agent, _named(args), token=_token(args), receipt=receipt if words else None)
    return _say_moved(args, store, [held])


def nack(args: Namespace) -> int:
    """Give a message back."""
    store = open_store(args)
    held = taking.nack(
        store,
        who_am_i(args),
        _named(args),
        args.reason,
        token=_token(args),
        permanent=args.permanent,
        max_tries=args.max_tries,
    )
    return _say_moved(args, store, [held])


def _say_moved(args: Namespace, store: CoordinationStore, moved: Sequence[InboxDelivery]) -> int:
    bodies = [delivery_json(one) for one in moved]
    body: dict[str, object] = {"delivery": bodies[0], "deliveries": bodies, "event_id": store.latest_event()}
    say(args, body, "\n".join(f"message {one.seq} is {one.state} for {one.agent_id}" for one in moved))
    return 0


def _named(args: Namespace) -> str:
    if args.message is None:
        raise InvalidInputError("which message?", hint="--message ID, or --through SEQ")
    return str(args.message)


def _token(args: Namespace) -> int | None:
    if args.token is None:
        return None
    if not args.token.isdecimal() or len(args.token) > 18:  # noqa: PLR2004 - a 64 bit integer
        raise InvalidInputError(f"{args.token!r} is no lease of a message", hint="`inbox take` prints it")
    return int(args.token)
