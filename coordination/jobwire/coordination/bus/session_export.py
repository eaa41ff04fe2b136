"""A run as a session folder: what each role has to do, receipts, dead letters, and what is done.

Files are replaced whole, and only where they say something else; a message's file lies in one place, by what
became of it.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from jobwire.coordination.blobs import BlobFolder
from jobwire.coordination.bus.session_folder import (
    ARCHIVE,
    DEAD,
    DONE,
    INBOX,
    OUTBOX,
    PROCESSING,
    TASKS,
    file_name,
    write_page,
)
from jobwire.coordination.bus.session_plan import plan_text, strangers
from jobwire.coordination.delivery import DeliveryState, InboxDelivery
from jobwire.coordination.exporting import exported_folder
from jobwire.coordination.stored import InboxMessage, json_or_text
from jobwire.coordination.thread import InboxThread, ThreadStatus
from jobwire.core.clock import utc_timestamp
from jobwire.storage.durable import change_durably, make_directories
from jobwire.storage.files import SystemFiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobwire.coordination.store import CoordinationStore

_PAGE = 500
_PLACES: dict[str, str] = {
    DeliveryState.QUEUED: INBOX,
    DeliveryState.LEASED: INBOX,
    DeliveryState.DEAD: DEAD,
}
_STATUS: dict[str, str] = {ThreadStatus.DONE: "done", ThreadStatus.PENDING: "retry"}


def write_session(store: CoordinationStore, folder: str, run_id: str) -> dict[str, object]:
    """Write the folder. Raises ConflictError (locked) while another process does."""
    with exported_folder(store.home, folder) as target:
        return _write(store, target, run_id)


def _write(store: CoordinationStore, folder: str, run_id: str) -> dict[str, object]:
    writer = _SessionWriter(folder)
    counts = {"messages": 0, "receipts": 0, "dead": 0}
    blobs = BlobFolder(store.home)
    with store.reading():
        for message in _messages(store, run_id):
            body = message.full_body(blobs) or message.summary
            for row in store.rows("deliveries_of", {"seq": message.seq}):
                held = InboxDelivery(*row)
                writer.place(message.id, held, _page(message, held.agent_id, body))
                counts["messages"] += 1
                counts["dead"] += held.state == DeliveryState.DEAD
            if message.kind == "result" and (receipt := _receipt(store, message, blobs)) is not None:
                writer.put(f"{OUTBOX}/{receipt[0]}", receipt[1])
                counts["receipts"] += 1
        plan = plan_text(store, run_id)
    # What an agent of the other system planned meanwhile is not written over.
    problem = strangers(folder, plan, run_id)
    if plan and not problem:
        writer.put(TASKS, plan)
    writer.finish()
    return {**counts, "problems": [problem] if problem else []}


class _SessionWriter:
    """Collects what is to be written, and what lies elsewhere by now."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._found: dict[str, bytes] = {}
        self._gone: set[str] = set()
        self._locks: set[str] = set()

    def place(self, message_id: str, held: InboxDelivery, text: str) -> None:
        """Put a message's file where its delivery is."""
        name = file_name(message_id)
        here = _PLACES.get(held.state, ARCHIVE)
        for place in (INBOX, DEAD, ARCHIVE):
            if place != here:
                self._gone.add(f"{place}/{held.agent_id}/{name}.md")
        self.put(f"{here}/{held.agent_id}/{name}.md", text)
        mark = file_name(message_id, held.agent_id)
        if held.state == DeliveryState.DONE:
            self.put(f"{DONE}/{mark}.ok", "")
        lock = f"{PROCESSING}/{mark}.lockdir"
        (self._locks if held.state == DeliveryState.LEASED else self._gone).add(lock)

    def put(self, path: str, text: str) -> None:
        """Have a file say this."""
        self._found[path] = text.encode()

    def finish(self) -> None:
        """Write what changed, and then remove what lies elsewhere now."""
        files = SystemFiles()
        changed = [(path, content) for path, content in self._found.items() if not self._says(path, content)]
        for path in {os.path.dirname(one) for one, _ in changed} | {INBOX, OUTBOX, DEAD, PROCESSING}:
            make_directories(f"{self._folder}/{path}", files=files)
        change_durably(
            before=[], replace=[(f"{self._folder}/{path}", content) for path, content in changed], files=files
        )
        for path in self._locks:
            with contextlib.suppress(FileExistsError):
                os.mkdir(f"{self._folder}/{path}", 0o700)
        for path in self._gone - self._found.keys():
            with contextlib.suppress(OSError):
                (os.rmdir if path.startswith(PROCESSING) else os.unlink)(f"{self._folder}/{path}")

    def _says(self, path: str, content: bytes) -> bool:
        try:
            with open(f"{self._folder}/{path}", "rb") as file:
                return file.read(len(content) + 1) == content
        except OSError:
            return False


def _messages(store: CoordinationStore, run_id: str) -> Iterator[InboxMessage]:
    after = 0
    while rows := store.rows("messages_after", {"after": after, "limit": _PAGE}):
        for row in rows:
            message = InboxMessage(*row)
            if message.run_id == run_id:
                yield message
        after = rows[-1][0]


def _page(message: InboxMessage, role: str, body: str) -> str:
    """Return a message's file for one of its recipients: a role takes only what names that role alone."""
    acceptance = json_or_text(message.acceptance)
    return write_page(
        {
            "id": message.id,
            "from": message.from_agent,
            "to": role,
            "intent": message.type,
            "thread": message.correlation_id or message.thread_id,
            "risk": message.risk or "low",
            "task_id": message.task_id or "",
            "acceptance": list(map(str, acceptance if isinstance(acceptance, list) else [acceptance])),
        },
        body,
    )


def _receipt(store: CoordinationStore, message: InboxMessage, blobs: BlobFolder) -> tuple[str, str] | None:
    """Return the file of a receipt and its text; None where nothing was asked by a message."""
    thread = InboxThread(*store.rows("thread", {"thread_id": message.thread_id})[0])
    request = _request(store, message)
    if request is None:
        return None
    status = _STATUS.get(thread.status, "deadletter")
    text = write_page(
        {
            "id": request.id,
            "role": message.from_agent,
            "thread": request.correlation_id or request.thread_id,
            "request_from": request.from_agent,
            "request_to": message.from_agent,
            "request_intent": request.type,
            "status": status,
            "codex_rc": 0 if status == "done" else 1,
            "finished_at": utc_timestamp(message.ts_ms / 1000),
            "task_id": message.task_id or request.task_id or "",
        },
        message.full_body(blobs) or message.summary,
    )
    return f"{file_name(request.id, message.from_agent)}.md", text


def _request(store: CoordinationStore, message: InboxMessage) -> InboxMessage | None:
    """Return what a receipt answers: the message that it names, else its thread's last task before it."""
    if message.in_reply_to is not None:
        rows = store.rows("message", {"id": message.in_reply_to})
        return InboxMessage(*rows[0]) if rows else None
    rows = store.rows("request_before", {"thread_id": message.thread_id, "seq": message.seq})
    return InboxMessage(*rows[0]) if rows else None
