"""What is in the store, without changing it: candidates, threads, messages, words."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from jobwire.coordination.stored import InboxMessage, json_or_text, message_not_found, thread_not_found
from jobwire.coordination.thread import LEADING, InboxThread, ThreadStatus
from jobwire.core.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from jobwire.coordination.store import CoordinationStore, Transaction

FETCHED = (ThreadStatus.PENDING, ThreadStatus.BLOCKED)
_PAGE = 200
_RANKS = {"high": 0, "normal": 1, "low": 2}
_MAX_WORDS = 1024


class Standing(NamedTuple):
    """What an agent is to a thread: a lead, director or person; one who wrote or was written to."""

    leads: bool
    takes_part: bool


def thread_of(reader: CoordinationStore | Transaction, thread_id: str) -> InboxThread:
    """Return the thread; raises NotFoundError (thread_not_found)."""
    found = find_thread(reader, thread_id)
    if found is None:
        raise thread_not_found(thread_id)
    return found


def find_thread(reader: CoordinationStore | Transaction, thread_id: str) -> InboxThread | None:
    """Return the thread, None where there is none."""
    rows = reader.rows("thread", {"thread_id": thread_id})
    return InboxThread(*rows[0]) if rows else None


def thread_of_job(reader: CoordinationStore | Transaction, job_id: str) -> InboxThread | None:
    """Return the thread whose work the job does, None where it has none."""
    rows = reader.rows("thread_of_job", {"job_id": job_id})
    return InboxThread(*rows[0]) if rows else None


def message_of(reader: CoordinationStore | Transaction, name: str | int) -> InboxMessage:
    """Return the message by its id or its seq; raises NotFoundError (message_not_found)."""
    rows = reader.rows("message", {"id": name}) if isinstance(name, str) else []
    if not rows and str(name).isdecimal():
        rows = reader.rows("message_numbered", {"seq": int(name)})
    if not rows:
        raise message_not_found(name)
    return InboxMessage(*rows[0])


def messages_of(
    reader: CoordinationStore | Transaction, thread_id: str, *, limit: int = -1
) -> list[InboxMessage]:
    """Return the thread's first messages, oldest first."""
    rows = reader.rows("messages_of_thread", {"thread_id": thread_id, "limit": limit})
    return [InboxMessage(*row) for row in rows]


def last_messages_of(
    reader: CoordinationStore | Transaction, thread_id: str, limit: int
) -> list[InboxMessage]:
    """Return the thread's last messages, oldest first."""
    rows = reader.rows("last_messages_of_thread", {"thread_id": thread_id, "limit": limit})
    return [InboxMessage(*row) for row in reversed(rows)]


def artifacts_of(reader: CoordinationStore | Transaction, message_id: str) -> list[dict[str, object]]:
    """Return the files that a message names."""
    return [
        {"path": path, "kind": kind, "metadata": json_or_text(metadata), "sha256": digest}
        for path, kind, metadata, digest in reader.rows("artifacts_of", {"id": message_id})
    ]


def message_json(store: CoordinationStore, message: InboxMessage) -> dict[str, object]:
    """Return a message as commands print it, with what of it lies in blobs, and its files."""
    from jobwire.coordination.blobs import BlobFolder  # noqa: PLC0415 - who lists reads none

    return message.to_json(BlobFolder(store.home), artifacts_of(store, message.id))


def fetch(
    store: CoordinationStore,
    agent: str,
    *,
    statuses: Sequence[str] = FETCHED,
    limit: int = 20,
    unread: bool = False,
) -> list[InboxThread]:
    """Return threads for the agent, the most urgent first: its own and, while pending, those that are open.

    With `unread` those with something that it has not read, whatever their status. Changes nothing.
    """
    if unread:
        return list(islice(_unread(store, agent, statuses), limit))
    from heapq import merge  # noqa: PLC0415 - who sends needs none

    found = [
        _candidates(store, assignee, status, limit)
        for status in statuses
        for assignee in ((agent, "") if status == ThreadStatus.PENDING else (agent,))
    ]
    return list(islice(merge(*found, key=lambda one: (_RANKS[one.priority], one.position)), limit))


def _candidates(store: CoordinationStore, assignee: str, status: str, limit: int) -> list[InboxThread]:
    values = {"assigned_to": assignee, "status": status, "limit": limit}
    return [InboxThread(*row) for row in store.rows("candidates", values)]


def _unread(store: CoordinationStore, agent: str, statuses: Sequence[str]) -> Iterator[InboxThread]:
    after = ""
    while True:
        rows = store.rows("unread_threads", {"agent_id": agent, "after": after, "limit": _PAGE})
        for (thread_id,) in rows:
            after = thread_id
            found = find_thread(store, thread_id)
            if found is not None and (not statuses or found.status in statuses):
                yield found
        if len(rows) < _PAGE:
            return


