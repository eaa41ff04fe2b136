"""The inventory of sessions in the store: every change is one transaction, and wakes waiters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobwire.coordination.locks.file_locks import revoke
from jobwire.coordination.sessions.states import FINAL, EndedBy, SessionState, check_step
from jobwire.coordination.sessions.stored import NOT_HANDED, OPENING, SessionRow
from jobwire.coordination.stored import InboxMessage
from jobwire.core.errors import ConflictError, InvalidInputError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobwire.coordination.store import CoordinationStore, Transaction

# Archived is left alive.
_WITHOUT_AGENT = frozenset({SessionState.STOPPED, SessionState.TERMINATED})
MAX_REASON = 200
MAX_CONVERSATION = 128


class Inventory:
    """The sessions of a store. Raises as the store does."""

    def __init__(self, store: CoordinationStore) -> None:
        self.store = store

    def get(self, name: str) -> SessionRow:
        """Return a session; raises NotFoundError."""
        return _get(self.store, name)

    def find(self, name: str) -> SessionRow | None:
        """Return a session; None where there is none of that name."""
        return _find(self.store, name)

    def rows(self, state: SessionState | None = None) -> list[SessionRow]:
        """Return all sessions by name, or those in a state."""
        return [SessionRow(*row) for row in self.store.rows("agent_sessions", {"state": state})]

    def counts(self) -> dict[str, int]:
        """Return how many sessions there are in each state."""
        return {str(state): int(count) for state, count in self.store.rows("counted_sessions")}

    def begin(self, new: SessionRow) -> SessionRow:
        """Write a new session; one that has ended is replaced. ConflictError for one that is alive."""
        with self.store.changing() as change:
            before = _find(change, new.name)
            if before is not None and before.standing in {SessionState.RUNNING, SessionState.ARCHIVED}:
                raise ConflictError(
                    f"there is a session {new.name} already: it is {before.state}",
                    hint=f"`jobwire sessions show {new.name}`, or another name",
                    code="duplicate_id",
                )
            return _put(change, new._replace(created_ms=change.now_ms), f"session {new.name} is opened")

    def change(
        self, name: str, edit: Callable[[SessionRow], SessionRow], *, said: str = "", source: str = "jobwire"
    ) -> SessionRow:
        """Change a session; `said` is its event's line, by default none.

        Raises NotFoundError, TransitionError.

        Where its state becomes a final one, the archive is written; with the agent in it end its locks.
        """
        with self.store.changing() as change:
            before = _get(change, name)
            after = edit(before)
            if after == before:
                return before
            if after.state != before.state:
                check_step(name, before.standing, after.standing)
            after = _put(change, after, said, source=source)
            if after.standing is not before.standing and after.standing in _WITHOUT_AGENT:
                _free_locks(change, after)
        if after.state != before.state and after.standing in FINAL:
            from jobwire.coordination.sessions.archive import write_archive  # noqa: PLC0415 - lists need none

            write_archive(self.store.home, self.rows)
        return after

    def take_job(self, name: str, job_id: str, opener: str) -> SessionRow:
        """Note that this process hands a job to the session; raises ConflictError while it has another."""

        def take(row: SessionRow) -> SessionRow:
            if row.job_id:
                raise ConflictError(
                    f"session {name} works on job {row.job_id}",
                    hint="--wait S waits until it is free",
                    code="locked",
                    job_id=row.job_id,
                )
            return row._replace(job_id=job_id, handing=OPENING, opener=opener)

        return self.change(name, take)

    def free(self, name: str, job_id: str) -> SessionRow:
        """Note that the job has ended: the session is free for the next; nothing where it has another."""
        return self.change(
            name, lambda row: freed(row) if row.job_id == job_id else row, said=f"session {name} is free"
        )

    def end(self, name: str, state: SessionState, *, by: EndedBy, reason: str) -> SessionRow:
        """Bring a session into a final state. Raises TransitionError."""
        alive = state is SessionState.ARCHIVED

        def end(row: SessionRow) -> SessionRow:
            row = row if alive else freed(row)._replace(pane="", pid=0, life="")
            return row._replace(state=state, ended_by=by, reason=reason[:MAX_REASON])

        return self.change(name, end, said=f"session {name} is {state}: {reason}")

    def note_conversation(self, name: str, conversation: str) -> SessionRow:
        """Keep the agent's own id of its conversation. Raises InvalidInputError for what no id is."""
        if not 0 < len(conversation) <= MAX_CONVERSATION or not conversation.isprintable():
            raise InvalidInputError(f"not an id of a conversation: {conversation[:MAX_CONVERSATION]!r}")
        if conversation.startswith("-") or " " in conversation:
            raise InvalidInputError(f"not an id of a conversation: {conversation!r}")
        return self.change(name, lambda row: row._replace(conversation=conversation))

    def forget(self, name: str) -> None:
        """Remove an ended session. Raises ConflictError where it has not ended, NotFoundError."""
        with self.store.changing() as change:
            row = _get(change, name)
            if row.standing is SessionState.RUNNING:
                raise ConflictError(f"session {name} runs", hint=f"`jobwire sessions stop {name}`")
            change.execute("remove_agent_session", {"name": name})
            change.event("session_removed", source="jobwire", summary=f"session {name} is forgotten")

    def nudge_once(self, agent_id: str, seq: int) -> bool:
        """Note that an agent is told of a delivery by a paste; False where it was told before."""
        with self.store.changing() as change:
            if change.row("nudged", {"agent_id": agent_id, "seq": seq}):
                return False
            change.execute("put_nudge", {"agent_id": agent_id, "seq": seq, "now_ms": change.now_ms})
            for row in change.rows("message_numbered", {"seq": seq}):
                said = InboxMessage(*row)
                change.event(
                    "nudged",
                    source=agent_id,
                    thread_id=said.thread_id,
                    run_id=said.run_id,
                    message_id=said.id,
                    payload={"way": "paste"},
                )
            return True

    def first_untold(self, agent_id: str) -> int | None:
        """Return the number of the first message that the agent has not read, and was not told of."""
        rows = self.store.rows("first_untold", {"agent_id": agent_id})
        return int(rows[0][0]) if rows else None


