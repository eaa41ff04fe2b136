"""A receipt is told to requester and leads, and its directives are sent: in the change that ends the work.

Whoever projects a job's end runs this, in that transaction: it happens with the end and once, or not at all.
What is refused is told to the leads as an alert, and nothing of it is sent.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, NamedTuple

from jobwire.coordination.message import (
    MAX_HOP,
    MAX_SUBJECT,
    MAX_SUMMARY,
    STORE_AGENT,
    NewMessage,
    split_words,
)
from jobwire.coordination.reading import leads_of
from jobwire.coordination.routing.directives import WORD, Directive, Malformed, id_of, read_directives
from jobwire.coordination.sending import Bulk, post
from jobwire.coordination.stored import InboxMessage
from jobwire.coordination.thread import LEADING
from jobwire.core.errors import ConfigError, InvalidInputError
from jobwire.core.setting_tables import DIRECTIVES_ALLOWED, DIRECTIVES_OPEN

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from jobwire.coordination.sending import Posted
    from jobwire.coordination.store import Transaction
    from jobwire.coordination.thread import InboxThread

ANY = "*"
ALERT = "alert"
RECEIPT = "result"
# What asks for no work; anything else that a directive may say is a task.
_KINDS = {
    "question": "question",
    "answer": "answer",
    **dict.fromkeys(("info", ALERT, "warn", "message", "receipt"), "event"),
}


class Guard(NamedTuple):
    """The table, by role or kind of agent (`*`: any), and how many tasks of directives a run has open."""

    allowed: tuple[tuple[str, frozenset[str]], ...]
    most_open: int = DIRECTIVES_OPEN

    def allows(self, roles: Collection[str], intent: str) -> bool:
        """Tell whether an agent with these roles may ask for the intent."""
        return any(
            role in {ANY, *roles} and (intent in intents or ANY in intents) for role, intents in self.allowed
        )


def guard_of(rows: Iterable[str], most_open: int = DIRECTIVES_OPEN) -> Guard:
    """Return the table of rows like `lead: *` and `worker: review, test`."""
    table = []
    for row in rows:
        role, _, intents = row.partition(":")
        table.append((role.strip(), frozenset(split_words(intents.replace(" ", ",")))))
    return Guard(tuple(table), most_open)


DEFAULT_GUARD = guard_of(DIRECTIVES_ALLOWED)
# Nobody may: where the user's settings cannot be read, nothing is granted.
CLOSED_GUARD = Guard(())


def copied(
    change: Transaction, new: NewMessage, thread: InboxThread, *, answered: InboxMessage | None = None
) -> NewMessage:
    """Return a receipt with the run's leads among its recipients, and the hops of what it answers.

    That is the thread's last task, or the message `answered`: a receipt of a receipt is one hop further.
    """
    if new.kind != RECEIPT:
        return new
    leads = leads_of(change, thread.run_id)
    to = dict.fromkeys([*new.to, *(name for name in leads if name != new.from_agent)])
    if answered is not None:
        hop = min(answered.hop + (answered.kind != "task"), MAX_HOP)
    else:
        hop = next((int(row[0]) for row in change.rows("hops_of", {"thread_id": thread.thread_id})), 0)
    return new._replace(to=tuple(to), hop=max(new.hop, hop))


def route_end(change: Transaction, posted: Posted, new: NewMessage, large: Bulk, *, final: bool) -> None:
    """Send what the directives of a receipt ask for: of a final one, and once."""
    if not final or posted.duplicate or new.kind != RECEIPT:
        return
    body = new.body
    if not body and large.body_ref is not None:
        body = large.blobs.get(large.body_ref).decode()
    route(change, posted, body)


def route_answer(change: Transaction, posted: Posted, new: NewMessage) -> None:
    """Send what a lead asks for where it answers a receipt in the inbox: that is its word on it."""
    values = {"thread_id": new.thread_id, "agent_id": new.from_agent}
    answered = new.in_reply_to or next((row[1] for row in change.rows("last_from_others", values)), None)
    if WORD not in new.body or posted.duplicate or answered is None:
        return
    row = change.row("message", {"id": answered})
    if row is not None and "lead" in _roles(change, new.from_agent):
        found = InboxMessage(*row)
        if found.kind == RECEIPT and found.from_agent != new.from_agent:
            route(change, posted, new.body, hop=min(found.hop + 1, MAX_HOP))


def route(change: Transaction, posted: Posted, body: str, *, hop: int = 0, guard: Guard | None = None) -> int:
    """Send what the directives in the body of a message ask for; return how many messages that were."""
    if WORD not in body:
        return 0
    from jobwire.coordination.reading import message_of  # noqa: PLC0415 - most receipts say nothing of it

    receipt = message_of(change, posted.message_id)
    receipt = receipt._replace(hop=max(receipt.hop, hop))
    roles = _roles(change, receipt.from_agent)
    why = ""
    if guard is None:
        guard, why = _own_guard()
    sent = 0
    for found in read_directives(body):
        refused = (
            found.why if isinstance(found, Malformed) else _refusal(change, receipt, found, guard, roles)
        )
        if refused:
            _alert(change, receipt, found, why or refused)
        elif isinstance(found, Directive):
            _send(change, receipt, found)
            sent += 1
    return sent


def _refusal(
    change: Transaction, receipt: InboxMessage, asked: Directive, guard: Guard, roles: frozenset[str]
) -> str:
    """Return why a directive is not followed, "" where it is."""
    if not guard.allows(roles, asked.intent):
        return f"{receipt.from_agent} may not ask for {asked.intent}"
    if receipt.hop >= MAX_HOP:
        return f"it went over {MAX_HOP} hops: does it go round in circles?"
    for name in asked.to:
        if change.row("known_agent", {"agent_id": name}) is None:
            return f"there is no agent {name}"
    if asked.task and change.row("task_known", {"run_id": receipt.run_id, "task_id": asked.task}) is None:
        return f"run {receipt.run_id} has no task {asked.task}"
    if kind_of(asked.intent) == "task":
        row = change.row("open_self_made", {"run_id": receipt.run_id})
        if row is not None and row[0] >= guard.most_open:
            return f"{row[0]} tasks of directives are open in run {receipt.run_id}, {guard.most_open} may be"
    return ""


def _send(change: Transaction, receipt: InboxMessage, asked: Directive) -> None:
    to = asked.to or tuple(
        row[0]
        for row in change.rows("agents_of_run", {"run_id": receipt.run_id})
        if row[0] != receipt.from_agent
    )
    message_id = id_of(receipt.id, asked)
    post(
        change,
        NewMessage(
            receipt.from_agent,
            to,
            kind=kind_of(asked.intent),
            type=asked.intent,
            id=message_id,
            subject=asked.message[:MAX_SUBJECT],
            summary=asked.message[:MAX_SUMMARY],
            body=asked.message,
            payload=json.dumps({"receipt": receipt.id, "ordinal": asked.ordinal}),
            run_id=receipt.run_id,
            task_id=asked.task or receipt.task_id,
            correlation_id=receipt.correlation_id,
            acceptance=asked.accept,
            risk=asked.risk,
            hop=receipt.hop + 1,
        ),
        new_thread=message_id,
    )


def _alert(change: Transaction, receipt: InboxMessage, found: Directive | Malformed, why: str) -> None:
    """Tell the leads; where a run has none, whom the receipt is for, else its writer."""
    post(
        change,
        NewMessage(
            STORE_AGENT,
            leads_of(change, receipt.run_id) or receipt.to or (receipt.from_agent,),
            kind="event",
            type=ALERT,
            id=id_of(receipt.id, found),
            summary=f"directive {found.ordinal} of {receipt.from_agent} is not sent: {why}"[:MAX_SUMMARY],
            body=found.line,
            thread_id=receipt.thread_id,
            run_id=receipt.run_id,
            in_reply_to=receipt.id,
            priority="high",
        ),
    )


def kind_of(intent: str) -> str:
    """Return the kind of a message with an intent: a task, unless it asks for no work."""
    return _KINDS.get(intent, "task")


def _roles(change: Transaction, agent: str) -> frozenset[str]:
    """Return what an agent is: its kind, its roles, and `lead` for whoever leads."""
    row = change.row("agent_kind", {"agent_id": agent})
    if row is None:
        return frozenset()
    kind, roles = row
    return frozenset({kind, *json.loads(roles), *(["lead"] if kind in LEADING else [])})


def _own_guard() -> tuple[Guard, str]:
    """Return the table of the user's own settings; where they cannot be read nobody may, and why."""
    from jobwire.storage.settings_file import read_own_settings  # noqa: PLC0415 - see `route`

    try:
        own = read_own_settings(os.environ)
    except (ConfigError, InvalidInputError) as error:
        return CLOSED_GUARD, error.message
    rows, most = own.get("directives", "allow"), own.get("directives", "max_open")
    most_open = DIRECTIVES_OPEN if most is None else int(str(most))
    if isinstance(rows, list):
        return guard_of(rows, most_open), ""
    return DEFAULT_GUARD._replace(most_open=most_open), ""
