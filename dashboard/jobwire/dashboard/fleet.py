"""The fleet as people look at it: from records, events and the clock to rows, what can be helped first. Pure.

The page, `jobwire top`, `jobwire status` and the Prometheus endpoint all answer from these rules.
Times are epoch seconds.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from jobwire.core.errors import TransitionError
from jobwire.dashboard.foreign import epoch_or_zero
from jobwire.jobs.fold import apply_event
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import WAITING_COST, dismissed_at
from jobwire.jobs.requests import open_requests
from jobwire.registry.deadlines import pending_since

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jobwire.jobs.event import Event
    from jobwire.jobs.record import JobRecord
    from jobwire.jobs.requests import Request

NEVER = float("inf")
_FULL_PERCENT = 100.0
_HIDDEN = "[redacted]"
# Open requests of one job that its row carries.
_SHOWN_ASKS = 16


class Group(StrEnum):
    """What a job needs. The glossary has the words: `waiting` is "waits for you"."""

    WAITING = "waiting"
    STUCK = "stuck"
    FAILED = "failed"
    LATE = "late"
    RUNNING = "running"
    PENDING = "pending"
    DONE = "done"


PROBLEMS = (Group.WAITING, Group.STUCK, Group.FAILED, Group.LATE)
# What can still be helped comes first: a failure has ended, and many of them would hide the jobs that run.
_ORDER = (
    Group.WAITING,
    Group.STUCK,
    Group.LATE,
    Group.RUNNING,
    Group.FAILED,
    Group.PENDING,
    Group.DONE,
)
RANK = {group: rank for rank, group in enumerate(_ORDER)}


class Thresholds(NamedTuple):
    """When a job without limits of its own becomes a problem, and how long a failure stays one."""

    idle_seconds: float = 300.0
    pending_seconds: float = 600.0
    failed_seconds: float = 86_400.0


class LastEvent(NamedTuple):
    """The newest accepted event of a job: what the record does not keep of it."""

    seq: int
    at: float
    event: str
    percent: float | None


class JobFacts(NamedTuple):
    """Everything known of one job. Holds its tokens, so that they can be kept off every page."""

    record: JobRecord
    last: LastEvent | None


class Judgement(NamedTuple):
    """Where a job stands: its group, why in words, and when that may change by itself."""

    group: Group
    why: str
    until: float


class Row(NamedTuple):
    """One line of the fleet. `limit` is what idle time is compared with; `place` orders within a group."""

    id: str
    status: str
    group: str
    why: str
    session: str
    title: str
    detail: str
    percent: float | None
    event: str
    attempt: int
    max_attempts: int | None
    seq: int
    created: float
    started: float | None
    finished: float | None
    last: float | None
    limit: float | None
    owner: str
    rank: int
    place: float
    asks: tuple[Mapping[str, object], ...] = ()

    @property
    def order(self) -> tuple[int, float, str]:
        """Return the key of the problem-first order; stable while nothing changes."""
        return (self.rank, self.place, self.id)


class Query(NamedTuple):
    """What to show: any of `groups` (all, where empty), one session, a text."""

    groups: frozenset[str] = frozenset()
    session: str = ""
    text: str = ""


def percent_of(data: Mapping[str, object]) -> float | None:
    """Return the progress that an event's data reports as `percent`, clipped to 0..100, or None."""
    value = data.get("percent")
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return min(max(float(value), 0.0), _FULL_PERCENT)


def with_event(facts: JobFacts, event: Event, at: float) -> JobFacts:
    """Return the facts after an accepted event received at `at`; unchanged where it was known.

    Also unchanged where the lifecycle forbids it: then the record here is behind, and is read again.
    """
    if event.seq <= facts.record.last_seq:
        return facts
    try:
        record = apply_event(facts.record, event, at)
    except TransitionError:
        return facts
    return JobFacts(record, newer(facts.last, LastEvent(event.seq, at, event.event, percent_of(event.data))))


def newer(before: LastEvent | None, event: LastEvent) -> LastEvent:
    """Return the newest event of the two; progress once reported stays until the next attempt starts."""
    if before is None:
        return event
    if event.seq <= before.seq:
        return before
    keep = event.percent is None and event.event != "started"
    return event._replace(percent=before.percent) if keep else event


def with_record(facts: JobFacts | None, record: JobRecord, last: LastEvent | None) -> JobFacts:
    """Return the facts after reading the record again; what was folded ahead of it is kept."""
    if facts is not None and facts.record.last_seq > record.last_seq:
        return facts
    return JobFacts(record, last)


def is_failure(record: JobRecord) -> bool:
    """Tell whether the job ended in error and nobody has dismissed that."""
    return record.status is Status.ERROR and dismissed_at(record) is None


def judge(facts: JobFacts, now: float, limits: Thresholds) -> Judgement:
    """Say which group a job belongs to at `now`."""
    record = facts.record
    if record.status is Status.RUNNING:
        return _judge_running(facts, now, limits)
    if record.status is Status.PENDING:
        limit = record.timeouts.pending_seconds or limits.pending_seconds
        due = epoch_or_zero(pending_since(record)) + limit
        if due <= now:
            return Judgement(Group.LATE, f"nobody picked it within {words(limit)}", NEVER)
        return Judgement(Group.PENDING, "", due)
    if is_failure(record):
        until = epoch_or_zero(record.finished_at) + limits.failed_seconds
        return Judgement(Group.FAILED, "", until) if now < until else Judgement(Group.DONE, "", NEVER)
    return Judgement(Group.DONE, "", NEVER)