def threads(
    store: CoordinationStore,
    *,
    agent: str | None = None,
    statuses: Sequence[str] = (),
    created_by: str | None = None,
    assigned_to: str | None = None,
    run_id: str | None = None,
    below: int | None = None,
    limit: int = 50,
) -> list[InboxThread]:
    """Return threads by what is named, the last changed first; `below` a `changed` is the next page."""
    values = {
        "statuses": f",{','.join(statuses)}," if statuses else None,
        "created_by": created_by,
        "assigned_to": assigned_to,
        "agent": agent,
        "run_id": run_id,
        "below": below,
        "limit": limit,
    }
    return [InboxThread(*row) for row in store.rows("threads", values)]


def leads_of(reader: CoordinationStore | Transaction, run_id: str) -> tuple[str, ...]:
    """Return who leads the run."""
    return tuple(row[0] for row in reader.rows("leads_of_run", {"run_id": run_id}))


def leads(reader: CoordinationStore | Transaction, agent: str) -> bool:
    """Tell whether the agent is a lead, a director or a person."""
    kinds = reader.rows("agent_kind", {"agent_id": agent})
    return bool(kinds) and (kinds[0][0] in LEADING or "lead" in json.loads(kinds[0][1]))


def part_in(reader: CoordinationStore | Transaction, thread_id: str, agent: str) -> Standing:
    """Return what the agent is to the thread."""
    return Standing(
        leads(reader, agent), bool(reader.rows("takes_part", {"thread_id": thread_id, "agent_id": agent}))
    )


def search(
    store: CoordinationStore, words: str, *, below: int | None = None, limit: int = 20
) -> list[InboxMessage]:
    """Return messages that hold all the words, newest first; quoted ones as a phrase, `word*` any ending.

    Raises InvalidInputError where there is no word in it.
    """
    expression = expression_of(words)
    _index_foreign(store)
    values = {"words": expression, "below": 2**62 if below is None else below, "limit": limit}
    return [InboxMessage(*row) for row in store.rows("search", values)]


def search_numbers(
    store: CoordinationStore, words: str, *, below: int | None = None, limit: int = 20
) -> list[int]:
    """Return the numbers of messages as `search` finds them; changes nothing.

    What another program wrote is found once somebody has searched who may write.
    """
    values = {"words": expression_of(words), "below": 2**62 if below is None else below, "limit": limit}
    return [seq for (seq,) in store.rows("found", values)]


def expression_of(text: str) -> str:
    """Return what FTS5 takes for the words of a person: no operator of its language acts."""
    if len(text) > _MAX_WORDS:
        raise InvalidInputError(f"{len(text)} characters to search for", hint=f"at most {_MAX_WORDS}")
    terms: list[str] = []
    for index, piece in enumerate(text.replace("\0", " ").split('"')):
        for term in [piece] if index % 2 else piece.split():
            bare = term.removesuffix("*")
            if any(map(str.isalnum, bare)):
                terms.append('"' + bare + '"' + ("*" if term != bare else ""))
    if not terms:
        raise InvalidInputError(
            "there is no word to search for", hint="name words of summary, body or payload"
        )
    return " ".join(terms)


def _index_foreign(store: CoordinationStore) -> None:
    """Take in the words of messages that other programs wrote: their triggers may not."""
    while rows := store.rows("not_indexed", {"limit": _PAGE}):
        with store.changing() as change:
            # Looked at again under the right to write: another reader may have been quicker.
            rows = change.rows("not_indexed", {"limit": _PAGE})
            change.execute_many("insert_words", _words(rows))
            change.execute_many("set_indexed", [{"seq": row[0]} for row in rows])


def _words(rows: Iterable[tuple[int, str, str, str]]) -> list[dict[str, object]]:
    return [{"seq": seq, "summary": summary, "body": body, "type": kind} for seq, summary, body, kind in rows]


def ways_in(store: CoordinationStore, thread_id: str) -> dict[str, list[dict[str, object]]]:
    """Return by message which way (`hook`, `wake`, `paste`) it went to whom, and how far, where told."""
    found: dict[str, dict[str, dict[str, object]]] = {}
    for message_id, agent, event_type, text in store.rows("ways_in", {"thread_id": thread_id}):
        payload = json.loads(text)
        if isinstance(payload, dict) and "way" in payload:
            said = {
                "agent_id": agent,
                "way": payload["way"],
                "state": "done" if event_type == "receipt" else "told",
                "event": payload.get("hook") or payload.get("confirmed_by") or "",
            }
            found.setdefault(str(message_id), {})[str(agent)] = said
    return {message: list(ways.values()) for message, ways in found.items()}
