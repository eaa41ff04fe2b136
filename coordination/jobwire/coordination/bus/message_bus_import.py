"""A message bus taken in: messages, agents, locks and the board that stand there, all in one transaction.

Nobody is asked to act on what others wrote long ago: messages without recipients are history. What cannot be
read, a torn last line first of all, is told with its place and its cause, and the rest is taken. Again is no
error: what is there already is left as it is.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

from jobwire.coordination import agents
from jobwire.coordination.agents import Beat, Joining
from jobwire.coordination.blobs import BlobFolder
from jobwire.coordination.boards.boards import Boards
from jobwire.coordination.bus import message_bus
from jobwire.coordination.bus.board_folder import read_board
from jobwire.coordination.locks import changes
from jobwire.coordination.locks.changes import LockRequest
from jobwire.coordination.locks.stored import state_near
from jobwire.coordination.locks.targets import targets_of
from jobwire.coordination.message import MAX_ID, NewMessage, check_message
from jobwire.coordination.sending import Bulk, begin_thread, write
from jobwire.coordination.store import JoinedStore
from jobwire.core.bounds import MAX_SECONDS
from jobwire.core.canonical import JsonShapeError
from jobwire.core.clock import utc_timestamp
from jobwire.core.errors import ConfigError, ConflictError, InvalidInputError, NotFoundError
from jobwire.core.strict_json import decode_object
from jobwire.storage.named_files import read_named_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jobwire.coordination.store import CoordinationStore, Transaction

# What one process holds in memory and one transaction writes.
MAX_QUEUE = 256 * 1024 * 1024
MAX_TABLE = 16 * 1024 * 1024
_TOLD = 100
# What is wrong with one line or entry; a disk that fails ends all of it.
_REFUSED = (InvalidInputError, NotFoundError, ConflictError, JsonShapeError)


class BusTakenIn:
    """What was taken in, and what was not."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(("messages", "known", "workers", "locks", "boards", "left_out"), 0)
        self.problems: list[str] = []

    @contextlib.contextmanager
    def trying(self, place: str, name: str) -> Iterator[None]:
        """Count what the block takes in under a name; its failure is a problem of that place."""
        try:
            yield
        except _REFUSED as error:
            self.leave_out(f"{place}: {error.message}")
        else:
            self.counts[name] += 1

    def leave_out(self, problem: str) -> None:
        """Count what is not taken; the first hundred are told."""
        self.counts["left_out"] += 1
        if len(self.problems) < _TOLD:
            self.problems.append(problem)

    def to_json(self) -> dict[str, object]:
        """Return it as commands print it."""
        return {**self.counts, "problems": self.problems}


def read_bus(store: CoordinationStore, folder: str, run_id: str) -> dict[str, object]:
    """Take in the bus in `folder`. Raises NotFoundError where there is none."""
    found = BusTakenIn()
    try:
        queue = read_named_file(f"{folder}/{message_bus.QUEUE}", "queue", limit=MAX_QUEUE)
    except FileNotFoundError as error:
        raise NotFoundError(
            f"there is no message bus in {folder}", hint=f"its {message_bus.QUEUE} is missing"
        ) from error
    workers = _table(folder, message_bus.WORKERS, found)
    locks = _table(folder, message_bus.LOCKS, found)
    messages = list(_messages(queue, run_id, found))
    targets = list(_targets(store, locks, run_id, found))
    board = read_board(folder, run_id, found.leave_out)
    blobs = BlobFolder(store.home)
    ready = [(place, at_ms, new, Bulk.of(new, blobs)) for place, at_ms, new in messages]
    with store.changing() as change:
        for place, at_ms, new, large in ready:
            if change.row("message", {"id": new.id}) is not None:
                found.counts["known"] += 1
                continue
            with found.trying(place, "messages"), _as_of(change, at_ms):
                thread_id = str(new.thread_id)
                if change.row("thread", {"thread_id": thread_id}) is None:
                    begin_thread(change, new, thread_id, list(new.to))
                write(change, new, large)
        for name, worker in workers.items():
            with found.trying(f"{message_bus.WORKERS}: {name!r:.60}", "workers"):
                _join(change, name, worker, run_id)
        for asked in targets:
            state = state_near(change, run_id, asked.targets, [asked.agent_id])
            if state.table.is_blocked(asked.wanted()):
                found.leave_out(f"{message_bus.LOCKS}: {asked.targets[0]} is held by somebody else here")
            else:
                changes.grant(change, asked, state.locks)
                found.counts["locks"] += 1
        if board is not None:
            taken = Boards(JoinedStore(store, change)).take_in(board)
            found.counts["boards" if taken else "known"] += 1
    return found.to_json()


