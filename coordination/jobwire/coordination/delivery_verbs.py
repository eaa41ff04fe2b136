"""The verbs of deliveries as data: take, renew, ack, nack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobwire.coordination import reading, taking
from jobwire.coordination.delivery import LEASE_SECONDS, MAX_TRIES
from jobwire.coordination.stored import delivery_json
from jobwire.coordination.verb_form import FLAG, NUMBER, TEXT, WHOLE, WORDS, AgentVerb, words_of
from jobwire.core.bounds import check_count
from jobwire.core.errors import InvalidInputError, NoWorkError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobwire.coordination.delivery import InboxDelivery
    from jobwire.coordination.store import CoordinationStore

_MOST_TRIES = 1000


def _take(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    how = {"seconds": args.get("lease_seconds", LEASE_SECONDS), "max_tries": _tries(args)}
    try:
        taken = taking.take(store, agent, incarnation=args.get("incarnation", ""), **how)
    except NoWorkError as error:
        error.facts["response"] = {"event_id": store.latest_event()}
        raise
    said, held = reading.message_json(store, taken.message), delivery_json(taken.delivery)
    return {"message": said, "delivery": held, "token": taken.token, "lease_token": str(taken.token)}


def _renew(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    return _moved(taking.renew(store, agent, args["message"], token=args.get("token")))


def _ack(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    """Acknowledge a message, with words as a receipt to its sender, or all that was given up to a number."""
    if "through" in args:
        return {"acked": taking.ack_through(store, agent, args["through"])}
    if "message" not in args:
        raise InvalidInputError("which message?", hint="--message ID, or --through SEQ")
    says = any(args.get(name) for name in ("summary", "body", "payload", "artifacts"))
    receipt = words_of(agent, "result", args)._replace(type="receipt") if says else None
    return _moved(taking.ack(store, agent, args["message"], token=args.get("token"), receipt=receipt))


def _nack(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    held = taking.nack(
        store,
        agent,
        args["message"],
        args.get("reason", ""),
        token=args.get("token"),
        permanent=args.get("permanent", False),
        max_tries=_tries(args),
    )
    return _moved(held)


def _moved(held: InboxDelivery) -> dict[str, object]:
    return {"delivery": delivery_json(held), "deliveries": [delivery_json(held)]}


def _tries(args: dict[str, Any]) -> int:
    tries: int = args.get("max_tries", MAX_TRIES)
    check_count("max_tries", tries, _MOST_TRIES)
    return tries


_LEASED = {"message": TEXT, "token": WHOLE}
DELIVERY_VERBS: Mapping[str, AgentVerb] = {
    "take": AgentVerb(
        {"lease_seconds": NUMBER, "incarnation": TEXT, "max_tries": WHOLE}, _take, changes=True
    ),
    "renew": AgentVerb(_LEASED, _renew, ("message",), changes=True),
    "ack": AgentVerb({**_LEASED, **WORDS, "through": WHOLE}, _ack, changes=True, keeps=True),
    "nack": AgentVerb(
        {**_LEASED, "reason": TEXT, "permanent": FLAG, "max_tries": WHOLE},
        _nack,
        ("message",),
        changes=True,
        keeps=True,
    ),
}
