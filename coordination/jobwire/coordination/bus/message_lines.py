"""All messages as lines of JSON in one file, continued where the last export ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobwire.coordination.export import export_messages

if TYPE_CHECKING:
    from jobwire.coordination.store import CoordinationStore


def write_lines(store: CoordinationStore, path: str, run_id: str) -> dict[str, object]:
    """Append the messages of all runs that the file does not hold yet."""
    del run_id
    exported = export_messages(store, path)
    return {"messages": exported.messages, "last_seq": exported.last_seq}
