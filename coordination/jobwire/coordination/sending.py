"""Writing messages: each is in the store once, with its deliveries, its thread and its words."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, NamedTuple

from jobwire.coordination.blobs import BlobFolder
from jobwire.coordination.message import (
    EVERYBODY,
    MAX_INLINE,
    MAX_SUBJECT,
    NewMessage,
    check_message,
    digest_of,
)
from jobwire.coordination.stored import InboxMessage, message_not_found, thread_not_found
from jobwire.coordination.thread import InboxThread, ThreadStatus
from jobwire.core.errors import ConflictError

if TYPE_CHECKING:
    from jobwire.coordination.store import CoordinationStore, Transaction

# Characters of a body, and of a payload, whose words are found by search.
_SEARCHED = 64 * 1024
_RANKS = {"high": 0, "normal": 1, "low": 2}


class Posted(NamedTuple):
    """A message that is kept: `duplicate` where it was before. `event_id` is its number."""

    message_id: str
    thread_id: str
    event_id: int
    duplicate: bool = False


def send(store: CoordinationStore, new: NewMessage) -> Posted:
    """Keep a message, durably, in its thread or a new one.

    Raises InvalidInputError, NotFoundError for a thread or message that it names, ConflictError
    (duplicate_id) where its id is another message's.
    """
    new = check_message(new)
    large = Bulk.of(new, BlobFolder(store.home))
    with store.changing() as change:
        return write(change, new, large)


def new_id() -> str:
    """Return an id for a message that its sender gave none."""
    return f"m-{os.urandom(10).hex()}"


class Bulk(NamedTuple):
    """Body and payload where they stand: in the row, or in a blob."""

    body: str
    body_ref: str | None
    payload: str | None
    payload_ref: str | None
    blobs: BlobFolder

    @classmethod
    def of(cls, new: NewMessage, blobs: BlobFolder) -> Bulk:
        """Write what is too large for the row into blobs, durably."""
        body_ref = payload_ref = None
        if len(new.body) * 4 > MAX_INLINE and len(raw := new.body.encode()) > MAX_INLINE:
            body_ref = blobs.put(raw)
        payload = new.payload or ""
        if len(payload) * 4 > MAX_INLINE and len(raw := payload.encode()) > MAX_INLINE:
            payload_ref = blobs.put(raw)
        return cls(
            "" if body_ref else new.body, body_ref, None if payload_ref else new.payload, payload_ref, blobs
        )

    @classmethod
    def inline(cls, new: NewMessage) -> Bulk:
        """Leave both in the row: they are short."""
        return cls(new.body, None, new.payload, None, BlobFolder(""))

    def words(self, new: NewMessage) -> str:
        """Return what is searched: body and payload, from their blobs where only those have them."""
        body = new.body
        if not body and self.body_ref is not None:
            body = self.blobs.get(self.body_ref).decode()
        # A book in a message must not hold up everybody who writes.
        words = body[:_SEARCHED]
        return f"{words} {new.payload[:_SEARCHED]}" if new.payload is not None else words

    def keep(self, new: NewMessage) -> None:
        """Write again what was collected in between; the caller holds the right to write."""
        for ref, text in ((self.body_ref, new.body), (self.payload_ref, new.payload)):
            if ref is not None and text and not os.path.exists(self.blobs.path(ref)):
                self.blobs.put((text or "").encode())


def post(change: Transaction, new: NewMessage, *, new_thread: str = "") -> Posted:
    """Check a short message and put it into the transaction; see `write`."""
    new = check_message(new)
    return write(change, new, Bulk.inline(new), new_thread=new_thread)


def write(
    change: Transaction, new: NewMessage, large: Bulk, digest: str = "", *, new_thread: str = ""
) -> Posted:
    """Put a checked message into the transaction; see `send`. `digest` is given where `new` is not whole.

    `new_thread` names the thread that it begins; the message may be about a task, that thread is not.
    """
    # Nobody can repeat an id that we make.
    digest = digest or (digest_of(new) if new.id else "")
    if new.id:
        before = change.row("message", {"id": new.id})
        if before is not None:
            return already(InboxMessage(*before), digest)
    large.keep(new)
    thread = _thread(change, new)
    thread_id = thread.thread_id if thread is not None else new_thread or f"t-{os.urandom(8).hex()}"
    recipients = _recipients(change, new)
    message_id = new.id or new_id()
    run_id, task_id = new.run_id, new.task_id
    if thread is not None:
        run_id, task_id = thread.run_id, task_id or thread.task_id or None
    else:
        begin_thread(change, new._replace(task_id=None) if new_thread else new, thread_id, recipients)
    change.execute(
        "insert_message",
        {
            "id": message_id,
            "ts_ms": change.now_ms,
            "from_agent": new.from_agent,
            "to_agent": recipients[0] if len(recipients) == 1 and new.to != (EVERYBODY,) else None,
            "type": new.type,
            "correlation_id": new.correlation_id,
            "in_reply_to": new.in_reply_to,
            "payload": large.payload,
            "payload_ref": large.payload_ref,
            "thread_id": thread_id,
            "run_id": run_id,
            "task_id": task_id,
            "kind": new.kind,
            "summary": new.summary,
            "body": large.body,
            "body_ref": large.body_ref,
            "acceptance": json.dumps(new.acceptance, ensure_ascii=False),
            "risk": new.risk,
            "priority": new.priority,
            "class": new.message_class,
            "expires_at_ms": new.expires_at_ms,
            "hop": new.hop,
            "recipients": json.dumps(recipients),
            "digest": digest or None,
        },
    )
    seq = change.latest_event()
    change.execute(
        "insert_words", {"seq": seq, "summary": new.summary, "body": large.words(new), "type": new.type}
    )
    change.execute_many(
        "insert_delivery",
        [
            {
                "agent_id": name,
                "seq": seq,
                "thread_id": thread_id,
                "rank": _RANKS[new.priority],
                "expires_at_ms": new.expires_at_ms,
            }
            for name in recipients
        ],
    )
    if new.artifacts:
        change.execute_many(
            "insert_artifact",
            [
                {
                    "message_id": message_id,
                    "path": one.path,
                    "kind": one.kind,
                    "metadata_json": one.metadata,
                    "sha256": one.sha256,
                    "created_at": change.at,
                }
                for one in new.artifacts
            ],
        )
    # What is open to all wakes whoever waits for work.
    change.agents.update(recipients or ("*",))
    change.threads.add(thread_id)
    if thread is not None and new.kind == "task" and thread.ended:
        _ask_again(change, thread, new, recipients)
    return Posted(message_id, thread_id, seq)


def already(found: InboxMessage, digest: str) -> Posted:
    """Return the message that was kept under this id; raises ConflictError where it says something else."""
    if found.digest != digest:
        raise ConflictError(
            f"there is another message with the id {found.id}",
            hint="an id is given once; leave it out to have one made",
            code="duplicate_id",
        )
    return Posted(found.id, found.thread_id, found.seq, duplicate=True)


def _thread(change: Transaction, new: NewMessage) -> InboxThread | None:
    """Return the thread that the message goes into, None for a new one."""
    thread_id = new.thread_id
    if new.in_reply_to is not None:
        answered = change.row("message", {"id": new.in_reply_to})
        if answered is None:
            raise message_not_found(new.in_reply_to)
        thread_id = thread_id or InboxMessage(*answered).thread_id
    if thread_id is None:
        return None
    found = change.row("thread", {"thread_id": thread_id})
    if found is None:
        raise thread_not_found(thread_id)
    return InboxThread(*found)


def _recipients(change: Transaction, new: NewMessage) -> list[str]:
    """Return the recipients, fixed now: `*` is the run's agents but the sender."""
    if EVERYBODY not in new.to:
        return list(new.to)
    others = [row[0] for row in change.rows("agents_of_run", {"run_id": new.run_id})]
    named = [name for name in new.to if name != EVERYBODY]
    return list(dict.fromkeys(named + [name for name in others if name != new.from_agent]))


