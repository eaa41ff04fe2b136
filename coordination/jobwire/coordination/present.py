"""Threads and messages for people: a stranger's text never acts on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobwire.core.terminal_text import safe, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jobwire.coordination.taking import Taken
    from jobwire.coordination.thread import InboxThread

_HEADER = ("THREAD", "STATUS", "PRIORITY", "FROM", "FOR", "JOB", "SUBJECT")


def threads(found: Sequence[InboxThread]) -> str:
    """Return threads as a table."""
    rows = [
        (
            one.thread_id,
            one.status,
            one.priority,
            one.created_by,
            one.assigned_to or "anybody",
            one.job_id or "-",
            one.subject,
        )
        for one in found
    ]
    return "\n".join(table([_HEADER, *rows], None))


def dead(found: Sequence[Taken]) -> str:
    """Return what was given up as a table."""
    if not found:
        return "nothing is dead"
    rows = [
        (
            one.message.id,
            one.message.from_agent,
            one.delivery.agent_id,
            str(one.delivery.attempts),
            str(one.delivery.redriven),
            one.delivery.last_error,
            one.message.summary,
        )
        for one in found
    ]
    return "\n".join(table([("MESSAGE", "FROM", "FOR", "TRIES", "REDRIVEN", "WHY", "SUMMARY"), *rows], None))


def conversation(thread: InboxThread, messages: Sequence[Mapping[str, object]]) -> str:
    """Return a thread with its messages, oldest first."""
    lines = [safe(f"{thread.subject or thread.thread_id}  [{thread.status}]")]
    for one in messages:
        lines += ["", message(one)]
    return "\n".join(lines)


def message(one: Mapping[str, object]) -> str:
    """Return one message, as JSON has it, in lines."""
    to = ", ".join(map(str, one["recipients"]))  # type: ignore[call-overload]  # a list of names
    who = f"{one['from_agent']} -> {to or 'nobody'}"
    head = f"{one['created_at']}  {who}  {one['type']}  {one['message_id']}"
    lines = [safe(head), "  " + safe(str(one["summary"]))]
    body = str(one["body"])
    if body and body != one["summary"]:
        lines += ["  " + safe(line) for line in body.splitlines()]
    if one["payload"] is not None:
        lines.append("  payload: " + safe(str(one["payload"])))
    lines += [
        safe(f"  to {way['agent_id']}: {way['state']} by its {way['way']}, {way['event']}")
        for way in one.get("deliveries", [])  # type: ignore[attr-defined]  # a list of objects
    ]
    lines += [
        f"  artifact: {safe(str(item['path']))} ({safe(str(item['kind']))})"
        for item in one["artifacts"]  # type: ignore[attr-defined]  # a list of objects
    ]
    return "\n".join(lines)
