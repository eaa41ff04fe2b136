"""The message bus as a folder: its names, its words, and what they are here. Pure.

queue.jsonl           all messages, one a line: id, type, source, timestamp, payload
locks.json            path -> worker_id, acquired_at, expires_at
worker-status.json    worker -> task_id, status, progress_pct, last_heartbeat
events/TYPE_KEY.event empty files, for programs that wait for a name
board/                session-ID.json; assessments, discussion, votes, resolution.md of the newest board
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import quote

from jobwire.coordination.liveness import AgentStatus
from jobwire.core.canonical import JsonShapeError
from jobwire.core.errors import InvalidInputError
from jobwire.core.strict_json import decode_object
from jobwire.core.topics import check_agent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

QUEUE, LOCKS, WORKERS, EVENTS, BOARD = "queue.jsonl", "locks.json", "worker-status.json", "events", "board"
# Types whose messages touch a file in events/; a failure wakes as a completion does.
SIGNALS = frozenset({"TASK_COMPLETE", "TASK_FAILED", "FILE_UNLOCK", "BOARD_RESOLVE"})
KINDS = {"PROGRESS": "progress", "TASK_COMPLETE": "result", "TASK_FAILED": "result"}
STATUS_OF = {
    AgentStatus.WORKING: "RUNNING",
    AgentStatus.BLOCKED: "BLOCKED",
    AgentStatus.IDLE: "COMPLETE",
    AgentStatus.STOPPED: "COMPLETE",
}
FAILED = "FAILED"
_STATUS = {
    "RUNNING": AgentStatus.WORKING,
    "BLOCKED": AgentStatus.BLOCKED,
    "COMPLETE": AgentStatus.IDLE,
    FAILED: AgentStatus.IDLE,
}
_LONGEST_NAME = 64
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]")


def moment(milliseconds: int) -> str:
    """Return a time as the bus writes it: UTC with a Z, microseconds where there are any.

    >>> moment(1_767_268_800_000), moment(1_767_268_800_250)
    ('2026-01-01T12:00:00Z', '2026-01-01T12:00:00.250000Z')
    """
    at = datetime.fromtimestamp(milliseconds / 1000, UTC).replace(tzinfo=None)
    return f"{at.isoformat()}Z"


def milliseconds(text: object) -> int:
    """Return the time in a text, with or without a zone (then UTC); raises InvalidInputError for none."""
    try:
        at = datetime.fromisoformat(str(text))
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        found = int(at.timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(f"{text!r:.60} is no time", hint="such as 2026-01-01T12:00:00Z") from error
    if found <= 0:
        raise InvalidInputError(f"{text!r:.60} lies before 1970")
    return found


def lines_of(
    content: bytes, place: str, left_out: Callable[[str], object]
) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield the objects in lines of JSON with their places; `left_out` is told of what is none, or torn."""
    *lines, torn = content.split(b"\n")
    if torn.strip():
        left_out(f"{place}:{len(lines) + 1}: the last line is torn")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield f"{place}:{number}", decode_object(line)
        except JsonShapeError as error:
            left_out(f"{place}:{number}: {error.message}")


def agent_of(name: object) -> str:
    """Return an agent's name for any worker's: what a name cannot hold is written as its code.

    >>> agent_of("worker-1.1-ab"), agent_of("a b/c")
    ('worker-1.1-ab', 'a_20b_2fc')
    """
    text = _NOT_IN_NAMES.sub(lambda found: "".join(f"_{byte:02x}" for byte in found[0].encode()), str(name))
    text = text if not text or text[0].isalnum() or text[0] == "_" else f"_{text}"
    return check_agent(text[:_LONGEST_NAME])


def status_of(word: object) -> AgentStatus:
    """Return an agent's status for a worker's; raises InvalidInputError."""
    if word not in _STATUS:
        raise InvalidInputError(f"{word!r:.60} is no status", hint=f"one of {', '.join(_STATUS)}")
    return _STATUS[str(word)]


def signal_name(message_type: str, payload: Mapping[str, object]) -> str:
    """Return the name of a message's file in events/, encoded where it holds what no name can.

    >>> signal_name("TASK_COMPLETE", {"task_id": "1.2"}), signal_name("TASK_FAILED", {"task_id": "a/b"})
    ('TASK_COMPLETE_1.2.event', 'TASK_FAILED_a%2Fb.event')
    """
    key = str(payload.get("task_id") or "all")
    return f"{quote(message_type, safe='')}_{quote(key, safe='')[:_LONGEST_NAME]}.event"