def _judge_running(facts: JobFacts, now: float, limits: Thresholds) -> Judgement:
    record = facts.record
    if record.attention:
        return Judgement(Group.WAITING, "", NEVER)
    limit = record.timeouts.idle_seconds or limits.idle_seconds
    silent = _idle_since(facts) + limit
    if silent <= now:
        return Judgement(Group.STUCK, f"silent for more than {words(limit)}", NEVER)
    lease = epoch_or_zero(record.lease.expires_at) if record.lease else NEVER
    if lease <= now:
        return Judgement(Group.STUCK, "its lease ran out", NEVER)
    wall = (
        epoch_or_zero(record.started_at) + record.timeouts.wall_seconds
        if record.timeouts.wall_seconds
        else NEVER
    )
    if wall <= now:
        why = f"running for more than {words(record.timeouts.wall_seconds or 0)}"
        return Judgement(Group.LATE, why, min(silent, lease))
    return Judgement(Group.RUNNING, "", min(silent, lease, wall))


def row_of(facts: JobFacts, judgement: Judgement, limits: Thresholds) -> Row:
    """Return the job's line."""
    record, group = facts.record, judgement.group
    running = record.status is Status.RUNNING
    last = facts.last.at if facts.last else None
    return Row(
        id=record.job_id,
        status=str(record.status),
        group=str(group),
        why=judgement.why,
        session=clean(record.agent_session or "", record),
        title=clean(record.title, record),
        detail=clean(record.detail, record),
        percent=_percent(facts),
        event=facts.last.event if facts.last else "",
        attempt=record.attempt,
        max_attempts=record.max_attempts,
        seq=record.last_seq,
        created=epoch_or_zero(record.created_at),
        started=epoch_or_zero(record.started_at) if record.started_at else None,
        finished=epoch_or_zero(record.finished_at) if record.finished_at else None,
        last=last,
        limit=(record.timeouts.idle_seconds or limits.idle_seconds) if running else None,
        owner=clean(record.lease.owner, record) if record.lease else "",
        rank=RANK[group],
        place=_place(facts, group),
        asks=tuple(_ask(one, record) for one in open_requests(record.requests)[:_SHOWN_ASKS]),
    )


def _ask(request: Request, record: JobRecord) -> Mapping[str, object]:
    """Return an open request for the page."""
    texts = {name: getattr(request, name) for name in ("text", "scope", "tool", "preview")}
    return {
        "id": request.id,
        "kind": str(request.kind),
        "named": request.named,
        "choices": request.choices,
        "asked": epoch_or_zero(request.asked_at),
        "expires": epoch_or_zero(request.expires_at) if request.expires_at else None,
        "cost": WAITING_COST[record.priority],
        **{name: None if text is None else clean(text, record) for name, text in texts.items()},
    }


def _percent(facts: JobFacts) -> float | None:
    if facts.record.status is Status.COMPLETED:
        return _FULL_PERCENT
    return facts.last.percent if facts.last and facts.record.status is not Status.PENDING else None


def _place(facts: JobFacts, group: Group) -> float:
    """Order within a group by what does not move with each event: rows must not jump about."""
    record = facts.record
    asked = open_requests(record.requests)
    if asked:
        return epoch_or_zero(asked[0].asked_at)
    if group in {Group.WAITING, Group.STUCK}:
        return _idle_since(facts)  # the longest wait first
    if group in {Group.FAILED, Group.DONE}:
        return -epoch_or_zero(record.finished_at)  # the newest first
    if group is Group.RUNNING:
        return -epoch_or_zero(record.started_at)
    return epoch_or_zero(record.created_at)


def clean(text: str, record: JobRecord) -> str:
    """Return `text` without the job's tokens, should a worker have said one."""
    for token in (record.auth_token, *record.previous_tokens):
        if token and token in text:
            text = text.replace(token, _HIDDEN)
    return text


def matches(row: Row, query: Query) -> bool:
    """Tell whether the row is asked for."""
    if query.groups and row.group not in query.groups:
        return False
    if query.session and row.session != query.session:
        return False
    text = query.text.casefold()
    return not text or any(text in part.casefold() for part in (row.id, row.title, row.detail, row.session))


def arrange(rows: Iterable[Row], query: Query = Query()) -> list[Row]:  # noqa: B008 - immutable
    """Return the rows that are asked for, what can be helped first."""
    return sorted((row for row in rows if matches(row, query)), key=lambda row: row.order)


def tally(rows: Iterable[Row]) -> dict[str, int]:
    """Return the number of rows in each group, zeros included."""
    counts = {str(group): 0 for group in Group}
    for row in rows:
        counts[row.group] += 1
    return counts


def words(seconds: float) -> str:
    """Return a length of time in at most two units, as people say it: 45s, 3m 10s, 2h, 1d 4h."""
    left = max(0, int(seconds))
    parts: list[str] = []
    for name, size in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{name}")
        elif parts:
            break
    return " ".join(parts[:2]) or "0s"


def _idle_since(facts: JobFacts) -> float:
    if facts.last is not None:
        return facts.last.at
    return epoch_or_zero(facts.record.started_at or facts.record.updated_at)
