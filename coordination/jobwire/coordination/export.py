"""All messages as lines of JSON, for people, git and `tail -f`: appended once each, whatever crashes.

One exporter at a time. The file says how far it is: its last whole line has the seq up to which it holds
everything, so that a crash between file and store neither loses nor doubles a line.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, NamedTuple

from jobwire.coordination.exporting import exporting
from jobwire.coordination.reading import artifacts_of
from jobwire.coordination.stored import InboxMessage
from jobwire.core.errors import StorageError
from jobwire.storage.durable import append_durably
from jobwire.storage.files import SystemFiles
from jobwire.storage.lines import whole_length

if TYPE_CHECKING:
    from jobwire.coordination.store import CoordinationStore
    from jobwire.storage.files import FileSystem

FILE = "bus.jsonl"
_PAGE = 500
# The longest line of ours: bodies and payloads beyond 4,096 bytes are named, not quoted.
_LONGEST = 4 * 1024 * 1024


class Exported(NamedTuple):
    """What an export did: how many lines it added, up to which seq the file goes."""

    path: str
    messages: int
    last_seq: int


def export_messages(
    store: CoordinationStore, path: str | None = None, *, files: FileSystem | None = None
) -> Exported:
    """Append the messages that are not in the file yet, each durably; gaps in the numbers are no matter.

    Raises ConflictError (locked) while another exports, StorageError for the disk.
    """
    target = os.path.abspath(path or f"{store.home}/{FILE}")
    files = files or SystemFiles()
    with exporting(store.home):
        last, count = _last_seq(target), 0
        while rows := store.rows("messages_after", {"after": last, "limit": _PAGE}):
            messages = [InboxMessage(*row) for row in rows]
            lines = [_line(store, one) for one in messages]
            append_durably(target, b"".join(lines), files=files)
            last, count = messages[-1].seq, count + len(messages)
        with store.changing() as change:
            change.execute("set_exported", {"seq": last})
        return Exported(target, count, last)


def _line(store: CoordinationStore, message: InboxMessage) -> bytes:
    body = message.to_json(artifacts=artifacts_of(store, message.id))
    # First, so that the end of a file is read without its bulk.
    ordered = {"seq": message.seq, **{name: value for name, value in body.items() if name != "seq"}}
    return json.dumps(ordered, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _last_seq(path: str) -> int:
    """Return the seq of the last whole line; raises StorageError for a file that is not ours."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    try:
        end = whole_length(descriptor, os.fstat(descriptor).st_size)
        start = max(0, end - _LONGEST)
        line = os.pread(descriptor, end - start, start).rstrip(b"\n").rpartition(b"\n")[2]
    finally:
        os.close(descriptor)
    if not end:
        return 0
    try:
        return int(json.loads(line)["seq"])
    except (ValueError, KeyError, TypeError) as error:
        raise StorageError(
            f"{path} is no export of messages", hint="name another file with --output", path=path
        ) from error
