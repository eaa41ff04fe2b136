"""The commands of agents by a ticket: the same arguments and the same output, over MQTT.

One table names what each sends and how its answer is told; `remote_requests` makes requests of arguments.
"""

from __future__ import annotations

import contextlib
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jobwire.coordination import remote_requests as requests
from jobwire.coordination import task_requests
from jobwire.coordination.actions import NO_SUCH_WORDS, NOTHING_TO_FETCH
from jobwire.coordination.agents import Beat
from jobwire.coordination.asking_actions import ask_by
from jobwire.coordination.command import incarnation, say
from jobwire.coordination.heartbeat import Heartbeat, beat_while
from jobwire.coordination.remote_agent import RemoteAgent
from jobwire.coordination.remote_leases import LeasedAgent
from jobwire.coordination.remote_text import remote_text
from jobwire.coordination.work_verbs import WORK_VERBS
from jobwire.core.errors import InvalidInputError, NoWorkError, UnreachableError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

_PERCENT = 100
_ACQUIRE = "lock-acquire"
_CLAIM_TASK = "task-claim"
# What is said under the lease of a claim.
_LEASED = frozenset({*WORK_VERBS, _CLAIM_TASK, "task-complete", "task-fail"})
Request = dict[str, Any]


class _Way(NamedTuple):
    """How a command crosses: the verb of the wire, what is asked, and whether it is waited for."""

    verb: str
    asked: Callable[[Namespace], Request]
    waits: bool = False


# What runs a command in the home -> how it crosses.
_WAYS = {
    "actions:send": _Way("send", requests.send),
    "actions:fetch": _Way("fetch", requests.fetch),
    "actions:show": _Way("show", requests.show),
    "actions:list_threads": _Way("list", requests.list_threads),
    "dead_actions:dead": _Way("dead", requests.dead),
    "actions:reply": _Way("reply", requests.reply),
    "actions:search": _Way("search", requests.search),
    "work_actions:claim": _Way("claim", requests.claim),
    "work_actions:renew": _Way("renew-claim", requests.claim),
    "work_actions:update": _Way("update", requests.update),
    "work_actions:done": _Way("done", requests.words_of_thread),
    "work_actions:fail": _Way("fail", requests.words_of_thread),
    "work_actions:cancel": _Way("cancel", requests.cancel),
    "waiting_actions:watch": _Way("watch", requests.watch, waits=True),
    "waiting_actions:wait_reply": _Way("wait-reply", requests.wait_reply, waits=True),
    "delivery_actions:take": _Way("take", requests.take),
    "delivery_actions:ack": _Way("ack", requests.ack),
    "delivery_actions:nack": _Way("nack", requests.nack),
    "notice_actions:notify": _Way("notify", requests.notify),
    "agent_actions:join": _Way("join", requests.join),
    "agent_actions:leave": _Way("leave", requests.nothing),
    "agent_actions:list_agents": _Way("agents", requests.run),
    "tasks.actions:task_list": _Way("task-list", task_requests.list_tasks),
    "tasks.actions:task_show": _Way("task-show", task_requests.show),
    "tasks.actions:task_claim": _Way(_CLAIM_TASK, task_requests.claim),
    "tasks.actions:task_complete": _Way("task-complete", task_requests.complete),
    "tasks.actions:task_fail": _Way("task-fail", task_requests.fail),
    "tasks.actions:task_review": _Way("task-review", task_requests.review),
    "locks.actions:lock_acquire": _Way(_ACQUIRE, requests.lock_acquire, waits=True),
    "locks.actions:lock_renew": _Way("lock-renew", requests.lock_held),
    "locks.actions:lock_release": _Way("lock-release", requests.lock_held),
    "locks.actions:lock_list": _Way("lock-list", requests.run),
    "locks.actions:lock_check": _Way("lock-check", requests.lock_check),
    "locks.actions:lock_wait": _Way("lock-free", requests.lock_paths, waits=True),
    "locks.actions:lock_break": _Way("lock-break", requests.lock_break),
    "locks.actions:lock_deadlocks": _Way("lock-deadlocks", requests.run),
    "boards.actions:board_open": _Way("board-open", requests.board_open),
    "boards.actions:board_assess": _Way("board-assess", requests.board_assess),
    "boards.actions:board_discuss": _Way("board-discuss", requests.board_discuss),
    "boards.actions:board_pass": _Way("board-pass", requests.board),
    "boards.actions:board_vote": _Way("board-vote", requests.board_vote),
    "boards.actions:board_resolve": _Way("board-resolve", requests.board),
    "boards.actions:board_show": _Way("board-show", requests.board),
    "boards.actions:board_messages": _Way("board-messages", requests.board),
    "boards.actions:board_verify": _Way("board-verify", requests.board_verify),
    "boards.actions:board_wait": _Way("board-wait", requests.board_wait, waits=True),
    "boards.actions:board_list": _Way("board-list", requests.board_list),
}
# Where a list that is empty is no success: its name, and what is said.
_NOTHING = {
    "actions:fetch": ("threads", "nothing for you", NOTHING_TO_FETCH),
    "actions:search": ("messages", "no message that concerns you holds these words", NO_SUCH_WORDS),
}
# These need neither store nor wire.
_LOCAL = frozenset({"locks.actions:lock_hook"})