def begin_thread(change: Transaction, new: NewMessage, thread_id: str, recipients: list[str]) -> None:
    """Make the thread of its first message."""
    work = new.kind == "task"
    change.execute(
        "insert_thread",
        {
            "thread_id": thread_id,
            "run_id": new.run_id,
            "task_id": new.task_id or "",
            "subject": new.subject or new.summary[:MAX_SUBJECT],
            "created_by": new.from_agent,
            # Sent to several, it is open to whoever claims it first.
            "assigned_to": recipients[0] if len(recipients) == 1 else "",
            "priority": new.priority,
            "at": change.at,
            "work": int(work),
            "position": change.latest_event() + 1,
        },
    )


def _ask_again(change: Transaction, thread: InboxThread, new: NewMessage, recipients: list[str]) -> None:
    """Open a thread that ended for a new task: its next claim is a new job."""
    if thread.task_id:
        from jobwire.coordination.tasks.following import check_reopens  # noqa: PLC0415 - which writes itself

        check_reopens(change, thread)
    addressed = recipients[0] if len(recipients) == 1 else thread.addressed_to
    number = change.event(
        "thread_pending", source=new.from_agent, thread_id=thread.thread_id, run_id=thread.run_id
    )
    opened = thread._replace(status=ThreadStatus.PENDING, job_id=None, work=1, changed=number)
    move(change, opened._replace(assigned_to=addressed, addressed_to=addressed, updated_at=change.at))


def move(change: Transaction, thread: InboxThread) -> None:
    """Write what became of a thread."""
    values = {**thread._asdict(), "status": str(thread.status), "at": thread.updated_at}
    change.execute("move_thread", values)
