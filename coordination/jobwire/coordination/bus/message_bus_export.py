"""A run as a message bus: files that its own readers read, each replaced whole."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from jobwire.coordination import agents
from jobwire.coordination.blobs import BlobFolder
from jobwire.coordination.boards.boards import Boards
from jobwire.coordination.boards.phases import BoardPhase, BoardTurn
from jobwire.coordination.boards.resolution import page
from jobwire.coordination.bus import message_bus
from jobwire.coordination.exporting import exported_folder
from jobwire.coordination.liveness import AgentStatus, Liveness
from jobwire.coordination.locks.stored import state_of
from jobwire.coordination.message import STORE_AGENT
from jobwire.coordination.stored import InboxMessage, json_or_text
from jobwire.storage.durable import change_durably, make_directories
from jobwire.storage.files import SystemFiles

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jobwire.coordination.boards.stored import BoardView
    from jobwire.coordination.store import CoordinationStore

Line = dict[str, object]
_PAGE = 500
_BY_DIRECTOR = ("BOARD_ASSESS", "BOARD_VOTE")
_SPOKEN = (*_BY_DIRECTOR, "BOARD_DISCUSS")


def write_bus(store: CoordinationStore, folder: str, run_id: str) -> dict[str, object]:
    """Write all files of the bus anew. Raises ConflictError (locked) while another process does."""
    with exported_folder(store.home, folder) as target:
        return _write(store, target, run_id)


def _write(store: CoordinationStore, folder: str, run_id: str) -> dict[str, object]:
    files = SystemFiles()
    boards = [view for view in Boards(store).views(limit=1000) if view.board.run_id == run_id]
    with store.reading():
        lines = list(_lines(store, run_id))
        found = {
            message_bus.QUEUE: b"".join(
                json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines
            ),
            message_bus.LOCKS: _pretty(_locks(store, run_id)),
            message_bus.WORKERS: _pretty(_workers(store, run_id)),
        }
    found |= {f"{message_bus.BOARD}/{name}": content for name, content in _board_files(boards).items()}
    for name in (message_bus.EVENTS, message_bus.BOARD):
        make_directories(f"{folder}/{name}", files=files)
    signals = dict.fromkeys(name for line in lines for name in _signals(line))
    change_durably(
        before=[(f"{folder}/{name}", content) for name, content in found.items()],
        replace=[
            (f"{folder}/{message_bus.EVENTS}/{name}", b"")
            for name in signals
            if not os.path.exists(f"{folder}/{message_bus.EVENTS}/{name}")
        ],
        files=files,
    )
    return {"messages": len(lines), "boards": len(boards), "signals": len(signals)}


def _lines(store: CoordinationStore, run_id: str) -> Iterator[Line]:
    """Yield messages, and what happened to locks, in the order in which it happened."""
    after, blobs = 0, BlobFolder(store.home)
    while events := store.rows("events_after", {"after": after, "thread_id": None, "limit": _PAGE}):
        messages = {
            row[0]: InboxMessage(*row)
            for row in store.rows("messages_after", {"after": after, "limit": _PAGE})
        }
        for number, run, _, _, source, event_type, _, summary, _, created_at in events:
            if run == run_id and number in messages:
                yield _message(messages[number], blobs)
            elif run == run_id and event_type in {"FILE_LOCK", "FILE_UNLOCK"}:
                yield {
                    "id": f"event-{number}",
                    "type": event_type,
                    "source": source,
                    "timestamp": message_bus.moment(message_bus.milliseconds(created_at)),
                    "payload": {"filepath": summary},
                }
        after = events[-1][0]


def _message(message: InboxMessage, blobs: BlobFolder) -> Line:
    payload = json_or_text(message.full_payload(blobs))
    message_type = message.type
    if not isinstance(payload, dict):
        payload = {"summary": message.summary, "body": message.full_body(blobs)}
        payload |= {"task_id": message.task_id} if message.task_id else {}
    elif message_type in _SPOKEN and message.from_agent == STORE_AGENT:
        # That a member is asked is no word of a member.
        message_type = "BOARD_ASK"
    elif message_type in _BY_DIRECTOR and "director" not in payload:
        payload = {"director": message.from_agent, **payload}
    return {
        "id": message.id,
        "type": message_type,
        "source": message.from_agent,
        "timestamp": message_bus.moment(message.ts_ms),
        "payload": payload,
        "to": list(message.to),
        "thread_id": message.thread_id,
        "summary": message.summary,
    }


def _signals(line: Mapping[str, object]) -> list[str]:
    payload = line["payload"]
    if line["type"] not in message_bus.SIGNALS or not isinstance(payload, dict):
        return []
    name = message_bus.signal_name(str(line["type"]), payload)
    return [name, "BOARD_RESOLVE.event"] if line["type"] == "BOARD_RESOLVE" else [name]


def _locks(store: CoordinationStore, run_id: str) -> Line:
    now_ms = store.now_ms
    return {
        lock.target: {
            "worker_id": lock.agent_id,
            "acquired_at": message_bus.moment(lock.acquired_ms),
            "expires_at": message_bus.moment(lock.lease_until_ms),
            "mode": lock.mode,
        }
        for lock in state_of(store, run_id).locks
        if lock.lease_until_ms > now_ms
    }


def _workers(store: CoordinationStore, run_id: str) -> Line:
    now = store.clock.now()
    return {
        view.agent_id: {
            "task_id": view.current_task or "",
            "status": message_bus.FAILED
            if view.liveness(now) is Liveness.DEAD
            else message_bus.STATUS_OF[AgentStatus(view.status)],
            "progress_pct": round(100 * (view.progress or 0.0)),
            "last_heartbeat": message_bus.moment(view.ts_ms),
        }
        for view in agents.present(store, run_id=run_id)
    }


def _board_files(boards: list[BoardView]) -> dict[str, bytes]:
    """Return a session for each board, and what was said on the newest one: the bus has room for one."""
    found = {f"session-{view.board.board_id}.json": _pretty(_session(view)) for view in boards}
    newest = boards[0] if boards else None
    said = newest.said if newest is not None else []
    last = {(one.member, one.turn): dict(one.content) for one in said}
    found["assessments.json"] = _pretty(
        {member: content for (member, turn), content in last.items() if turn is BoardTurn.ASSESS}
    )
    found["votes.json"] = _pretty(
        {member: content for (member, turn), content in last.items() if turn is BoardTurn.VOTE}
    )
    found["discussion.jsonl"] = b"".join(
        json.dumps(
            {"from": one.member, **one.content, "timestamp": message_bus.moment(one.at_ms)},
            ensure_ascii=False,
        ).encode()
        + b"\n"
        for one in said
        if one.turn is BoardTurn.DISCUSS
    )
    if newest is not None and newest.resolution is not None:
        found["resolution.md"] = page(newest.board.terms, newest.resolution, newest.said).encode()
    return found


def _session(view: BoardView) -> Line:
    board, members = view.board, view.board.names
    order = list(BoardPhase)
    at = order.index(view.phase)
    spoke = {turn: {one.member for one in view.said if one.turn is turn} for turn in BoardTurn}

    def status(phase: BoardPhase) -> str:
        place = order.index(phase)
        return "COMPLETE" if place < at else "IN_PROGRESS" if place == at else "NOT_STARTED"

    count = len(members)
    return {
        "session_id": board.board_id,
        "checkpoint": board.checkpoint,
        "status": view.phase.value,
        "proposal": {"proposal": board.proposal, **({"quick_mode": True} if board.quick else {})},
        "directors": list(members),
        "started_at": message_bus.moment(board.opened_ms),
        "phases": {
            "assess": {
                "status": status(BoardPhase.ASSESSING),
                "complete": len(spoke[BoardTurn.ASSESS]),
                "of": count,
            },
            "discuss": {
                "status": status(BoardPhase.DISCUSSING),
                "rounds": view.progress.round
                or (board.rounds if at > order.index(BoardPhase.DISCUSSING) else 0),
                "max_rounds": board.rounds,
            },
            "vote": {
                "status": status(BoardPhase.VOTING),
                "complete": len(spoke[BoardTurn.VOTE]),
                "of": count,
            },
            "resolve": {"status": "COMPLETE" if view.resolution is not None else "NOT_STARTED"},
        },
    }


def _pretty(value: Mapping[str, object]) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()
