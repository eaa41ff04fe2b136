"""Threads and messages for people: a stranger's text never acts on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobwire.core.terminal_text import safe, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_HEADER = ("THREAD", "STATUS", "PRIORITY", "FROM", "FOR", "JOB", "SUBJECT")


def threads(found: Sequence[Mapping[str, object]]) -> str:
    """Return threads, as JSON has them, as a table."""
    if not found:
        return "no threads"
    rows = [
        (
            *(str(one[name]) for name in ("thread_id", "status", "priority", "created_by")),
            str(one["assigned_to"] or "anybody"),
            str(one["job_id"] or "-"),
            str(one["subject"]),
        )
        for one in found
    ]
    return "\n".join(table([_HEADER, *rows], None))


def dead(found: Sequence[tuple[Mapping[str, object], Mapping[str, object]]]) -> str:
    """Return what was given up, delivery and message of each as JSON has them, as a table."""
    if not found:
        return "nothing is dead"
    rows = [
        (
            *(str(message[name]) for name in ("message_id", "from_agent")),
            *(str(delivery[name]) for name in ("agent_id", "attempts", "redriven", "last_error")),
            str(message["summary"]),
        )
        for delivery, message in found
    ]
    return "\n".join(table([("MESSAGE", "FROM", "FOR", "TRIES", "REDRIVEN", "WHY", "SUMMARY"), *rows], None))


def conversation(thread: Mapping[str, object], messages: Sequence[Mapping[str, object]]) -> str:
    """Return a thread with its messages, oldest first."""
    lines = [safe(f"{thread['subject'] or thread['thread_id']}  [{thread['status']}]")]
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
        safe(f"  to {way['agent_id']}: {way['state']} by {way['way']} {way['event']}".rstrip())
        for way in one.get("deliveries", [])  # type: ignore[attr-defined]  # a list of objects
    ]
    lines += [
        f"  artifact: {safe(str(item['path']))} ({safe(str(item['kind']))})"
        for item in one["artifacts"]  # type: ignore[attr-defined]  # a list of objects
    ]
    return "\n".join(lines)