def _messages(queue: bytes, run_id: str, found: BusTakenIn) -> Iterator[tuple[str, int, NewMessage]]:
    for place, body in message_bus.lines_of(queue, message_bus.QUEUE, found.leave_out):
        try:
            at_ms, new = _message(body, run_id)
        except _REFUSED as error:
            found.leave_out(f"{place}: {error.message}")
            continue
        yield place, at_ms, new


def _message(body: Mapping[str, object], run_id: str) -> tuple[int, NewMessage]:
    name, message_type, payload = (body.get(key) for key in ("id", "type", "payload"))
    if not (isinstance(name, str) and name and isinstance(message_type, str) and isinstance(payload, dict)):
        raise InvalidInputError("it needs id, type and payload")
    to, task, summary = body.get("to"), payload.get("task_id"), body.get("summary")
    new = NewMessage(
        agent_of_source(body.get("source")),
        tuple(map(message_bus.agent_of, to)) if isinstance(to, list) else (),
        kind=message_bus.KINDS.get(message_type, "event"),
        type=message_type,
        summary=summary if isinstance(summary, str) else "",
        payload=json.dumps(payload, ensure_ascii=False),
        id=name,
        thread_id=str(body.get("thread_id") or f"bus-{run_id}")[:MAX_ID],
        run_id=run_id,
        task_id=task if isinstance(task, str) and task else None,
    )
    return message_bus.milliseconds(body.get("timestamp")), check_message(new)


def agent_of_source(source: object) -> str:
    """Return who wrote a message; raises InvalidInputError for nobody."""
    if not isinstance(source, str) or not source:
        raise InvalidInputError("it names no source")
    return message_bus.agent_of(source)


def _join(change: Transaction, name: str, worker: object, run_id: str) -> None:
    """Let a worker be here as it was when it was heard of last; who has joined already is known better."""
    if not isinstance(worker, dict):
        raise InvalidInputError("it is no object")
    agent, percent = message_bus.agent_of(name), worker.get("progress_pct")
    if change.row("agent", {"agent_id": agent}) is not None:
        return
    task = worker.get("task_id")
    said = Beat(
        message_bus.status_of(worker.get("status")),
        task if isinstance(task, str) and task else None,
        percent / 100 if isinstance(percent, int | float) else None,
    )
    with _as_of(change, message_bus.milliseconds(worker.get("last_heartbeat"))):
        agents.join(change, agent, Joining(run_id=run_id))
        agents.beat(change, agent, said)


def _targets(
    store: CoordinationStore, locks: Mapping[str, object], run_id: str, found: BusTakenIn
) -> Iterator[LockRequest]:
    now_ms = store.clock.now() * 1000
    for path, lock in locks.items():
        place = f"{message_bus.LOCKS}: {path!r:.60}"
        try:
            if not isinstance(lock, dict):
                raise InvalidInputError("it is no object")
            left = (message_bus.milliseconds(lock.get("expires_at")) - now_ms) / 1000
            if left > 0:
                agent = agent_of_source(lock.get("worker_id"))
                yield LockRequest(
                    agent,
                    tuple(targets_of(store, [path], run_id=run_id)),
                    run_id,
                    seconds=min(left, MAX_SECONDS),
                )
        except _REFUSED as error:
            found.leave_out(f"{place}: {error.message}")


def _table(folder: str, name: str, found: BusTakenIn) -> Mapping[str, object]:
    """Return the object in one of the files; empty where there is none, or none that can be read."""
    try:
        return decode_object(read_named_file(f"{folder}/{name}", name, limit=MAX_TABLE))
    except FileNotFoundError:
        return {}
    except (ConfigError, JsonShapeError) as error:
        found.leave_out(f"{name}: {error.message}")
        return {}


@contextlib.contextmanager
def _as_of(change: Transaction, at_ms: int) -> Iterator[None]:
    """Let what the block writes have happened at another time."""
    now = change.now, change.now_ms, change.at
    change.now, change.now_ms, change.at = at_ms / 1000, at_ms, utc_timestamp(at_ms / 1000)
    try:
        yield
    finally:
        change.now, change.now_ms, change.at = now
