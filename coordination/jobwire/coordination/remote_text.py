"""What a verb of agents answered, for people: by its name, else by what the answer holds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from jobwire.coordination import present
from jobwire.coordination.boards.words import board_table, decided, standing, talk
from jobwire.coordination.locks import words as lock_words
from jobwire.coordination.tasks.words import claimed_words, moved_words, task_page, task_table
from jobwire.core.terminal_text import safe, table

if TYPE_CHECKING:
    from collections.abc import Callable

Answer = dict[str, Any]


def _conversation(found: Answer) -> str:
    return present.conversation(found["thread"], found["messages"])


def _claimed(found: Answer) -> str:
    return f"thread {found['thread']['thread_id']} is yours until {found['expires_at']}"


def _posted(found: Answer) -> str:
    there = "there already" if found.get("duplicate") else "kept"
    thread = found.get("thread", {})
    status = f", which is {thread['status']}" if "status" in thread else ""
    return f"{found['message_id']} is {there} in thread {found['thread_id']}{status}"


def _taken(found: Answer) -> str:
    return f"{present.message(found['message'])}\n\nlease: {found['token']}"


def _moved(found: Answer) -> str:
    moved = found["deliveries"] if "deliveries" in found else [found["delivery"]]
    return "\n".join(f"message {one['seq']} is {one['state']} for {one['agent_id']}" for one in moved)


def _buried(found: Answer) -> str:
    return present.dead([(one, one["message"]) for one in found["dead"]])


def _dead_message(found: Answer) -> str:
    message = found["message"]
    return f"{present.message(message)}\n\n{present.dead([(one, message) for one in found['deliveries']])}"


def _agents(found: Answer) -> str:
    names = ("agent_id", "kind", "run_id", "status", "liveness", "current_task")
    rows = [tuple(str(one.get(name) or "-") for name in names) for one in found["agents"]]
    header = ("AGENT", "KIND", "RUN", "STATUS", "LIVENESS", "TASK")
    return "\n".join(table([header, *rows], None)) if rows else "nobody has joined"


def _standing(found: Answer) -> str:
    return standing(found["board"])


def _reviewed(found: Answer) -> str:
    task = found["task"]
    if task["status"] in {"pending", "ready"}:
        return safe(f"task {task['task_id']} goes back to {task['worker']}")
    return moved_words(task)


def _added(found: Answer) -> str:
    words = "is there already" if found["duplicate"] else "would be" if found["dry_run"] else "is"
    return safe(f"task {found['task']['task_id']} {words} {found['task']['status']}")


_OF_VERBS: dict[str, Callable[[Answer], str]] = {
    "lock-acquire": lock_words.held,
    "lock-renew": lock_words.held,
    "lock-release": lambda found: lock_words.ended(found, "released"),
    "lock-check": lambda _: "",
    "lock-free": lambda _: "free",
    "lock-list": lock_words.lock_table,
    "lock-break": lock_words.broken,
    "lock-deadlocks": lambda _: "none",
    "board-open": lambda found: str(found["board_id"]),
    **dict.fromkeys(("board-assess", "board-discuss", "board-pass", "board-vote", "board-wait"), _standing),
    **dict.fromkeys(("board-show", "board-resolve"), decided),
    "board-messages": talk,
    "board-list": lambda found: board_table(found["boards"]),
    "board-verify": lambda _: "genuine: nothing was changed since",
    "task-add": _added,
    "task-review": _reviewed,
    "task-retry": lambda found: safe(f"task {found['task']['task_id']} is open again"),
}


# Names of which an answer holds all -> how it is told; the first that fits.
_FORMS: tuple[tuple[frozenset[str], Callable[[Answer], str]], ...] = tuple(
    (frozenset(names.split()), form)
    for names, form in (
        ("task runs", lambda found: task_page(found["task"], found["runs"])),
        ("task expires_at", lambda found: claimed_words(found["task"], found["expires_at"])),
        ("task", lambda found: moved_words(found["task"])),
        ("tasks", lambda found: task_table(found["tasks"])),
        ("thread messages", _conversation),
        ("thread expires_at", _claimed),
        ("message_id thread_id", _posted),
        ("message delivery token", _taken),
        ("message deliveries", _dead_message),
        ("message", lambda found: present.message(found["message"])),
        ("delivery", _moved),
        ("deliveries", _moved),
        ("threads", lambda found: present.threads(found["threads"])),
        ("messages event_id", lambda found: "\n\n".join(map(present.message, found["messages"]))),
        ("dead", _buried),
        ("agents", _agents),
        ("thread woke", lambda found: present.threads([found["thread"]])),
    )
)


def remote_text(verb: str, found: Answer) -> str:
    """Return an answer in words; one of no known form as its names and values."""
    if of_verb := _OF_VERBS.get(verb):
        return of_verb(found)
    for names, form in _FORMS:
        if names <= found.keys():
            return form(found)
    lines = (f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in found.items())
    return "\n".join(map(safe, lines))
