"""S3's programs on the same file: their own statements, as they are, from plain sqlite3."""

import sqlite3

import pytest

from jobwire.coordination import reading, sending, taking
from jobwire.coordination.message import NewMessage
from jobwire.coordination.store import CoordinationStore
from jobwire.testing.clock import ManualClock

_PUBLISH = (
    "INSERT INTO messages (id, ts_ms, from_agent, to_agent, type, correlation_id, in_reply_to, payload,"
    " payload_ref) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_POLL = (
    "SELECT seq, id, ts_ms, from_agent, to_agent, type, correlation_id, in_reply_to, payload, payload_ref"
    " FROM messages WHERE seq > (SELECT coalesce(max(last_acked_seq), 0) FROM cursors WHERE agent_id = ?)"
    " AND (to_agent = ? OR to_agent IS NULL) ORDER BY seq LIMIT ?"
)
_ACK = (
    "INSERT INTO cursors (agent_id, last_acked_seq, updated_at_ms) VALUES (?, ?, ?) ON CONFLICT(agent_id)"
    " DO UPDATE SET last_acked_seq = MAX(last_acked_seq, excluded.last_acked_seq),"
    " updated_at_ms = excluded.updated_at_ms"
)
_BEAT = (
    "INSERT INTO heartbeats (agent_id, ts_ms, status, current_task, progress) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT(agent_id) DO UPDATE SET ts_ms = excluded.ts_ms, status = excluded.status,"
    " current_task = excluded.current_task, progress = excluded.progress"
)


def _say(foreign: sqlite3.Connection, name: str, to: str | None, kind: str = "note", **more: str) -> None:
    foreign.execute(
        _PUBLISH,
        (name, 1000, "nim", to, kind, more.get("about"), more.get("answers"), more.get("payload"), None),
    )


def _claim(foreign: sqlite3.Connection, task: str, agent: str, now: int, seconds: int = 60) -> bool:
    foreign.execute("BEGIN IMMEDIATE")
    row = foreign.execute("SELECT lease_until_ms FROM task_claims WHERE task_id = ?", (task,)).fetchone()
    if row is not None and row[0] > now:
        foreign.execute("ROLLBACK")
        return False
    foreign.execute("DELETE FROM task_claims WHERE task_id = ?", (task,))
    foreign.execute(
        "INSERT INTO task_claims (task_id, claimed_by, claimed_at_ms, lease_until_ms) VALUES (?, ?, ?, ?)",
        (task, agent, now, now + seconds * 1000),
    )
    foreign.execute("COMMIT")
    return True


def _renew(foreign: sqlite3.Connection, task: str, agent: str, until: int) -> int:
    statement = "UPDATE task_claims SET lease_until_ms = ? WHERE task_id = ? AND claimed_by = ?"
    return foreign.execute(statement, (until, task, agent)).rowcount


def test_claim_renew_and_release_of_a_free_name(foreign: sqlite3.Connection) -> None:
    """One holds it, renews and releases it; after the end anybody takes it, with a higher token."""
    assert _claim(foreign, "deploy", "a", 1000)
    assert not _claim(foreign, "deploy", "b", 2000)
    assert (_renew(foreign, "deploy", "a", 99_000), _renew(foreign, "deploy", "b", 1)) == (1, 0)
    first = foreign.execute("SELECT token FROM task_claims").fetchone()[0]
    assert _claim(foreign, "deploy", "b", 100_000)
    assert foreign.execute("SELECT token FROM task_claims").fetchone()[0] > first
    release = "DELETE FROM task_claims WHERE task_id = ? AND claimed_by = ?"
    assert foreign.execute(release, ("deploy", "a")).rowcount == 0
    assert foreign.execute(release, ("deploy", "b")).rowcount == 1
    assert _claim(foreign, "deploy", "a", 100_001)


def test_a_finished_task_cannot_be_claimed(store: CoordinationStore, foreign: sqlite3.Connection) -> None:
    """Work that is done in the inbox is not done again under a free name of its task."""
    posted = sending.send(store, NewMessage("lead", ("b",), kind="task", summary="x", task_id="t1"))
    foreign.execute("UPDATE threads SET status = 'done'")
    for name in ("t1", posted.thread_id):
        with pytest.raises(sqlite3.IntegrityError, match="already_terminal"):
            _claim(foreign, name, "a", 1000)
        foreign.execute("ROLLBACK")


def test_what_another_program_inserts_is_delivered(
    store: CoordinationStore, foreign: sqlite3.Connection
) -> None:
    """A foreign row has its event, its thread and its deliveries, and our agents take it."""
    foreign.execute("INSERT INTO agents (agent_id, joined_at_ms) VALUES ('c', 1), ('nim', 1), ('b', 1)")
    _say(foreign, "m1", "b", "task_assign", payload='{"what": "build"}')
    _say(foreign, "m2", None)
    taken = [taking.take(store, name).message.id for name in ("b", "b", "c")]
    assert taken == ["m1", "m2", "m2"]
    message = reading.message_of(store, "m1")
    assert (message.kind, message.to, message.payload) == ("task", ("b",), '{"what": "build"}')
    assert reading.thread_of(store, message.thread_id).assigned_to == "b"
    events = store.rows("events_after", {"after": 0, "thread_id": None, "limit": 10})
    assert [(row[0], row[6]) for row in events if row[5] == "message"] == [(1, "m1"), (2, "m2")]


def test_what_belongs_together_is_one_thread(store: CoordinationStore, foreign: sqlite3.Connection) -> None:
    """A foreign answer, and what has the same correlation id, go into the thread."""
    _say(foreign, "m1", "b", about="c1")
    _say(foreign, "m2", "b", about="c1")
    _say(foreign, "m3", "b", answers="m2")
    assert len({reading.message_of(store, name).thread_id for name in ("m1", "m2", "m3")}) == 1