def freed(row: SessionRow) -> SessionRow:
    """Return the session without its job."""
    return row._replace(job_id="", handing=NOT_HANDED, opener="")


def _put(change: Transaction, row: SessionRow, said: str, *, source: str = "jobwire") -> SessionRow:
    row = row._replace(changed_ms=change.now_ms)
    change.execute("put_agent_session", row._asdict())
    if said:
        payload = {"session": row.name, "state": row.state, "job_id": row.job_id, "reason": row.reason}
        change.event(f"session_{row.state}", source=source, summary=said, payload=payload)
        change.resources.add(f"session:{row.name}")
    return row


def _free_locks(change: Transaction, ended: SessionRow) -> None:
    """End the locks of the session's agent, unless it lives on in another session; it is told."""
    sessions = [SessionRow(*row) for row in change.rows("agent_sessions", {"state": None})]
    if ended.agent_id and not any(
        row.agent_id == ended.agent_id and row.standing not in _WITHOUT_AGENT for row in sessions
    ):
        revoke(change, ended.agent_id, f"session {ended.name} is {ended.state}")


def _find(reader: CoordinationStore | Transaction, name: str) -> SessionRow | None:
    # SQLite takes no half of a surrogate pair.
    rows = reader.rows("agent_session", {"name": name.encode(errors="replace").decode()})
    return SessionRow(*rows[0]) if rows else None


def _get(reader: CoordinationStore | Transaction, name: str) -> SessionRow:
    found = _find(reader, name)
    if found is None:
        raise NotFoundError(
            f"there is no session {name!r}", hint="`jobwire sessions list --all` shows them", code="not_found"
        )
    return found
