"""The audit log of one job, its history: `logs/<job_id>/` with meta.json, status.json and events.ndjson.

events.ndjson is written ahead of the record, each line flushed: whatever the record says has its line
here, and what a worker on this disk said is sent from here. A crash between the two leaves at most one line
(one batch of lines) that the record does not know yet. The next holder of the record's lock brings the
record up to the events among them; whoever repeats another change finds its line and does not write it
again.

Each line is one object with `at` (ISO 8601 UTC), `kind` and `source` (who wrote it):

    kind "event":  verdict ("accepted" or the reason of a refusal), attempt, seq, digest (hex), event
                   (the signed object as it was sent; `payload` with the text where it was not JSON),
                   why (refusals), before and after (where the status changed), call (what a worker and the
                   registry process know it by that kept it for the worker)
    kind "status": attempt, before (null at registration), after, cause, by (who), timeout (the limit),
                   op (the message that goes with it)
    kind "request": attempt, request (its id), before, after, cause, op, and of an answer: answer, always,
                   by, through, seconds (how long it was waited for)

meta.json never changes; status.json is a copy of the record's state for scripts. Neither holds a
token, both can be written again from the record.
"""

from __future__ import annotations

import contextlib
import json
import os
import os.path
import re
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from jobwire.core.digest import sha256
from jobwire.jobs.record import public_record
from jobwire.jobs.requests import seconds_to_answer
from jobwire.storage.failures import storage_failure
from jobwire.storage.lines import whole_length

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from jobwire.jobs.record import JobRecord
    from jobwire.jobs.requests import Request

EVENTS = "events.ndjson"
META = "meta.json"
STATUS = "status.json"
# What is kept of a message that is not even JSON: evidence, not a way to fill the disk.
MAX_EVIDENCE = 512
_TAIL_BYTES = 64 * 1024
# Every line begins with when it was written, a text of one length.
_AT = len('{"at":"2026-01-01T00:00:00.000Z"')
_KIND = _AT + len(',"kind":"status"')
_META_FIELDS = (
    "schema_version",
    "job_id",
    "agent_session",
    "title",
    "instructions",
    "created_at",
    "priority",
    "timeouts",
    "idempotency_key",
    "max_attempts",
)
_STATUS_FIELDS = ("job_id", "status", "attempt", "last_seq", "updated_at", "attention", "detail")

# The history is the outbox of what this source wrote.
PUBLISHER = "publisher"
# Lines that one change may have left ahead of the record.
_AHEAD_LINES = 256
# A digest marks a message in history; it needs no more than admission's 128 bits.
_DIGEST_BYTES = 16
_HELD = re.compile(
    rb'\{"at":"([^"]*)","kind":"event","source":"([^"]*)","verdict":"accepted","attempt":([0-9]{1,16}),'
    rb'"seq":([0-9]{1,16}),"digest":"([0-9a-f]*)"(?:,"call":"[0-9a-f]*")?'
    rb'(?:,"before":"[a-z]*","after":"[a-z]*")?,"event":(?=\{)'
)

# Made once: json.dumps makes one at each call, which takes longer than a line.
_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))

Line = dict[str, Any]


class HeldEvent(NamedTuple):
    """An accepted event in the history; `payload` is the message as it was sent."""

    at: str
    source: str
    attempt: int
    seq: int
    digest: str
    payload: bytes

    @property
    def whole(self) -> bool:
        """Tell whether the payload is what was written."""
        return payload_digest(self.payload).hex() == self.digest


def payload_digest(payload: bytes) -> bytes:
    """Return what tells two payloads apart, as `admission.digest_of` does (which brings more)."""
    return sha256(payload).digest()[:_DIGEST_BYTES]


def held_event(raw: bytes) -> HeldEvent | None:
    """Return the accepted event in a line of the history, None where it says something else."""
    head = _HELD.match(raw)
    if head is None or not raw.endswith(b"}}\n"):
        return None
    at, source, attempt, seq, digest = head.groups()
    payload = raw[head.end() : -2]
    return HeldEvent(at.decode(), source.decode(), int(attempt), int(seq), digest.decode(), payload)


