"""Agents: who joined, what each says of itself, who left, and what becomes of the dead."""

from __future__ import annotations

import json
import os
import secrets
import socket
from typing import TYPE_CHECKING, NamedTuple

from jobwire.coordination.liveness import (
    DEFAULT_INTERVAL_SECONDS,
    MAX_INTERVAL_SECONDS,
    AgentKind,
    AgentStatus,
    Liveness,
    liveness,
)
from jobwire.coordination.locks.file_locks import revoke
from jobwire.coordination.message import STORE_AGENT, NewMessage, check_word
from jobwire.coordination.reading import leads_of
from jobwire.coordination.sending import post
from jobwire.coordination.taking import requeue_of
from jobwire.core.bounds import MAX_NAME, check_line
from jobwire.core.errors import InvalidInputError, NotFoundError
from jobwire.core.topics import check_agent

if TYPE_CHECKING:
    from jobwire.coordination.store import CoordinationStore, Transaction

MAX_TASK = 256
MAX_ROLES = 64
_DEAD = "its agent is dead"


class Joining(NamedTuple):
    """What an agent says when it joins. `incarnation` "" makes a new one; times in seconds."""

    kind: str = AgentKind.WORKER
    roles: tuple[str, ...] = ()
    run_id: str = "default"
    incarnation: str = ""
    host: str = ""
    pid: int | None = None
    interval_seconds: float = DEFAULT_INTERVAL_SECONDS
    status: str = AgentStatus.IDLE


class Beat(NamedTuple):
    """One sign of life: what the agent does now. `progress` is 0 to 1."""

    status: str = AgentStatus.IDLE
    current_task: str | None = None
    progress: float | None = None


class AgentView(NamedTuple):
    """An agent as others see it. `left_at_ms` is None while it is here."""

    agent_id: str
    kind: str
    roles: tuple[str, ...]
    run_id: str
    incarnation: str
    host: str
    pid: int | None
    interval_seconds: float
    joined_at_ms: int
    left_at_ms: int | None
    status: str
    current_task: str | None
    progress: float | None
    ts_ms: int

    def age_seconds(self, now: float) -> float:
        """Return how long ago its last sign of life was."""
        return now - self.ts_ms / 1000

    def liveness(self, now: float) -> Liveness:
        """Return what that age means."""
        return liveness(self.age_seconds(now), self.interval_seconds)

    def to_json(self, now: float) -> dict[str, object]:
        """Return what programs are told of it."""
        body = self._asdict() | {"roles": list(self.roles), "run": self.run_id}
        del body["run_id"]
        found = "left" if self.left_at_ms is not None else str(self.liveness(now))
        return body | {"age_seconds": round(self.age_seconds(now), 3), "liveness": found}


def check_joining(joining: Joining) -> Joining:
    """Return it with its defaults filled in; raises InvalidInputError."""
    check_word("kind", joining.kind, AgentKind)
    check_word("status", joining.status, AgentStatus)
    if len(joining.roles) > MAX_ROLES:
        raise InvalidInputError(f"{len(joining.roles)} roles", hint=f"at most {MAX_ROLES}")
    for role in joining.roles:
        check_line("role", role, MAX_NAME)
    check_line("run", joining.run_id, MAX_TASK)
    check_line("incarnation", joining.incarnation, MAX_NAME, empty=True)
    check_line("host", joining.host, MAX_TASK, empty=True)
    check_interval(joining.interval_seconds)
    return joining._replace(
        incarnation=joining.incarnation or os.environ.get("JOBWIRE_INCARNATION", "") or secrets.token_hex(8),
        host=joining.host or socket.gethostname(),
    )


def check_interval(seconds: float) -> None:
    """Refuse an interval in which nobody could live, or be missed."""
    if not 0 < seconds <= MAX_INTERVAL_SECONDS:
        raise InvalidInputError(
            f"interval is {seconds!r}", hint=f"seconds, above 0 and at most {MAX_INTERVAL_SECONDS:.0f}"
        )


def check_beat(beat: Beat) -> Beat:
    """Return the beat; raises InvalidInputError."""
    check_word("status", beat.status, AgentStatus)
    if beat.current_task is not None:
        check_line("task", beat.current_task, MAX_TASK)
    if beat.progress is not None and not 0 <= beat.progress <= 1:
        raise InvalidInputError(f"progress is {beat.progress!r}", hint="a number from 0 to 1")
    # A word of an enumeration is no JSON.
    return beat._replace(status=str(beat.status))


def join(change: Transaction, agent: str, joining: Joining) -> AgentView:
    """Add the agent, or begin its next life; its name, kind and place are known to the others from now on."""
    joining = check_joining(joining)
    values = joining._asdict() | {"agent_id": check_agent(agent), "now_ms": change.now_ms}
    change.execute("put_agent", values | {"roles": json.dumps(joining.roles)})
    _beat(change, agent, Beat(joining.status))
    change.event("agent_joined", source=agent, run_id=joining.run_id, summary=agent)
    return find(change, agent)


