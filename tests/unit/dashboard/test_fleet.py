"""The rules of the fleet: groups, order, filters, and that no token ever reaches a row."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.core.clock import utc_timestamp
from jobwire.core.lease import Lease
from jobwire.dashboard.fleet import (
    Group,
    JobFacts,
    LastEvent,
    Query,
    Row,
    Thresholds,
    arrange,
    judge,
    matches,
    newer,
    percent_of,
    row_of,
    tally,
    with_event,
    with_record,
    words,
)
from jobwire.dashboard.top_once import what
from jobwire.jobs.event import Event
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import JobRecord, Timeouts

T0 = 1_767_225_600.0
LIMITS = Thresholds(idle_seconds=300, pending_seconds=600, failed_seconds=86_400)
TOKEN = "t" * 43


def record(**fields: object) -> JobRecord:
    """Return a running job that began at T0."""
    stamp = utc_timestamp(T0)
    base = JobRecord("0a1b2c3d", TOKEN, stamp, stamp, status=Status.RUNNING, started_at=stamp, last_seq=1)
    return base._replace(**fields)  # type: ignore[arg-type]  # fields of a test


def facts(**fields: object) -> JobFacts:
    """Return a running job whose last event came at `last_at` (T0)."""
    last_at = fields.pop("last_at", T0)
    assert isinstance(last_at, float)
    return JobFacts(record(**fields), LastEvent(1, last_at, "progress", None))


def row(now: float = T0, **fields: object) -> Row:
    """Return the row of a job."""
    job = facts(**fields)
    return row_of(job, judge(job, now, LIMITS), LIMITS)


GROUPS = [
    ({}, 0, Group.RUNNING),
    ({}, 299, Group.RUNNING),
    ({}, 300, Group.STUCK),
    ({"timeouts": Timeouts(idle_seconds=1000)}, 300, Group.RUNNING),
    ({"timeouts": Timeouts(idle_seconds=60)}, 60, Group.STUCK),
    ({"attention": True}, 9999, Group.WAITING),
    ({"timeouts": Timeouts(wall_seconds=100)}, 100, Group.LATE),
    ({"lease": Lease("pane", utc_timestamp(T0 + 50))}, 51, Group.STUCK),
    ({"status": Status.PENDING, "started_at": None, "last_seq": 0}, 599, Group.PENDING),
    ({"status": Status.PENDING, "started_at": None, "last_seq": 0}, 600, Group.LATE),
    ({"status": Status.ERROR, "finished_at": utc_timestamp(T0)}, 86_399, Group.FAILED),
    ({"status": Status.ERROR, "finished_at": utc_timestamp(T0)}, 86_400, Group.DONE),
    (
        {"status": Status.ERROR, "finished_at": utc_timestamp(T0), "extra": {"dismissed_at": "now"}},
        1,
        Group.DONE,
    ),
    ({"status": Status.COMPLETED, "finished_at": utc_timestamp(T0)}, 1, Group.DONE),
    ({"status": Status.CANCELLED, "finished_at": utc_timestamp(T0)}, 1, Group.DONE),
]


@pytest.mark.parametrize(("fields", "age", "group"), GROUPS)
def test_group(fields: dict[str, object], age: float, group: Group) -> None:
    """A job belongs to the group that says what it needs from a person."""
    assert judge(facts(**fields), T0 + age, LIMITS).group is group


@pytest.mark.parametrize(("fields", "age", "group"), GROUPS)
def test_until_is_when_the_group_changes(fields: dict[str, object], age: float, group: Group) -> None:
    """No job changes its group by itself before the moment that `until` names."""
    judgement = judge(facts(**fields), T0 + age, LIMITS)
    assert judgement.until > T0 + age
    if judgement.until != float("inf"):
        assert judge(facts(**fields), judgement.until - 0.01, LIMITS).group is group
        assert judge(facts(**fields), judgement.until, LIMITS).group is not group


def test_what_can_be_helped_comes_first() -> None:
    """What can be helped first: waits for you, stuck, late, running; then failed, pending, done."""
    done = utc_timestamp(T0)
    rows = [
        row(job_id="00000001", status=Status.COMPLETED, finished_at=done),
        row(job_id="00000002", status=Status.PENDING, started_at=None),
        row(job_id="00000003"),
        row(job_id="00000004", timeouts=Timeouts(wall_seconds=1), now=T0 + 2),
        row(job_id="00000005", status=Status.ERROR, finished_at=done),
        row(job_id="00000006", now=T0 + 301),
        row(job_id="00000007", attention=True),
    ]
    assert [found.id[-1] for found in arrange(rows)] == ["7", "6", "4", "3", "5", "2", "1"]


def test_longest_wait_is_on_top() -> None:
    """Of several jobs that wait, the one that has waited longest is first."""
    rows = [
        row(job_id="00000001", attention=True, last_at=T0 + 5),
        row(job_id="00000002", attention=True, last_at=T0),
    ]
    assert [found.id for found in arrange(rows)] == ["00000002", "00000001"]


def test_progress_does_not_move_a_running_row() -> None:
    """An event of a running job changes its row but not its place: rows must not jump."""
    before = facts()
    event = Event(2, "0a1b2c3d", "progress", utc_timestamp(T0), "half", {"percent": 50})
    after = with_event(before, event, T0 + 9)
    first, second = (row_of(job, judge(job, T0 + 9, LIMITS), LIMITS) for job in (before, after))
    assert first.order == second.order
    assert (second.detail, second.percent, second.last) == ("half", 50.0, T0 + 9)


def test_event_is_folded_once() -> None:
    """The same event again changes nothing."""
    event = Event(2, "0a1b2c3d", "permission_required", utc_timestamp(T0), "may I?", {})
    once = with_event(facts(), event, T0 + 1)
    assert with_event(once, event, T0 + 50) is once


def test_event_that_does_not_fit_is_left_to_the_record() -> None:
    """An event of an attempt that the record here does not know yet changes nothing."""
    waiting = facts(status=Status.PENDING)
    event = Event(2, "0a1b2c3d", "progress", utc_timestamp(T0), "", {})
    assert with_event(waiting, event, T0) is waiting


def test_older_record_does_not_take_back_an_event() -> None:
    """A record read a moment before the event was folded into it does not undo the event."""
    event = Event(2, "0a1b2c3d", "progress", utc_timestamp(T0), "new", {})
    ahead = with_event(facts(), event, T0 + 1)
    assert with_record(ahead, record(detail="old"), None) is ahead


@pytest.mark.parametrize(
    ("data", "expected"),
    [({}, None), ({"percent": 12.5}, 12.5), ({"percent": 250}, 100.0), ({"percent": -3}, 0.0)]
    + [({"percent": value}, None) for value in ("50", True, None, [1], {"a": 1})],
)
def test_percent(data: dict[str, object], expected: float | None) -> None:
    """Only a number is a percentage, and it stays between 0 and 100."""
    assert percent_of(data) == expected


def test_progress_stays_until_the_next_attempt() -> None:
    """A report without a percentage keeps the last one; a new start forgets it."""
    half = LastEvent(2, T0, "progress", 50.0)
    assert newer(half, LastEvent(3, T0, "permission_required", None)).percent == 50.0
    assert newer(half, LastEvent(3, T0, "started", None)).percent is None
    assert newer(half, LastEvent(1, T0, "progress", 10.0)) is half


@given(st.text(max_size=40), st.text(max_size=40))
def test_no_token_reaches_a_row(before: str, after: str) -> None:
    """A worker that says its own token is not repeated: neither in detail, title, session nor owner."""
    said = before + TOKEN + after
    shown = row(detail=said, title=said, agent_session=said, lease=Lease(said, utc_timestamp(T0 + 999)))
    assert TOKEN not in json.dumps(shown._asdict())


def test_old_tokens_are_hidden_as_well() -> None:
    """The tokens of earlier attempts are as secret as the present one."""
    assert row(detail="x" + "o" * 43, previous_tokens=("o" * 43,)).detail == "x[redacted]"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (Query(), True),
        (Query(groups=frozenset({"running"})), True),
        (Query(groups=frozenset({"stuck"})), False),
        (Query(session="docs"), True),
        (Query(session="doc"), False),
        (Query(text="MIGRATE"), True),
        (Query(text="0a1b"), True),
        (Query(text="nowhere"), False),
        (Query(groups=frozenset({"running"}), session="docs", text="table"), True),
    ],
)
def test_filter(query: Query, expected: bool) -> None:
    """A row is shown if state, session and text all fit; case does not matter for the text."""
    assert matches(row(title="Migrate the table", agent_session="docs"), query) is expected


def test_tally_counts_every_group() -> None:
    """Groups without a job are counted as zero."""
    assert tally([row(), row(attention=True)]) == {
        "waiting": 1, "stuck": 0, "failed": 0, "late": 0, "running": 1, "pending": 0, "done": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0s"), (0, "0s"), (59.9, "59s"), (60, "1m"), (190, "3m 10s"), (7200, "2h"), (100_000, "1d 3h")],
)
def test_words(seconds: float, text: str) -> None:
    """A length of time is said in at most two units."""
    assert words(seconds) == text


def test_impossible_date_is_no_crash() -> None:
    """A record with a date that does not exist still has a row."""
    assert row(created_at="2026-02-30T00:00:00Z").created == 0.0


@pytest.mark.parametrize(
    ("title", "detail", "room", "text"),
    [
        ("Upgrade", "exit status 1", 40, "Upgrade · exit status 1"),
        ("Migrate the user table", "May I drop the column?", 30, "Migrate the… · May I drop the…"),
        ("Migrate the user table", "ok", 20, "Migrate the us… · ok"),
        ("", "only words", 6, "only …"),
        ("only a title", "", 40, "only a title"),
    ],
)
def test_narrow_line_shows_some_of_both(title: str, detail: str, room: int, text: str) -> None:
    """Where title and last word do not fit, neither pushes the other out."""
    shown = what(row()._replace(title=title, why="", detail=detail), room)
    assert shown == text
    assert len(shown) <= room
