"""Entries for people and for programs: one aligned line, or one JSON object a line."""

import base64
import json

from jobwire.core.clock import utc_timestamp
from jobwire.core.terminal_text import fit, safe
from jobwire.core.topics import Topics
from jobwire.journal.entry import Stored

_MICROSECONDS = 1_000_000
# Wide enough for every reason of SPEC section 3 ("illegal_transition").
_VERDICT_WIDTH = 18


def moment(microseconds: int) -> str:
    """Return UTC with microseconds, as ISO 8601."""
    seconds, rest = divmod(microseconds, _MICROSECONDS)
    try:
        return f"{utc_timestamp(seconds)[:-5]}.{rest:06d}Z"
    except (OverflowError, ValueError, OSError):  # a clock that was far off; the number still tells
        return f"{microseconds}us"


def as_json(row: Stored, topics: Topics) -> str:
    """Return the entry as one line of JSON.

    The payload is a string where it is UTF-8 and stands as `payload_base64` otherwise: never lossy.
    """
    values: dict[str, object] = {
        "offset": row.offset,
        "received_at": moment(row.received_at_us),
        "verdict": row.verdict,
        "job_id": job_id(row, topics),
        "topic": row.topic,
        "retained": row.retained,
        "redelivered": row.redelivered,
    }
    try:
        values["payload"] = row.payload.decode()
    except UnicodeDecodeError:
        values["payload_base64"] = base64.b64encode(row.payload).decode()
    return json.dumps(values)


def as_line(row: Stored, topics: Topics, width: int) -> str:
    """Return the entry as one readable line of at most `width` characters, safe for a terminal."""
    address = job_id(row, topics) or safe(row.topic)
    marks = ("R" if row.retained else "-") + ("D" if row.redelivered else "-")
    verdict = f"{safe(row.verdict):<{_VERDICT_WIDTH}}"
    time = moment(row.received_at_us)[11:23]
    text = f"{row.offset:>9}  {time}  {verdict} {marks}  {address}  {_summary(row.payload)}"
    return fit(text, width)


def job_id(row: Stored, topics: Topics) -> str | None:
    """Return the job that the topic names, or None."""
    address = topics.parse(row.topic)
    return address.job_id if address is not None else None


def _summary(payload: bytes) -> str:
    """Return an event as `#seq event detail`, a fact as `kind cause`, anything else as its characters."""
    text = payload.decode(errors="backslashreplace")
    try:
        said = json.loads(text)
        if "kind" in said:
            return safe(f"{said['kind']} by {said['by']}  {said['cause']}")
        return safe(f"#{said['seq']} {said['event']}  {said['detail']}")
    except (ValueError, KeyError, TypeError, RecursionError):
        return safe(text)
