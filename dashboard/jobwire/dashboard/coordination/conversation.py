"""Messages, read from the store: of one conversation, with what became of them, and those with some words."""

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from jobwire.coordination.blobs import BlobFolder
from jobwire.coordination.reading import search_numbers, thread_of
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.stored import message_not_found
from jobwire.core.errors import JobwireError
from jobwire.dashboard.coordination.threads import thread_row, unread_in
from jobwire.dashboard.foreign import cut, epoch_or_zero

MESSAGES = 50
_TURNS = 200
_NAMED = 20
_FILES = 100
# Characters of a text on the page; all of it is one click away.
MOST_TEXT = 20_000
# Bytes of the blobs read for one answer.
_MOST_BLOBS = 4 << 20
_LAST = 2**62
# Messages with the words that are looked for, and characters of each.
FOUND = 30
_BEGINNING = 300


class ShownMessage(NamedTuple):
    """A message as the page shows it, in the order of the query's columns."""

    seq: int
    id: str
    ts_ms: int
    sender: str
    type: str
    kind: str
    summary: str
    priority: str
    message_class: str
    in_reply_to: str | None
    correlation_id: str | None
    risk: str
    expires_at_ms: int | None
    acceptance: str
    body: str
    body_length: int
    body_ref: str | None
    payload: str | None
    payload_length: int | None
    payload_ref: str | None


def conversation(
    store: CoordinationStore, thread_id: str, *, me: str, after: int | None = None, below: int | None = None
) -> dict[str, object]:
    """Return the thread with its newest messages between two numbers, oldest first, and its turns there.

    `more` tells whether there are older ones between. Raises NotFoundError (thread_not_found).
    """
    after, below = after or 0, _LAST if below is None else below
    with store.reading():
        thread = thread_of(store, thread_id)
        values = {"thread_id": thread_id, "after": after, "below": below, "limit": MESSAGES + 1}
        values["most"] = MOST_TEXT
        rows = store.rows("messages_shown", values)
        shown = [ShownMessage(*row) for row in reversed(rows[:MESSAGES])]
        more = len(rows) > MESSAGES
        turns = store.rows(
            "turns_of_thread",
            {**values, "after": shown[0].seq if more else after, "limit": _TURNS},
        )
        budget = _BlobBudget(store)
        return {
            "thread": thread_row(thread, None, unread_in(store, thread, me)),
            "messages": [_shown(store, one, budget) for one in shown],
            "turns": [_turn(*row) for row in reversed(turns)],
            "more": more,
            "event_id": store.latest_event(),
        }


def whole_text(store: CoordinationStore, seq: int, part: str) -> str:
    """Return the whole body or payload of a message. Raises NotFoundError, StorageError."""
    rows = store.rows("message_texts", {"seq": seq})
    if not rows:
        raise message_not_found(seq)
    body, body_ref, payload, payload_ref = rows[0]
    text, ref = (payload, payload_ref) if part == "payload" else (body, body_ref)
    return str(text or "") if ref is None else BlobFolder(store.home).get(ref).decode(errors="replace")


def found_page(store: CoordinationStore, words: str, below: int | None) -> dict[str, object]:
    """Return a page of the messages with all these words, newest first.

    Raises InvalidInputError where there is no word in it.
    """
    with store.reading():
        numbers = search_numbers(store, words, below=below, limit=FOUND)
        heads = [store.rows("message_heads", {"seq": seq, "most": _BEGINNING}) for seq in numbers]
    messages = [
        {
            "seq": seq,
            "id": message_id,
            "thread": thread,
            "at": ts_ms / 1000,
            "from": cut(sender),
            "kind": kind,
            "type": cut(message_type),
            "summary": cut(summary),
            "body": body,
        }
        for seq, message_id, thread, ts_ms, sender, kind, message_type, summary, body in chain.from_iterable(
            heads
        )
    ]
    return {"messages": messages, "next": numbers[-1] if len(numbers) == FOUND else None}


class _BlobBudget:
    """Reads large texts while there is something left of what one answer may read."""

    def __init__(self, store: CoordinationStore) -> None:
        self._blobs = BlobFolder(store.home)
        self._left = _MOST_BLOBS

    def text(self, ref: str) -> tuple[str, int]:
        """Return the beginning of a blob's text, and its length in bytes; a sentence where it is missing."""
        try:
            size = Path(self._blobs.path(ref)).stat().st_size
            if size > self._left:
                return "", size
            self._left -= size
            return self._blobs.get(ref).decode(errors="replace")[:MOST_TEXT], size
        except JobwireError as error:
            return f"[{error.message}]", 0
        except OSError as error:
            return f"[the text cannot be read: {error.strerror}]", 0


def _shown(store: CoordinationStore, one: ShownMessage, blobs: _BlobBudget) -> dict[str, object]:
    body, length = (one.body, one.body_length) if one.body_ref is None else blobs.text(one.body_ref)
    payload, payload_length = one.payload, one.payload_length or 0
    if one.payload_ref is not None:
        payload, payload_length = blobs.text(one.payload_ref)
    to = store.rows("deliveries_shown", {"seq": one.seq, "limit": _NAMED + 1})
    files = store.rows("artifacts_shown", {"id": one.id, "limit": _FILES})
    return {
        "seq": one.seq,
        "id": one.id,
        "at": one.ts_ms / 1000,
        "from": cut(one.sender),
        "kind": one.kind,
        "type": cut(one.type),
        "summary": one.summary,
        "body": body,
        "body_length": length,
        "body_cut": length > len(body.encode(errors="replace")) if one.body_ref else length > len(body),
        "payload": payload,
        "payload_length": payload_length,
        "priority": one.priority,
        "class": one.message_class,
        "risk": cut(one.risk),
        "in_reply_to": one.in_reply_to,
        "correlation": one.correlation_id,
        "expires": one.expires_at_ms / 1000 if one.expires_at_ms else None,
        "acceptance": list(_texts(one.acceptance)),
        "artifacts": [{"path": path, "kind": cut(kind), "sha256": digest} for path, kind, digest in files],
        "to": [
            {
                "name": cut(name),
                "state": state,
                "tries": tries,
                "read": read / 1000 if read else None,
                "done": done / 1000 if done else None,
                "error": cut(error),
            }
            for name, state, tries, read, done, error in to[:_NAMED]
        ],
        "to_more": len(to) > _NAMED,
    }


def _turn(number: int, source: str, kind: str, text: str, at: str) -> dict[str, object]:
    return {
        "seq": number,
        "source": cut(source),
        "type": cut(kind),
        "text": cut(text),
        "at": epoch_or_zero(at),
    }


def _texts(acceptance: str) -> Iterator[str]:
    try:
        found = json.loads(acceptance)
    except (ValueError, RecursionError):
        # Cut, or of another program.
        found = [acceptance]
    for text in found if isinstance(found, list) else [found]:
        yield cut(str(text))
