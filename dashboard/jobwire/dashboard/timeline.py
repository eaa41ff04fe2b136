"""The history of one job as the page shows it: audit lines without what is nobody's business."""

import json
import math
import os
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from jobwire.core.clock import epoch
from jobwire.core.errors import StorageError
from jobwire.core.signature import SIGNATURE_FIELD
from jobwire.dashboard.fleet import clean
from jobwire.jobs.record import JobRecord, public_record

# What one message carries, and how much of a very long history a page begins with.
CHUNK_BYTES = 256 * 1024
FIRST_BYTES = 2 * CHUNK_BYTES
_RECORD_BROKER = frozenset({"broker", "port", "tls", "protocol", "topic_root", "username"})
_DAMAGED = {"kind": "damaged"}
_PLAIN = ("kind", "source", "verdict", "attempt", "seq", "why", "before", "after", "cause", "request")


class Chunk(NamedTuple):
    """Whole lines of the history; `start` and `end` are byte offsets in the file."""

    lines: list[bytes]
    start: int
    end: int


def begin_at(path: str) -> int:
    """Return where a page that knows nothing begins to read: 0, or a line's start near the end."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - the store gives paths as text
            size = os.fstat(file.fileno()).st_size
            if size <= FIRST_BYTES:
                return 0
            file.seek(size - FIRST_BYTES)
            return size - FIRST_BYTES + len(file.readline())
    except FileNotFoundError:
        return 0


def read_chunk(path: str, start: int) -> Chunk:
    """Return whole lines from byte `start` on; none where there is nothing new. Raises StorageError."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - as above
            size = os.fstat(file.fileno()).st_size
            if size <= start:
                return Chunk([], start, start)
            file.seek(start)
            data = file.read(CHUNK_BYTES)
            while b"\n" not in data and (more := file.read(CHUNK_BYTES)):
                data += more
    except FileNotFoundError:
        return Chunk([], start, start)
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}", path=path) from error
    whole = data[: data.rfind(b"\n") + 1]
    return Chunk(whole.splitlines(), start, start + len(whole))


def entry_of(line: bytes, record: JobRecord) -> dict[str, object]:
    """Return one line of the history's file for the page; one that cannot be shown is called damaged."""
    try:
        value = json.loads(line)
        return entry(value if isinstance(value, dict) else _DAMAGED, record)
    except (ValueError, RecursionError):
        return entry(_DAMAGED, record)


def entry(line: Mapping[str, Any], record: JobRecord) -> dict[str, object]:
    """Return one audit line for the page: without signature and digest, tokens hidden."""
    shown: dict[str, Any] = {name: line[name] for name in _PLAIN if line.get(name) is not None}
    shown["at"] = _time(line.get("at"))
    event = line.get("event")
    if isinstance(event, dict):
        shown["event"] = event.get("event")
        shown["detail"] = event.get("detail")
        shown["said_at"] = _time(event.get("timestamp"))
        data = event.get("data")
        if isinstance(data, dict):
            shown["data"] = {name: value for name, value in data.items() if name != SIGNATURE_FIELD}
    if "payload" in line:
        shown["detail"] = line["payload"]
    return {name: hidden(value, record) for name, value in shown.items()}


def text_of(shown: Mapping[str, object]) -> str:
    """Return an entry as one line for a terminal; the texts in it are not made safe here."""
    at = shown.get("at")
    when = time.strftime("%H:%M:%S", time.localtime(at)) if isinstance(at, float) else "??:??:??"
    if shown.get("kind") == "status":
        return f"{when}  {shown.get('before') or 'new'} -> {shown.get('after')}  {shown.get('cause') or ''}"
    if shown.get("kind") == "request":
        return f"{when}  request {shown.get('request')}  {shown.get('cause') or ''}"
    verdict = shown.get("verdict")
    name = shown.get("event") if verdict == "accepted" else f"{verdict} {shown.get('event') or ''}"
    words = [shown.get("why"), shown.get("detail")]
    return f"{when}  {name} #{shown.get('seq')}  {' · '.join(str(word) for word in words if word)}"


def hidden(value: Any, record: JobRecord) -> Any:
    """Return a JSON value that browsers read, the job's tokens replaced wherever they stand in a text."""
    if isinstance(value, str):
        return clean(value, record)
    if isinstance(value, dict):
        return {clean(str(key), record): hidden(item, record) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [hidden(item, record) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        # JSON has no such numbers, and a browser reads none.
        return str(value)
    return value


def shown_record(record: JobRecord) -> dict[str, object]:
    """Return the record for the page: no token, and of the broker's settings no path and no password."""
    body = public_record(record)
    body["broker"] = {key: value for key, value in record.broker.items() if key in _RECORD_BROKER}
    shown: dict[str, object] = hidden(body, record)
    return shown


def _time(stamp: object) -> float | None:
    try:
        return round(epoch(str(stamp)), 3) if stamp else None
    except (ValueError, OverflowError):
        return None