def status_line(
    *,
    at: str,
    source: str,
    attempt: int,
    before: str | None,
    after: str,
    cause: str,
    by: str = "",
    timeout: str = "",
    op: str = "",
) -> tuple[bytes, Line]:
    """Return the encoded line of a status change that no event caused, and its identity.

    `op` is the message that waits in the coordination store for this change.
    """
    line: Line = {
        "at": at,
        "kind": "status",
        "source": source,
        "attempt": attempt,
        "before": before,
        "after": after,
        "cause": cause,
        **({"op": op} if op else {}),
        **({"by": by} if by else {}),
        **({"timeout": timeout} if timeout else {}),
    }
    return _encode(line), identity_of(line)


def event_line(
    *,
    at: str,
    source: str,
    verdict: str,
    attempt: int,
    seq: int | None,
    digest: bytes,
    payload: bytes,
    why: str = "",
    change: tuple[str, str] | None = None,
    call: str = "",
) -> tuple[bytes, Line]:
    """Return the encoded line of one message, and its identity.

    `payload` is the message as it was sent: spliced in as it is where it is an object on one line, so
    that the bytes (and with them the signature) survive.
    """
    line: Line = {"at": at, "kind": "event", "source": source, "verdict": verdict, "attempt": attempt}
    line |= {"seq": seq, "digest": digest.hex()}
    if call:
        line["call"] = call
    if why:
        line["why"] = why
    if change:
        line["before"], line["after"] = change
    if seq is None:
        line["payload"] = payload[:MAX_EVIDENCE].decode("utf-8", "replace")
        return _encode(line), identity_of(line)
    head = _encode(line)
    # Line breaks are possible only between the tokens of JSON text: a foreign sender may indent.
    body = payload if b"\n" not in payload and b"\r" not in payload else _encode(json.loads(payload))[:-1]
    return head[:-2] + b',"event":' + body + b"}\n", identity_of(line)


def request_line(
    *, at: str, source: str, attempt: int, before: str, after: Request, cause: str, op: str = ""
) -> tuple[bytes, Line]:
    """Return the encoded line of what became of a request without an event, and its identity."""
    line: Line = {
        "at": at,
        "kind": "request",
        "source": source,
        "attempt": attempt,
        "request": after.id,
        "before": before,
        "after": str(after.state),
        "cause": cause,
        **({"op": op} if op else {}),
    }
    if after.answered_by is not None:
        line |= {
            "by": after.answered_by,
            "through": after.answered_through,
            "seconds": round(seconds_to_answer(after) or 0.0, 3),
            "always": after.always,
            "answer": after.answer,
        }
    return _encode(line), identity_of(line)