def resume(change: Transaction, agent: str, joining: Joining) -> AgentView:
    """Begin the agent's next life as what it is: its kind, roles and run stay."""
    for row in change.rows("agent", {"agent_id": check_agent(agent)}):
        known = _view(row)
        joining = joining._replace(kind=known.kind, roles=known.roles, run_id=known.run_id)
    return join(change, agent, joining)


def beat(change: Transaction, agent: str, said: Beat) -> None:
    """Take note of a sign of life; wakes nobody. An agent that was taken for dead is here again."""
    check_agent(agent)
    if not change.execute("return_agent", {"agent_id": agent}):
        raise NotFoundError(
            f"no agent {agent} has joined", hint="jobwire agent join", code="agent_not_found", agent=agent
        )
    _beat(change, agent, check_beat(said))


def leave(change: Transaction, agent: str) -> None:
    """Take the agent off the list; what it holds is free at once. Again is no error."""
    view = find(change, agent)
    change.execute("agent_left", {"agent_id": agent, "now_ms": change.now_ms})
    _beat(change, agent, Beat(AgentStatus.STOPPED))
    if view.left_at_ms is None:
        _free(change, agent, "its agent left")
        change.event("agent_left", source=agent, run_id=view.run_id, summary=agent)


def bury(change: Transaction, agent: str) -> bool:
    """Act on a death, unless a sign of life has come: deliveries are queued again, names are free.

    Tells whether it was dead still. Whoever judges has looked on for 30 intervals (`liveness`). Its job's
    lease alone decides about its job.
    """
    view = find(change, agent)
    if view.left_at_ms is not None or view.liveness(change.now) is not Liveness.DEAD:
        return False
    change.execute("agent_left", {"agent_id": agent, "now_ms": change.now_ms})
    _free(change, agent, _DEAD)
    words = f"no sign of life for {view.age_seconds(change.now):.0f} s"
    change.event("agent_dead", source=STORE_AGENT, run_id=view.run_id, summary=agent, payload={"why": words})
    _tell_leads(change, view, f"agent {agent} is dead: {words}")
    return True


def find(change: Transaction | CoordinationStore, agent: str) -> AgentView:
    """Return the agent; raises NotFoundError where it never joined."""
    for row in change.rows("agent", {"agent_id": check_agent(agent)}):
        return _at_work(_view(row), _held_work(change, agent).get(agent))
    raise NotFoundError(
        f"no agent {agent} has joined",
        hint="`jobwire agent list` shows who has",
        code="agent_not_found",
        agent=agent,
    )


def present(store: Transaction | CoordinationStore, *, run_id: str | None = None) -> list[AgentView]:
    """Return the agents that have not left, by name."""
    rows = store.rows("agents_present", {"run_id": run_id})
    held = _held_work(store) if rows else {}
    return [_at_work(view, held.get(view.agent_id)) for view in map(_view, rows)]


def gone(store: Transaction | CoordinationStore, *, since_ms: int, limit: int) -> list[AgentView]:
    """Return who left or was found dead since then, the last one first."""
    return [_view(row) for row in store.rows("agents_gone", {"since": since_ms, "limit": limit})]


class _HeldWork(NamedTuple):
    """A thread of work that an agent holds: its task's id, else its own."""

    name: str
    blocked: int


def _held_work(reader: Transaction | CoordinationStore, agent: str | None = None) -> dict[str, _HeldWork]:
    """Return what agents hold, by their names: of several the last that changed."""
    return {row[0]: _HeldWork(*row[1:]) for row in reader.rows("held_work", {"agent_id": agent})}


def _at_work(view: AgentView, held: _HeldWork | None) -> AgentView:
    """Return the agent at the work that it holds, where it has said nothing of any itself."""
    if held is None or view.status != AgentStatus.IDLE:
        return view
    status = AgentStatus.BLOCKED if held.blocked else AgentStatus.WORKING
    return view._replace(status=str(status), current_task=view.current_task or held.name)


def _beat(change: Transaction, agent: str, said: Beat) -> None:
    change.execute("put_heartbeat", said._asdict() | {"agent_id": agent, "now_ms": change.now_ms})


def _free(change: Transaction, agent: str, reason: str) -> None:
    requeue_of(change, agent, reason)
    revoke(change, agent, reason)
    for (name,) in change.rows("names_of", {"agent_id": agent}):
        change.execute("free_name", {"task_id": name, "agent_id": agent})
        change.resources.add(name)


def _tell_leads(change: Transaction, view: AgentView, summary: str) -> None:
    leads = tuple(name for name in leads_of(change, view.run_id) if name != view.agent_id)
    if leads:
        new = NewMessage(STORE_AGENT, leads, type="agent_dead", summary=summary, run_id=view.run_id)
        post(change, new)


def _view(row: tuple[object, ...]) -> AgentView:
    view = AgentView(*row)  # type: ignore[arg-type]  # the tables are STRICT
    return view._replace(roles=tuple(json.loads(str(view.roles))))
