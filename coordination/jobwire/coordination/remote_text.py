"""What the store's process answered an agent on another host, for people: by what the answer holds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from jobwire.coordination import present
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


def _lock_list(found: Answer) -> str:
    names = ("path", "mode", "agent", "guard", "expires_at", "run_id")
    rows = [tuple(str(one.get(name) or "-") for name in names) for one in found["locks"]]
    header = ("PATH", "MODE", "AGENT", "GUARD", "UNTIL", "RUN")
    lines = table([header, *rows], None) if rows else ["nobody holds anything"]
    lines += [safe(f"{one['agent']} waits for {' '.join(one['paths'])}") for one in found["waiting"]]
    return "\n".join(lines)


def _granted(found: Answer) -> str:
    return "\n".join(
        safe(f"{one['agent']} holds {one['path']} until {one['expires_at']} (token {one['token']})")
        for one in found["locks"]
    )


def _locks(found: Answer) -> str:
    return (
        "\n".join(safe(f"{one['agent']}  {one['path']}  {one['mode']}") for one in found["locks"])
        or "nothing"
    )


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
        ("locks waiting", _lock_list),
        ("locks token", _granted),
        ("locks", _locks),
        ("genuine", lambda _: "genuine: nothing was changed since"),
        ("thread woke", lambda found: present.threads([found["thread"]])),
    )
)
_BOARD = "board"


def remote_text(found: Answer) -> str:
    """Return an answer in words; one of no known form as its names and values."""
    for names, form in _FORMS:
        if names <= found.keys() and _BOARD not in found:
            return form(found)
    lines = (f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in found.items())
    return "\n".join(map(safe, lines))