class AuditLog:
    """One job's folder. Writers hold the job's record lock; readers need none."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.events_path = f"{directory}/{EVENTS}"

    def meta(self, record: JobRecord) -> tuple[str, bytes]:
        """Return the path of meta.json, and its bytes for `record`."""
        body = public_record(record)
        return self._path(META), _encode({name: body[name] for name in _META_FIELDS})

    def ends_with(self, line: bytes) -> bool:
        """Tell whether the file ends with this line, whenever it was written.

        Then a crash came between it and the record. Compared as bytes: every change asks this.
        """
        with self.opened() as descriptor:
            if descriptor is None:
                return False
            start = os.fstat(descriptor).st_size - len(line)
            return start >= 0 and os.pread(descriptor, len(line), start)[_AT:] == line[_AT:]

    def status(self, record: JobRecord) -> tuple[str, bytes]:
        """Return the path of status.json, and its bytes for `record`."""
        body = public_record(record)
        return self._path(STATUS), _encode({name: body[name] for name in _STATUS_FIELDS})

    def ahead_of(self, seq: int) -> list[HeldEvent]:
        """Return the accepted events at the end of the history that are above `seq`, oldest first.

        As a crash leaves them between history and record: nothing but events stands behind the first of them.
        """
        with self.opened() as descriptor:
            if descriptor is None:
                return []
            held = held_event(_tail(descriptor, 1)[0])
            if held is not None and held.seq <= seq:
                return []
            lines = _tail(descriptor, _AHEAD_LINES)[0].splitlines(keepends=True)
        found: list[HeldEvent] = []
        for raw in reversed(lines):
            held = held_event(raw)
            if held is not None and held.seq > seq:
                found.append(held)
            elif held is not None or b'"kind":"event"' not in raw[:_KIND]:
                break
        return found[::-1]

    def last(self) -> Line | None:
        """Return the last whole line, or None where there is none."""
        for line in self.tail(1):
            return line
        return None

    def tail(self, count: int) -> list[Line]:
        """Return up to `count` of the last whole lines, oldest first; reads only the end of the file."""
        with self.opened() as descriptor:
            raw = _tail(descriptor, count)[0] if descriptor is not None else b""
        return list(_decode(raw.splitlines()))

    def since(self, offset: int) -> list[tuple[Line, int]]:
        """Return the whole lines from byte `offset` on, each with the offset after it."""
        try:
            with open(self.events_path, "rb") as file:
                file.seek(offset)
                raw_lines = [raw for raw in file if raw.endswith(b"\n")]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise storage_failure("read", self.events_path, error) from error
        ends = accumulate((len(raw) for raw in raw_lines), initial=offset)
        return list(zip(_decode(raw_lines), list(ends)[1:], strict=True))

    def start_of_tail(self, count: int) -> int:
        """Return the byte offset at which the last `count` whole lines begin."""
        with self.opened() as descriptor:
            return _tail(descriptor, count)[1] if descriptor is not None else 0

    def lines(self) -> Iterator[Line]:
        """Yield every whole line, oldest first; a torn last one is left out."""
        try:
            file = open(self.events_path, "rb")  # noqa: SIM115 - closed by `with` below
        except FileNotFoundError:
            return
        except OSError as error:
            raise storage_failure("read", self.events_path, error) from error
        try:
            with file:
                yield from _decode(raw for raw in file if raw.endswith(b"\n"))
        except OSError as error:
            raise storage_failure("read", self.events_path, error) from error

    @contextlib.contextmanager
    def opened(self) -> Iterator[int | None]:
        """Open the history for the block; None where there is none. Raises StorageError."""
        descriptor = None
        try:
            with contextlib.suppress(FileNotFoundError):
                descriptor = os.open(self.events_path, os.O_RDONLY | os.O_CLOEXEC)
            yield descriptor
        except OSError as error:
            raise storage_failure("read", self.events_path, error) from error
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def _path(self, name: str) -> str:
        return f"{self.directory}/{name}"


def _tail(descriptor: int, count: int) -> tuple[bytes, int]:
    """Return the last `count` whole lines, or all, and the offset at which they begin."""
    end = whole_length(descriptor, os.fstat(descriptor).st_size)
    raw, start, step = b"", end, 1024
    while start > 0:
        step = min(step * 4, _TAIL_BYTES)
        begin = max(0, start - step)
        raw = os.pread(descriptor, start - begin, begin) + raw
        start = begin
        # One line break ends the last line, `count` more stand before the wanted ones.
        if raw.count(b"\n") > count:
            break
    wanted = b"".join(raw.splitlines(keepends=True)[-count:])
    return wanted, end - len(wanted)


def _decode(raw_lines: Sequence[bytes] | Iterator[bytes]) -> Iterator[Line]:
    for raw in raw_lines:
        try:
            value = json.loads(raw)
        except (ValueError, RecursionError):
            # Whole but not JSON of ours: damaged by hand or disk. The history around it is worth having.
            value = {"kind": "damaged", "text": raw[:MAX_EVIDENCE].decode("utf-8", "replace")}
        yield value if isinstance(value, dict) else {"kind": "damaged"}


def identity_of(line: Mapping[str, Any]) -> Line:
    """Return what makes two lines the same change: everything but when and by whom it was written."""
    names = ("kind", "attempt", "seq", "digest", "verdict", "request", "before", "after", "cause")
    return {name: line.get(name) for name in names}


def _encode(value: Mapping[str, object]) -> bytes:
    return _JSON.encode(value).encode("utf-8", "replace") + b"\n"
