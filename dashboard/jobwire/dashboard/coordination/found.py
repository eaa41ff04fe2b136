"""Messages by their words, read from the store."""

from itertools import chain

from jobwire.coordination.reading import search_numbers
from jobwire.coordination.store import CoordinationStore
from jobwire.dashboard.coordination.thread_rows import cut

FOUND = 30
_BEGINNING = 300


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