def by_ticket(args: Namespace) -> int:
    """Do what the verb says for the agent of the ticket."""
    if args.runs in _LOCAL:
        from jobwire.coordination.locks.actions import lock_hook  # noqa: PLC0415 - once a repository

        return lock_hook(args)
    path = Path(args.ticket or os.environ["JOBWIRE_TICKET"])
    does = _doing(args)
    with RemoteAgent(path, present=does is _beat) as agent:
        named = args.agent or os.environ.get("JOBWIRE_AGENT")
        if named and named != agent.agent:
            raise InvalidInputError(f"this is the ticket of {agent.agent}, not of {named}", code="forbidden")
        return does(agent, args)


def _doing(args: Namespace) -> Callable[[RemoteAgent, Namespace], int]:
    """Return what does it; raises InvalidInputError where a ticket is not enough."""
    if own := {"agent_actions:beat": _beat, "asking_actions:ask": ask_by}.get(args.runs):
        return own
    way = _WAYS.get(args.runs)
    if args.runs == "dead_actions:dead" and args.action != "list":
        way = _Way(f"dead-{args.action}", requests.dead)
    if way is None:
        raise InvalidInputError(
            f"{args.verb} needs the store's own disk", hint="leave --ticket out, where the home is"
        )
    return partial(_cross, way)


def _cross(way: _Way, agent: RemoteAgent, args: Namespace) -> int:
    if way.waits and not (way.verb == _ACQUIRE and not args.wait):
        return _waited(agent, args, way)
    _print(args, _asked(agent, args, way))
    return 0


def _asked(agent: RemoteAgent, args: Namespace, way: _Way) -> dict[str, object]:
    asked = way.asked(args)
    if way.verb in _LEASED:
        leased = LeasedAgent(agent, incarnation=incarnation())
        if way.verb == _CLAIM_TASK and "task_id" not in asked:
            return leased.claim_next(asked)
        return leased.call(way.verb, asked, token=getattr(args, "token", None))
    found = agent.call(way.verb, asked)
    while isinstance(more := found.pop("more", None), dict):
        # What did not fit into one answer.
        page = agent.call(way.verb, {**asked, **more})
        lists = {name: value for name, value in found.items() if isinstance(value, list)}
        found = {**page, **{name: [*value, *page[name]] for name, value in lists.items()}}  # type: ignore[misc]
    return found


def _waited(agent: RemoteAgent, args: Namespace, way: _Way) -> int:
    seconds = args.wait if way.verb == _ACQUIRE else args.timeout_seconds
    found = agent.wait(way.verb, way.asked(args), seconds)
    if not found["woke"]:
        if waiting := found.pop("waiting", None):
            # Who cannot say so loses its place a minute later.
            with contextlib.suppress(UnreachableError):
                agent.call("lock-leave", {"waiting": waiting, "run_id": args.run_id})
        again = f" --after-event {found['next_event_id']}" if "next_event_id" in found else ""
        raise NoWorkError(
            f"nothing came within {seconds:g} s",
            hint=f"wait again{' with' if again else ''}{again}",
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


def _print(args: Namespace, found: dict[str, Any]) -> None:
    if args.runs == "locks.actions:lock_acquire":
        del found["woke"]
    if hint := _NOTHING.get(args.runs):
        name, words, remedy = hint
        if not found[name]:
            raise NoWorkError(words, hint=remedy, response=found)
    say(args, found, lambda: remote_text(found))