def test_poll_and_ack_see_our_messages(store: CoordinationStore, foreign: sqlite3.Connection) -> None:
    """S3's poll reads what we send; its cursor makes our deliveries done, and never goes back."""
    for text in ("one", "two", "three"):
        sending.send(store, NewMessage("lead", ("b",), kind="event", summary=text, payload='{"n": 1}'))
    rows = foreign.execute(_POLL, ("b", "b", 100)).fetchall()
    assert [(row[0], row[8]) for row in rows] == [(1, '{"n":1}'), (2, '{"n":1}'), (3, '{"n":1}')]
    foreign.execute(_ACK, ("b", 2, 5))
    assert [row[0] for row in foreign.execute(_POLL, ("b", "b", 100))] == [3]
    assert taking.take(store, "b").message.seq == 3
    foreign.execute(_ACK, ("b", 1, 6))
    assert foreign.execute("SELECT last_acked_seq FROM cursors").fetchone() == (2,)


def test_our_acks_move_their_cursor(store: CoordinationStore, foreign: sqlite3.Connection) -> None:
    """An agent's cursor is the highest number below which all its messages are final."""
    for text in ("one", "two"):
        sending.send(store, NewMessage("lead", ("b",), summary=text))
    first, second = taking.take(store, "b"), taking.take(store, "b")
    taking.ack(store, "b", second.message.id, token=second.token)
    cursor = "SELECT last_acked_seq FROM cursors WHERE agent_id = 'b'"
    assert foreign.execute(cursor).fetchone() == (0,)
    taking.ack(store, "b", first.message.id, token=first.token)
    assert foreign.execute(cursor).fetchone()[0] >= second.message.seq


def test_beats_are_upserted_and_make_no_event(store: CoordinationStore, foreign: sqlite3.Connection) -> None:
    """S3's heartbeat statement works unchanged, and wakes nobody."""
    for status in ("idle", "working"):
        foreign.execute(_BEAT, ("nim", 1000, status, None, 0.5))
    assert foreign.execute("SELECT status, progress FROM heartbeats").fetchall() == [("working", 0.5)]
    assert store.latest_event() == 0


@pytest.mark.parametrize(
    "row",
    [
        ("m", 1, "bad name", "b", "note", None, None, None, None),
        ("m", 1, "a", "b", None, None, None, None, None),
        ("m" * 65, 1, "a", "b", "note", None, None, None, None),
        ("m", -1, "a", "b", "note", None, None, None, None),
        ("m", 1, "a", "b", "note", None, None, "{}", "sha256-" + "0" * 64),
        ("m", 1, "a", "b", "note", None, None, None, "sha256-../../../etc/passwd" + "0" * 45),
    ],
)
def test_what_would_break_a_rule_is_refused(
    store: CoordinationStore, foreign: sqlite3.Connection, row: tuple[object, ...]
) -> None:
    """NULL type, a name that is none, two payloads, a path for a blob: refused, and nothing is there."""
    with pytest.raises(sqlite3.IntegrityError):
        foreign.execute(_PUBLISH, row)
    assert store.latest_event() == 0


def test_messages_and_events_never_change(store: CoordinationStore, foreign: sqlite3.Connection) -> None:
    """Nobody rewrites what was said."""
    sending.send(store, NewMessage("lead", ("b",), summary="one"))
    for statement in ("UPDATE messages SET summary = 'x'", "UPDATE events SET source = 'x'"):
        with pytest.raises(sqlite3.IntegrityError):
            foreign.execute(statement)


def test_one_line_of_numbers_whoever_inserts(
    store: CoordinationStore, foreign: sqlite3.Connection, clock: ManualClock
) -> None:
    """Messages of both and other changes share one rising line of numbers."""
    numbers = [sending.send(store, NewMessage("lead", ("b",), summary="one")).event_id]
    _say(foreign, "m1", "b")
    numbers.append(reading.message_of(store, "m1").seq)
    _claim(foreign, "name", "a", 1000)
    numbers.append(store.latest_event())
    numbers.append(sending.send(store, NewMessage("lead", ("b",), summary="two")).event_id)
    with store.changing() as change:
        numbers.append(change.event("thing", source="lead"))
    _say(foreign, "m2", "b")
    numbers.append(reading.message_of(store, "m2").seq)
    assert numbers == [1, 2, 3, 4, 5, 6]
    foreign.execute("BEGIN")
    _say(foreign, "m3", "b")
    foreign.execute("ROLLBACK")
    assert sending.send(store, NewMessage("lead", ("b",), summary="three")).event_id == 7


def test_views_of_s4_are_there_to_read(store: CoordinationStore, foreign: sqlite3.Connection) -> None:
    """S4's tables and its shape of a message can be read under their names."""
    posted = sending.send(store, NewMessage("lead", ("b",), kind="task", summary="one", payload="{}"))
    row = foreign.execute(
        "SELECT message_id, thread_id, from_agent, to_agent, kind, summary, body, payload_json, created_at"
        " FROM inbox_messages"
    ).fetchone()
    assert row[:8] == (posted.message_id, posted.thread_id, "lead", "b", "task", "one", "", "{}")
    for table, columns in (
        ("threads", "thread_id, run_id, task_id, subject, created_by, assigned_to, status, priority"),
        ("leases", "thread_id, agent_id, lease_token, claimed_at, expires_at, released_at"),
        ("artifacts", "artifact_id, message_id, path, kind, metadata_json, created_at"),
        ("events", "event_id, run_id, task_id, thread_id, source, event_type, message_id, payload_json"),
    ):
        foreign.execute(f"SELECT {columns} FROM {table}").fetchall()  # noqa: S608 - names of this test
