"""The verbs of `inbox` and `agent` by a ticket: the same arguments and the same output, over MQTT."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobwire.coordination import present
from jobwire.coordination.actions import said
from jobwire.coordination.agents import Beat, Joining
from jobwire.coordination.command import say
from jobwire.coordination.heartbeat import Heartbeat, beat_while
from jobwire.coordination.message import NewMessage, split_words
from jobwire.coordination.remote_agent import RemoteAgent
from jobwire.core.errors import InvalidInputError, NoWorkError
from jobwire.core.terminal_text import safe

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

_PERCENT = 100


def by_ticket(args: Namespace) -> int:
    """Do what the verb says for the agent of the ticket."""
    asks = {"send": _send, "reply": _reply, "wait-reply": _wait_reply, "watch": _watch, "beat": _beat}
    plain: dict[str, Callable[[Namespace], dict[str, object]]]
    plain = {"fetch": _fetch, "show": _show, "take": _take, "ack": _ack, "nack": _nack}
    plain |= {"join": _join, "leave": _nothing, "list": _list}
    path = Path(args.ticket or os.environ["JOBWIRE_TICKET"])
    with RemoteAgent(path, present=args.verb == "beat") as agent:
        named = args.agent or os.environ.get("JOBWIRE_AGENT")
        if named and named != agent.agent:
            raise InvalidInputError(f"this is the ticket of {agent.agent}, not of {named}", code="forbidden")
        if args.verb in asks:
            return asks[args.verb](agent, args)
        if args.verb not in plain or (args.verb == "list" and not args.runs.startswith("agent_actions")):
            raise InvalidInputError(
                f"{args.verb} needs the store's own disk", hint="leave --ticket out, where the home is"
            )
        verb = "agents" if args.verb == "list" else args.verb
        _print(args, agent.call(verb, plain[args.verb](args)))
    return 0


def _send(agent: RemoteAgent, args: Namespace) -> int:
    new = said(args, NewMessage(agent.agent))
    asked: dict[str, Any] = {
        "to": list(split_words(args.to)),
        "kind": args.kind or ("task" if args.thread is None and args.in_reply_to is None else "event"),
        "type": args.type,
        "subject": args.subject,
        "run_id": args.run_id,
        "acceptance": list(args.accept),
        "risk": args.risk,
        "priority": args.priority,
        "message_class": args.message_class,
        "summary": new.summary,
        "body": new.body,
        "artifacts": [{"path": one.path, "kind": one.kind} for one in new.artifacts],
    }
    more = {
        "thread_id": args.thread,
        "task_id": args.task,
        "in_reply_to": args.in_reply_to,
        "correlation_id": args.correlation,
        "payload": new.payload,
        "id": new.id or None,
        "expires_at_ms": None if args.expires is None else int((time.time() + args.expires) * 1000),
    }
    asked |= {name: value for name, value in more.items() if value is not None}
    _print(args, agent.call("send", asked))
    return 0


def _reply(agent: RemoteAgent, args: Namespace) -> int:
    new = said(args, NewMessage(agent.agent))
    if not args.to:
        raise InvalidInputError("to whom?", hint="by a ticket: --to NAME")
    asked: dict[str, object] = {
        "to": list(split_words(args.to)),
        "kind": args.kind,
        "type": args.type,
        "summary": new.summary,
        "body": new.body,
    }
    more = {
        "thread_id": args.thread,
        "in_reply_to": args.in_reply_to,
        "payload": new.payload,
        "id": new.id or None,
    }
    _print(
        args, agent.call("send", asked | {name: value for name, value in more.items() if value is not None})
    )
    return 0


def _wait_reply(agent: RemoteAgent, args: Namespace) -> int:
    asked: dict[str, object] = {"thread_id": args.thread, "kinds": list(split_words(args.kinds))}
    if args.after_message is not None:
        asked["after_message"] = args.after_message
    return _waited(agent, args, asked)


def _watch(agent: RemoteAgent, args: Namespace) -> int:
    return _waited(agent, args, {"statuses": list(split_words(args.status))})


def _waited(agent: RemoteAgent, args: Namespace, asked: dict[str, object]) -> int:
    if args.after_event is not None:
        asked["after"] = args.after_event
    found = agent.wait(args.verb, asked, args.timeout_seconds)
    if not found["woke"]:
        raise NoWorkError(
            f"nothing came within {args.timeout_seconds:g} s",
            hint=f"wait again with --after-event {found['next_event_id']}",
            code="timeout",
            response=found,
        )
    _print(args, found)
    return 0


def _beat(agent: RemoteAgent, args: Namespace) -> int:
    progress = None if args.progress is None else args.progress / _PERCENT
    said_now = Beat(args.status, args.task, progress)
    if args.while_pid is None:
        agent.beat(agent.agent, said_now)
        say(args, {"agent_id": agent.agent, "status": args.status}, "")
        return 0
    heartbeat = Heartbeat(agent.agent, agent, interval_seconds=args.interval, status=args.status)
    heartbeat.update(args.status, task=args.task, progress=progress)
    beat_while(args.while_pid, heartbeat)
    say(args, {"agent_id": agent.agent, "status": "stopped"}, f"process {args.while_pid} ended")
    return 0


def _fetch(args: Namespace) -> dict[str, object]:
    return {"statuses": list(split_words(args.status)), "limit": args.limit, "unread": args.unread}


def _show(args: Namespace) -> dict[str, object]:
    return {"thread_id": args.thread} | ({} if args.limit is None else {"limit": args.limit})


def _take(args: Namespace) -> dict[str, object]:
    seconds = getattr(args, "lease_seconds", None)
    return {} if seconds is None else {"lease_seconds": seconds}


def _ack(args: Namespace) -> dict[str, object]:
    if not args.message:
        raise InvalidInputError("which message?", hint="by a ticket: --message ID")
    if args.token is not None and not args.token.isdecimal():
        raise InvalidInputError(
            "the lease is not one of a delivery", hint="the token that `inbox take` printed"
        )
    return {"message": args.message} | ({} if args.token is None else {"token": int(args.token)})


def _nack(args: Namespace) -> dict[str, object]:
    return {**_ack(args), "reason": args.reason, "permanent": args.permanent}


def _join(args: Namespace) -> dict[str, object]:
    joining = Joining(run_id=args.run_id, interval_seconds=args.interval, status=args.status)
    return {
        "run_id": joining.run_id,
        "interval_seconds": joining.interval_seconds,
        "status": joining.status,
        "host": os.uname().nodename,
    }


def _list(args: Namespace) -> dict[str, object]:
    return {} if args.run_id is None else {"run_id": args.run_id}


def _nothing(_: Namespace) -> dict[str, object]:
    return {}


def _print(args: Namespace, found: dict[str, Any]) -> None:
    if "message" in found:
        text = present.message(found["message"])
    else:
        lines = (f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in found.items())
        text = "\n".join(map(safe, lines))
    say(args, found, text)
