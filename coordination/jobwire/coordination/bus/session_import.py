"""Files that agents dropped into a session folder: each is taken in as a message, and archived.

A file is archived once its message is kept, so that a crash in between takes it in again, which is no second
message. What cannot be read stays where it is and is told with its line; nothing of it is kept.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jobwire.coordination.bus.message_bus_import import BusTakenIn
from jobwire.coordination.bus.session_folder import ARCHIVE, INBOX, MAX_FILE, OUTBOX, TASKS, Page, read_page
from jobwire.coordination.bus.session_plan import PlannedTask, add_plan, complete_plan, read_plan
from jobwire.coordination.message import NewMessage, check_message, digest_of
from jobwire.coordination.reading import message_of, thread_of
from jobwire.coordination.routing.route import kind_of
from jobwire.coordination.sending import send
from jobwire.coordination.stored import InboxMessage
from jobwire.coordination.thread import ThreadStatus
from jobwire.coordination.work import ThreadWork
from jobwire.core.errors import ConfigError, ConflictError, InvalidInputError, NotFoundError
from jobwire.core.topics import check_agent
from jobwire.storage.durable import make_directories
from jobwire.storage.files import SystemFiles
from jobwire.storage.named_files import read_named_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jobwire.coordination.store import CoordinationStore

_MOST_FILES = 10_000
# What is wrong with one file; a disk that fails ends all of it.
_REFUSED = (InvalidInputError, NotFoundError, ConflictError, ConfigError)


def read_session(store: CoordinationStore, folder: str, run_id: str) -> dict[str, object]:
    """Take in what lies in the inboxes of a session folder. Raises NotFoundError where there are none."""
    if not os.path.isdir(f"{folder}/{INBOX}"):
        raise NotFoundError(f"there is no session in {folder}", hint=f"its {INBOX} is missing")
    found = BusTakenIn()
    found.counts["receipts"] = found.counts["tasks"] = 0
    plan, asked = _plan(store, folder, run_id, found)
    for role, name in _files(f"{folder}/{INBOX}"):
        path = f"{folder}/{INBOX}/{role}/{name}"
        try:
            if _take(store, _message(path, role, name, run_id), found, asked):
                _archive(folder, path, role, name)
        except FileNotFoundError:
            continue  # somebody else took it
        except _REFUSED as error:
            found.leave_out(f"{INBOX}/{role}/{name}: {error.message}")
    for name in _named(f"{folder}/{OUTBOX}"):
        try:
            found.counts["receipts"] += _take_receipt(store, f"{folder}/{OUTBOX}/{name}", asked)
        except FileNotFoundError:
            continue
        except _REFUSED as error:
            found.leave_out(f"{OUTBOX}/{name}: {error.message}")
    try:
        found.counts["tasks"] += complete_plan(store, plan, run_id)
    except _REFUSED as error:
        found.leave_out(f"{TASKS}: {error.message}")
    return {name: found.counts[name] for name in ("messages", "receipts", "tasks", "known", "left_out")} | {
        "problems": found.problems
    }


def _plan(
    store: CoordinationStore, folder: str, run_id: str, found: BusTakenIn
) -> tuple[list[PlannedTask], dict[str, str]]:
    """Take the plan in; return it, and the threads of the messages that ask for its tasks."""
    try:
        plan = read_plan(folder, run_id)
        fresh, asked = add_plan(store, plan, folder, run_id)
    except _REFUSED as error:
        found.leave_out(f"{TASKS}: {error.message}")
        return [], {}
    found.counts["tasks"] = fresh
    return plan, asked


def waiting(folder: str) -> bool:
    """Tell whether there is a file in any inbox of a session folder."""
    return next(_files(f"{folder}/{INBOX}"), None) is not None


def _files(inbox: str) -> Iterator[tuple[str, str]]:
    """Yield roles and names of finished files; those being written have other names."""
    try:
        roles = sorted(os.listdir(inbox))
    except OSError:
        return
    count = 0
    for role in roles:
        for name in _named(f"{inbox}/{role}"):
            count += 1
            if count > _MOST_FILES:
                return
            yield role, name


def _named(folder: str) -> list[str]:
    try:
        return sorted(
            name for name in os.listdir(folder) if name.endswith(".md") and not name.startswith(".")
        )
    except OSError:
        return []


def _page_of(path: str) -> Page:
    raw = read_named_file(path, "message", limit=MAX_FILE)
    try:
        return read_page(raw.decode())
    except UnicodeDecodeError as error:
        raise InvalidInputError("it is not valid UTF-8") from error


def _take_receipt(store: CoordinationStore, path: str, asked: Mapping[str, str]) -> bool:
    """End the work that a receipt says is done, in the name of who did it; tell whether it was open."""
    page = _page_of(path)
    role = check_agent(page.text("role"))
    if page.text("status") != "done":
        return False
    thread_id = asked.get(page.text("id"))
    if thread_id is None:
        message = message_of(store, page.text("id"))
        if role not in message.to or message.kind != "task":
            return False
        thread_id = message.thread_id
    thread = thread_of(store, thread_id)
    if thread.status != ThreadStatus.PENDING:
        return False
    work = ThreadWork(store, role, environ={}, keeps_leases=False)
    token = str(work.claim(thread.thread_id).token)
    body = page.body.strip("\n")
    words = NewMessage(role, thread_id=thread.thread_id, summary="", body=body or "done", type="receipt")
    work.done(words, token=token)
    return True


def _take(store: CoordinationStore, new: NewMessage, found: BusTakenIn, asked: Mapping[str, str]) -> bool:
    """Keep one file's message; tell whether the file is to be archived."""
    if new.id in asked:
        # It asks for a task of the plan, which is asked for here by the plan: no second piece of work.
        found.counts["known"] += 1
        return True
    rows = store.rows("message", {"id": new.id})
    if rows:
        found.counts["known"] += 1
        # Of the same id and other words: what was written here for that role's own program.
        return InboxMessage(*rows[0]).digest == digest_of(new)
    send(store, new)
    found.counts["messages"] += 1
    return True


def _message(path: str, role: str, name: str, run_id: str) -> NewMessage:
    page = _page_of(path)
    check_agent(role)
    if page.text("to") != role:
        raise InvalidInputError(f"it is for {page.text('to')!r:.80} and lies in the inbox of {role}")
    if page.text("id") != name.removesuffix(".md"):
        raise InvalidInputError(f"it is called {name!r:.80} and has the id {page.text('id')!r:.80}")
    intent = page.text("intent") or "message"
    return check_message(
        NewMessage(
            page.text("from"),
            (role,),
            kind=kind_of(intent),
            type=intent,
            body=page.body.strip("\n"),
            id=page.text("id"),
            run_id=run_id,
            task_id=page.text("task_id") or None,
            correlation_id=page.text("thread") or None,
            acceptance=page.texts("acceptance"),
            risk=page.text("risk"),
        )
    )


def _archive(folder: str, path: str, role: str, name: str) -> None:
    make_directories(f"{folder}/{ARCHIVE}/{role}", files=SystemFiles())
    os.rename(path, f"{folder}/{ARCHIVE}/{role}/{name}")
