"""`jobwire notify`: be told once when an agent or a job comes to rest, by a message.

What is wanted stands in the store; whoever looks next (a command, a waiter, the registry process) sees that
it has come about, and writes the message in the transaction that takes the wish away: it is told once.
"""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, NamedTuple

from jobwire.coordination import agents
from jobwire.coordination.liveness import AgentStatus, Liveness
from jobwire.coordination.message import MAX_SUMMARY, STORE_AGENT, NewMessage
from jobwire.coordination.sending import post
from jobwire.core.errors import InvalidInputError, NotFoundError
from jobwire.core.topics import check_agent, is_job_id
from jobwire.jobs.lifecycle import Status
from jobwire.registry.store import RecordStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobwire.coordination.store import CoordinationStore

IDLE, DONE, BLOCKED, STOPPED = WORDS = ("idle", "done", "blocked", "stopped")
# Each is looked at once a second.
MAX_NOTICES = 1000
_PREFIX = "notify:"
_OF_AGENT = {AgentStatus.IDLE: IDLE, AgentStatus.BLOCKED: BLOCKED, AgentStatus.STOPPED: STOPPED}
_OF_JOB = {
    Status.COMPLETED: DONE,
    Status.ERROR: STOPPED,
    Status.CANCELLED: STOPPED,
    Status.PENDING: IDLE,
}


class Notice(NamedTuple):
    """One wish: `agent` is told once when `subject` is one of `when`; `since` is the event of the wish."""

    id: str
    agent: str
    subject: str
    when: tuple[str, ...]
    since: int


def ask_for(store: CoordinationStore, agent: str, subject: str, when: Sequence[str]) -> Notice:
    """Keep a wish, durably. Raises InvalidInputError, NotFoundError for an agent or job that nobody knows."""
    wanted = tuple(dict.fromkeys(when))
    for word in wanted:
        if word not in WORDS:
            raise InvalidInputError(f"when is {word!r:.80}", hint=f"of {', '.join(WORDS)}")
    if not wanted:
        raise InvalidInputError("when?", hint=f"--when, of {', '.join(WORDS)}")
    if is_job_id(subject):
        RecordStore(store.home, clock=store.clock).get(subject)
    else:
        agents.find(store, check_agent(subject))
    with store.changing() as change:
        if len(change.rows("notices")) >= MAX_NOTICES:
            raise InvalidInputError(
                f"{MAX_NOTICES} notices are wanted already", hint="`jobwire wait PATTERN` waits without one"
            )
        notice = Notice(secrets.token_hex(8), check_agent(agent), subject, wanted, change.latest_event())
        change.execute("put_notice", {"key": f"{_PREFIX}{notice.id}", "value": json.dumps(notice._asdict())})
    return notice


def tell_due(store: CoordinationStore) -> int:
    """Write the messages of what has come about, each once; return how many."""
    told = 0
    for (text,) in store.rows("notices"):
        found = json.loads(text)
        notice = Notice(**{**found, "when": tuple(found["when"])})
        state = _state(store, notice)
        if state is not None:
            told += _tell(store, notice, *state)
    return told


def _tell(store: CoordinationStore, notice: Notice, word: str, words: str) -> bool:
    summary = f"{notice.subject} is {word}" + (f": {words}" if words else "")
    new = NewMessage(
        STORE_AGENT,
        (notice.agent,),
        type=f"notify_{word}",
        summary=summary[:MAX_SUMMARY],
        payload=json.dumps({"notice": notice.id, "subject": notice.subject, "when": word}),
    )
    with store.changing() as change:
        if not change.execute("remove_notice", {"key": f"{_PREFIX}{notice.id}"}):
            return False
        post(change, new)
        return True


def _state(store: CoordinationStore, notice: Notice) -> tuple[str, str] | None:
    """Return which of the wanted words holds now, and what is to be said of it; None for none."""
    found = _of_job(store, notice) if is_job_id(notice.subject) else _of_agent(store, notice)
    return next(((word, words) for word, words in found if word in notice.when), None)


def _of_job(store: CoordinationStore, notice: Notice) -> list[tuple[str, str]]:
    try:
        record = RecordStore(store.home, clock=store.clock).get(notice.subject)
    except NotFoundError:
        return [(STOPPED, "it was purged"), (DONE, "it was purged")]
    if record.status is Status.RUNNING:
        return [(BLOCKED, record.detail)] if record.attention else []
    return [(_OF_JOB[record.status], record.detail)]


def _of_agent(store: CoordinationStore, notice: Notice) -> list[tuple[str, str]]:
    """Return what holds of an agent: what it said itself, and what its work says."""
    try:
        view = agents.find(store, notice.subject)
    except NotFoundError:
        return [(STOPPED, "nobody knows it any more")]
    found: list[tuple[str, str]] = []
    values = {"agent_id": notice.subject, "after": notice.since}
    found += [(DONE, summary) for (summary,) in store.rows("results_of", values)]
    if view.left_at_ms is not None or view.liveness(store.clock.now()) is Liveness.DEAD:
        return [*found, (STOPPED, "it has left")]
    found += [(BLOCKED, subject) for (subject,) in store.rows("blocked_of", values)]
    word = _OF_AGENT.get(AgentStatus(view.status))
    return [*found, (word, view.current_task or "")] if word is not None else found
