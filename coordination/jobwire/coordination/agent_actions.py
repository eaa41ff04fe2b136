"""What `jobwire agent beat` does, at home and by a ticket."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobwire.coordination import agents
from jobwire.coordination.agents import Beat
from jobwire.coordination.command import who_am_i
from jobwire.coordination.heartbeat import Heartbeat, StorePulse, beat_while
from jobwire.coordination.places import open_store
from jobwire.core.told import say

if TYPE_CHECKING:
    from argparse import Namespace

    from jobwire.coordination.heartbeat import Pulse
    from jobwire.coordination.remote_agent import RemoteAgent

_PERCENT = 100


def beat(args: Namespace) -> int:
    """Give a sign of life, or go on giving them while a process lives."""
    agent = who_am_i(args)
    store = open_store(args)
    if args.while_pid is not None:
        return _beat_on(args, agent, StorePulse(store))
    with store.changing() as change:
        agents.beat(change, agent, _beat_of(args))
        view = agents.find(change, agent)
    say(args, {"agent": view.to_json(store.clock.now()), "event_id": store.latest_event()}, "")
    return 0


def beat_by(agent: RemoteAgent, args: Namespace) -> int:
    """See `beat`; by a ticket."""
    if args.while_pid is not None:
        return _beat_on(args, agent.agent, agent)
    agent.beat(agent.agent, _beat_of(args))
    say(args, {"agent_id": agent.agent, "status": args.status}, "")
    return 0


def _beat_of(args: Namespace) -> Beat:
    return Beat(args.status, args.task, None if args.progress is None else args.progress / _PERCENT)


def _beat_on(args: Namespace, agent: str, pulse: Pulse) -> int:
    """Give signs of life while the process lives that the options name."""
    said = _beat_of(args)
    heartbeat = Heartbeat(agent, pulse, interval_seconds=args.interval, status=said.status)
    heartbeat.update(said.status, task=said.current_task, progress=said.progress)
    beat_while(args.while_pid, heartbeat)
    say(args, {"agent_id": agent, "status": "stopped"}, f"process {args.while_pid} ended")
    return 0
