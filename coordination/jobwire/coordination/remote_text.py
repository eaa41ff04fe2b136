"""What a verb of agents answered, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobwire.coordination import present
from jobwire.coordination.boards.words import board_table, decided, standing, talk
from jobwire.coordination.locks import words as lock_words
from jobwire.coordination.tasks.words import claimed_words, moved_words, task_page, task_table
from jobwire.core.terminal_text import safe, table

if TYPE_CHECKING:
    from collections.abc import Callable

Answer = dict[str, Any]
_HEADER = ("AGENT", "KIND", "RUN", "STATUS", "LIVENESS", "LAST SIGN", "TASK", "PROGRESS", "HOST")


def _claimed(found: Answer) -> str:
    return f"thread {found['thread']['thread_id']} is yours until {found['expires_at']}"


def _worded(found: Answer) -> str:
    return f"thread {found['thread_id']} is {found['thread']['status']}"


def _sent(found: Answer) -> str:
    there = "there already" if found["duplicate"] else "kept"
    return f"{found['message_id']} is {there} in thread {found['thread_id']}"


def _replied(found: Answer) -> str:
    answers = ", and is the answer to its question" if found["request"] is not None else ""
    return f"{found['message_id']} is in thread {found['thread_id']}{answers}"


def _taken(found: Answer) -> str:
    return f"{present.message(found['message'])}\n\nlease: {found['token']}"


def _moved(found: Answer) -> str:
    if "acked" in found:
        return f"{found['acked']} messages are done"
    lines = [f"message {one['seq']} is {one['state']} for {one['agent_id']}" for one in found["deliveries"]]
    lines += [
        f"task {one['task_id']} is {'dropped' if one['dropped'] else one['status']}"
        for one in found.get("tasks", [])
    ]
    lines += [f"{one['id']} stays: {one['why']}" for one in found.get("refused", [])]
    return "\n".join(map(safe, lines))


def _buried(found: Answer) -> str:
    letters, tasks = [(one, one["message"]) for one in found["dead"]], found.get("tasks", [])
    parts = [present.dead(letters)] if letters or not tasks else []
    return "\n\n".join([*parts, *([_dead_tasks(tasks)] if tasks else [])])


def _dead_tasks(tasks: list[Answer]) -> str:
    names = ("task_id", "run_id", "by", "failures", "redriven", "reason", "title")
    rows = [tuple(str({**one, "by": one["worker"] or one["owner"]}[name]) for name in names) for one in tasks]
    return "\n".join(table([("TASK", "RUN", "BY", "RUNS", "RETRIED", "WHY", "TITLE"), *rows], None))


def _dead_letter(found: Answer) -> str:
    if "task" in found:
        return _dead_tasks([found["task"]])
    message = found["message"]
    return f"{present.message(message)}\n\n{present.dead([(one, message) for one in found['deliveries']])}"


def _joined(found: Answer) -> str:
    one = found["agent"]
    return (
        f"{one['agent_id']} has joined run {one['run']};"
        f" it is expected to beat each {one['interval_seconds']:g} s"
    )


def _agents(found: Answer) -> str:
    rows = [
        (
            *(str(one[name]) for name in ("agent_id", "kind", "run", "status", "liveness")),
            f"{max(0.0, one['age_seconds']):.0f} s",
            one["current_task"] or "-",
            "-" if one["progress"] is None else f"{one['progress'] * 100:.0f} %",
            one["host"],
        )
        for one in found["agents"]
    ]
    return "\n".join(table([_HEADER, *rows], None)) if rows else "nobody has joined"


def _noticed(found: Answer) -> str:
    return f"{found['agent']} gets a message once {found['subject']} is {' or '.join(found['when'])}"


def _messages(found: Answer) -> str:
    return "\n\n".join(map(present.message, found["messages"]))


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


def _task_moved(found: Answer) -> str:
    return moved_words(found["task"])


_FORMS: dict[str, Callable[[Answer], str]] = {
    "send": _sent,
    "reply": _replied,
    **dict.fromkeys(("claim", "renew-claim"), _claimed),
    **dict.fromkeys(("update", "done", "fail", "cancel"), _worded),
    "take": _taken,
    **dict.fromkeys(("ack", "nack", "dead-redrive", "dead-drop"), _moved),
    **dict.fromkeys(("fetch", "list"), lambda found: present.threads(found["threads"])),
    "show": lambda found: present.conversation(found["thread"], found["messages"]),
    "search": _messages,
    "wait-reply": lambda found: present.message(found["message"]),
    "watch": lambda found: present.threads([found["thread"]]),
    "dead": _buried,
    "dead-show": _dead_letter,
    "agents": _agents,
    "join": _joined,
    "leave": lambda found: f"{found['agent_id']} has left",
    "notify": _noticed,
    "task-list": lambda found: task_table(found["tasks"]),
    "task-show": lambda found: task_page(found["task"], found["runs"]),
    "task-claim": lambda found: claimed_words(found["task"], found["expires_at"]),
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


def remote_text(verb: str, found: Answer) -> str:
    """Return an answer in words."""
    return _FORMS.get(verb, _task_moved)(found)
