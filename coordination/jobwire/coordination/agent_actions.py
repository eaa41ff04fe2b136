"""What `jobwire agent join | beat | list | leave` do."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from jobwire.coordination import agents
from jobwire.coordination.agents import AgentView, Beat, Joining
from jobwire.coordination.command import say, who_am_i
from jobwire.coordination.heartbeat import Heartbeat, StorePulse, beat_while
from jobwire.coordination.liveness import AgentKind
from jobwire.coordination.message import split_words
from jobwire.coordination.places import open_store, open_to_read
from jobwire.core.errors import InvalidInputError
from jobwire.core.terminal_text import table

if TYPE_CHECKING:
    from argparse import Namespace

    from jobwire.coordination.heartbeat import Pulse

_HEADER = ("AGENT", "KIND", "RUN", "STATUS", "LIVENESS", "LAST SIGN", "TASK", "PROGRESS", "HOST")
_PERCENT = 100


def join(args: Namespace) -> int:
    """Make the agent known."""
    agent = who_am_i(args)
    if args.kind == AgentKind.PERSON and os.environ.get("JOBWIRE_JOB"):
        raise InvalidInputError(
            "a job's process is no person", hint="join from a shell of your own", code="forbidden"
        )
    store = open_store(args)
    joining = Joining(
        kind=args.kind,
        roles=split_words(args.role),
        run_id=args.run_id,
        pid=args.pid or os.getppid(),
        interval_seconds=args.interval,
        status=args.status,
    )
    with store.changing() as change:
        view = agents.join(change, agent, joining)
    body = {"agent": view.to_json(store.clock.now()), "event_id": store.latest_event()}
    say(
        args,
        body,
        f"{agent} has joined run {view.run_id}; it is expected to beat each {view.interval_seconds:g} s",
    )
    return 0


def beat(args: Namespace) -> int:
    """Give a sign of life, or go on giving them while a process lives."""
    agent = who_am_i(args)
    store = open_store(args)
    if args.while_pid is not None:
        return beat_on(args, agent, StorePulse(store))
    with store.changing() as change:
        agents.beat(change, agent, beat_of(args))
        view = agents.find(change, agent)
    say(args, {"agent": view.to_json(store.clock.now()), "event_id": store.latest_event()}, "")
    return 0


def beat_of(args: Namespace) -> Beat:
    """Return what the options say of an agent."""
    return Beat(args.status, args.task, None if args.progress is None else args.progress / _PERCENT)


def beat_on(args: Namespace, agent: str, pulse: Pulse) -> int:
    """Give signs of life while the process lives that the options name."""
    said = beat_of(args)
    heartbeat = Heartbeat(agent, pulse, interval_seconds=args.interval, status=said.status)
    heartbeat.update(said.status, task=said.current_task, progress=said.progress)
    beat_while(args.while_pid, heartbeat)
    say(args, {"agent_id": agent, "status": "stopped"}, f"process {args.while_pid} ended")
    return 0


def leave(args: Namespace) -> int:
    """Take the agent off the list, and free what it holds."""
    agent = who_am_i(args)
    store = open_store(args)
    with store.changing() as change:
        agents.leave(change, agent)
    say(args, {"agent_id": agent, "event_id": store.latest_event()}, f"{agent} has left")
    return 0


def list_agents(args: Namespace) -> int:
    """Show who is there."""
    store = open_to_read(args)
    now = store.clock.now()
    found = agents.present(store, run_id=args.run_id)
    body = {"agents": [view.to_json(now) for view in found], "event_id": store.latest_event()}
    rows = [_HEADER, *map(partial(_row, now), found)]
    say(args, body, "\n".join(table(rows, None)) if found else "nobody has joined")
    return 0


def _row(now: float, view: AgentView) -> tuple[str, ...]:
    progress = "" if view.progress is None else f"{view.progress * _PERCENT:.0f} %"
    age = f"{max(0.0, view.age_seconds(now)):.0f} s"
    return (
        view.agent_id,
        view.kind,
        view.run_id,
        view.status,
        str(view.liveness(now)),
        age,
        view.current_task or "-",
        progress or "-",
        view.host,
    )
