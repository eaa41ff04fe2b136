"""The registry's decisions in a job's history, as facts. Pure: lines in, facts out."""

import json
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

from jobwire.core.bounds import MAX_NAME, MAX_REASON
from jobwire.core.errors import InvalidInputError
from jobwire.jobs.fact import Fact, FactKind, encode_fact
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import LIMITS, JobRecord
from jobwire.jobs.requests import RequestState

# The change of status in the line of an event; what the worker said comes behind it.
_CHANGE = re.compile(
    rb'\{"at":"[^"]*","kind":"event","source":"[^"]*","verdict":"accepted","attempt":[0-9]{1,16},'
    rb'"seq":[0-9]{1,16},"digest":"[0-9a-f]*","before":"([a-z]*)","after":"([a-z]*)"'
)
_KIND = re.compile(rb'\{"at":"[^"]*","kind":"(status|request)"')
_KINDS: dict[str, FactKind] = {
    Status.RUNNING: FactKind.CLAIMED,
    Status.PENDING: FactKind.REQUEUED,
    Status.CANCELLED: FactKind.CANCELLED,
    Status.ERROR: FactKind.FAILED,
}


class Decided(NamedTuple):
    """Facts, and how many whole lines and bytes of the history say nothing beyond them."""

    facts: list[Fact]
    line: int
    offset: int


class _StatusLine(NamedTuple):
    line: int
    offset: int
    said: dict[str, Any]


def decided(
    lines: Iterable[bytes],
    record: JobRecord,
    *,
    line: int = 0,
    offset: int = 0,
    redact: Callable[[str], str] = str,
) -> Decided:
    """Return the facts in `lines`, the whole lines of a history from this line and byte on.

    `record` was read before them. A line that its writer was killed behind, before the record was
    replaced, decided nothing: the next change does not begin where it ends. The last one waits for the
    record to say so as well.
    """
    facts: list[Fact] = []
    open_change: _StatusLine | None = None
    for raw in lines:
        before = None
        kind = _KIND.match(raw)
        if kind is not None and kind[1] == b"request":
            facts += _answered(line + 1, _read(raw), record)
            said = {}
        elif kind is not None:
            said = _read(raw)
            before = said.get("before")
        elif (change := _CHANGE.match(raw)) is not None:
            said, before = {}, change[1].decode()
        else:
            said = {}
        if open_change is not None and before is not None:
            if open_change.said.get("after") == before:
                facts += _facts(open_change, record, redact)
            open_change = None
        line, offset = line + 1, offset + len(raw)
        if said:
            open_change = _StatusLine(line, offset - len(raw), said)
    if open_change is not None:
        said = open_change.said
        if (said.get("after"), said.get("attempt")) != (record.status, record.attempt):
            line, offset = open_change.line - 1, open_change.offset
        else:
            facts += _facts(open_change, record, redact)
    found = sorted((fact for fact in facts if fact.line <= line), key=lambda fact: fact.place)
    return Decided(found, line, offset)


def purged(record: JobRecord, line: int, *, at: str, by: str) -> Fact:
    """Return the fact that the job was removed, after the last line of its history."""
    return Fact(
        record.job_id, record.created_at, line, FactKind.PURGED, at, record.attempt, _session(record), by
    )


def _answered(line: int, said: dict[str, Any], record: JobRecord) -> list[Fact]:
    """Return that a person answered; what he said stays in the record."""
    if said.get("after") != RequestState.ANSWERED:
        return []
    return _checked(
        lambda: Fact(
            record.job_id,
            record.created_at,
            line,
            FactKind.ANSWERED,
            said["at"],
            said["attempt"],
            _session(record),
            _clean(said["by"], MAX_NAME),
            _clean(f"request {said['request']} through {said['through']}", MAX_REASON),
        )
    )


def _checked(make: Callable[[], Fact]) -> list[Fact]:
    """Return the fact, or nothing of a line that was changed by hand."""
    try:
        fact = make()
        encode_fact(fact)
    except (KeyError, TypeError, ValueError, AttributeError, InvalidInputError):
        return []
    return [fact]


def _facts(change: _StatusLine, record: JobRecord, redact: Callable[[str], str]) -> list[Fact]:
    """Return what a line of a change of status says: a job may be registered as running already."""
    said = change.said
    after, first = said["after"], said["before"] is None
    limit = said.get("timeout") or (record.timed_out if after == record.status else None)
    timed_out = limit in LIMITS and after in {Status.CANCELLED, Status.ERROR}
    kinds = [FactKind.REGISTERED] if first else []
    if not first or after != Status.PENDING:
        kinds.append(FactKind.TIMED_OUT if timed_out else _KINDS.get(after, FactKind.FAILED))

    def made(kind: FactKind) -> Fact:
        return Fact(
            job_id=record.job_id,
            created_at=record.created_at,
            line=change.line,
            kind=kind,
            at=said["at"],
            attempt=said["attempt"],
            session=_session(record),
            by=_clean(said.get("by") or said["source"], MAX_NAME),
            cause=_clean(redact(said["cause"]), MAX_REASON),
            timeout=str(limit) if kind is FactKind.TIMED_OUT else "",
            labels=dict(record.labels) if kind is FactKind.REGISTERED else {},
        )

    return [fact for kind in kinds for fact in _checked(partial(made, kind))]


def _session(record: JobRecord) -> str:
    return _clean(record.agent_session or "", MAX_NAME)


def _clean(text: str, limit: int) -> str:
    return text[:limit].encode(errors="replace").decode()


def _read(raw: bytes) -> dict[str, Any]:
    """Return a line of a change of status; nothing where it was changed by hand into something else."""
    try:
        value = json.loads(raw)
        known = isinstance(value["after"], str) and isinstance(value["before"], str | None)
    except (ValueError, RecursionError, KeyError, TypeError):
        return {}
    return value if known else {}
