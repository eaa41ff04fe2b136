"""Agents and conversations over HTTP: paging, texts of strangers, actions, and a store that is not there."""

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from jobwire.coordination import agents, taking
from jobwire.coordination.agents import Beat, Joining
from jobwire.coordination.boards.boards import Boards
from jobwire.coordination.boards.phases import BoardTurn
from jobwire.coordination.boards.statements import NewBoard
from jobwire.coordination.home_key import home_key
from jobwire.coordination.locks.changes import LockRequest
from jobwire.coordination.locks.file_locks import Locks
from jobwire.coordination.message import Artifact, NewMessage
from jobwire.coordination.reading import messages_of, thread_of
from jobwire.coordination.sending import send
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.work import ThreadWork
from jobwire.core.errors import ConflictError, NotFoundError
from jobwire.dashboard.coordination.acting import act
from jobwire.dashboard.coordination.looking import looking
from jobwire.dashboard.coordination.threads import PAGE, ThreadQuery, thread_page
from jobwire.storage.user import user_name
from jobwire.testing.dashboard_process import DashboardProcess
from jobwire.testing.fleet_writer import FleetWriter
from jobwire.testing.waiting import wait_for

from . import conftest
from .test_server import Stream

HOSTILE = "<img src=x onerror=alert(1)>\u202egnp.exe"
LARGE = "word " * 20_000
FIRST = {"to": "ann", "kind": "task", "summary": "x", "body": "", "priority": "normal", "id": ""}


@pytest.fixture
def store(writer: FleetWriter) -> Iterator[CoordinationStore]:
    """Give the store of the writer's home."""
    made = CoordinationStore(str(writer.home))
    yield made
    made.close()


@pytest.fixture
def server(writer: FleetWriter) -> Iterator[DashboardProcess]:
    """Give a server that allows actions."""
    with DashboardProcess(writer.home, "--allow-actions") as made:
        yield made
        assert made.errors() == ""


def get(server: DashboardProcess, path: str, status: int = 200) -> Any:
    """Return what a route answers to whoever has the token."""
    found, _, body = conftest.ask(server, path, authorization=server.authorization)
    assert found == status, body
    return json.loads(body)


def post(server: DashboardProcess, path: str, status: int = 200, **body: object) -> Any:
    """Return what an action answers."""
    found, _, text = conftest.ask(
        server, path, method="POST", body=json.dumps(body), authorization=server.authorization
    )
    assert found == status, text
    return json.loads(text)


def begin(store: CoordinationStore, summary: str = "hello", **more: Any) -> str:
    """Begin a conversation and return its id."""
    return send(store, NewMessage("lead", ("builder",), summary=summary, **more)).thread_id


def block(store: CoordinationStore, thread: str) -> None:
    """Let the builder take the work and ask something."""
    work = ThreadWork(store, "builder", environ={})
    token = str(work.claim(thread).token)
    work.update(
        NewMessage("builder", thread_id=thread, kind="question", summary="why?"), "blocked", token=token
    )


def test_conversations_come_by_pages_with_the_blocked_ones_first(store: CoordinationStore) -> None:
    """Each stands on exactly one page, the last changed first, and what is blocked before all others."""
    first = begin(store, "the first", kind="task")
    threads = [begin(store, f"note {number}") for number in range(2 * PAGE + 5)]
    block(store, first)
    page = thread_page(store, ThreadQuery(), me="lead")
    pages = [page]
    while page["next"] is not None:
        page = thread_page(store, ThreadQuery(below=int(str(page["next"]))), me="lead")
        pages.append(page)
    ids = [row["id"] for page in pages for row in page["threads"]]  # type: ignore[attr-defined]
    assert ids == [first, *reversed(threads)]
    assert pages[0]["counts"] == {"blocked": 1, "open": 105, "failed": 0, "ended": 0, "dead": 0, "all": 106}
    assert pages[0]["threads"][0]["unread"] == {"lead": 1}  # type: ignore[index]
    assert len(thread_page(store, ThreadQuery("blocked"), me="x")["threads"]) == 1  # type: ignore[arg-type]
    assert thread_page(store, ThreadQuery(agent="nobody"), me="x")["threads"] == []


def test_a_conversation_is_read_with_its_turns_and_large_texts_are_cut(
    server: DashboardProcess, store: CoordinationStore
) -> None:
    """Texts of strangers come as JSON in ASCII; of a large one its beginning, and all of it as a file."""
    files = (Artifact("a/b.py"), Artifact(HOSTILE, "plan"))
    thread = begin(store, HOSTILE, kind="task", body=LARGE, payload='{"a": "</script>"}', artifacts=files)
    block(store, thread)
    found = get(server, f"/api/conversation?thread={quote(thread)}")
    task, question = found["messages"]
    assert (task["summary"], task["body_cut"], task["body_length"]) == (HOSTILE, True, len(LARGE))
    assert LARGE.startswith(task["body"])
    assert len(task["body"]) < len(LARGE)
    assert [one["path"] for one in task["artifacts"]] == ["a/b.py", HOSTILE]
    assert [one["state"] for one in task["to"]] == ["done"]
    assert question["kind"] == "question"
    assert [turn["type"] for turn in found["turns"]] == ["thread_claimed", "thread_blocked"]
    status, headers, body = conftest.ask(
        server, f"/api/message?seq={task['seq']}&part=body", authorization=server.authorization
    )
    assert (status, body) == (200, LARGE)
    assert headers["content-type"] == "text/plain; charset=utf-8"
    assert headers["content-disposition"].startswith("attachment;")
    later = get(server, f"/api/conversation?thread={thread}&after={task['seq']}")
    assert [one["seq"] for one in later["messages"]] == [question["seq"]]
    assert get(server, f"/api/conversation?thread={quote('../' + HOSTILE)}", 404)["error"]
    assert get(server, "/api/conversation", 404)["error"]
    assert get(server, f"/api/message?seq={10**14}", 404)["error"]
    assert get(server, "/api/message?seq=1&part=key", 400)["error"]


def test_a_long_conversation_comes_from_its_end(store: CoordinationStore, server: DashboardProcess) -> None:
    """The newest messages first; the older ones behind a number, none twice and none left out."""
    thread = begin(store)
    for number in range(119):
        send(store, NewMessage("lead", ("builder",), summary=str(number), thread_id=thread))
    seqs: list[int] = []
    more, below = True, ""
    while more:
        page = get(server, f"/api/conversation?thread={thread}{below}")
        seqs = [one["seq"] for one in page["messages"]] + seqs
        more, below = page["more"], f"&below={seqs[0]}"
    assert seqs == [one.seq for one in messages_of(store, thread)]


def test_a_blob_that_is_gone_is_said_in_its_place(store: CoordinationStore, server: DashboardProcess) -> None:
    """The other messages of the conversation are read; the file itself says what is missing."""
    thread = begin(store, body=LARGE)
    for blob in (Path(store.home) / "blobs").iterdir():
        blob.unlink()
    message = get(server, f"/api/conversation?thread={thread}")["messages"][0]
    assert "cannot be read" in message["body"]
    assert get(server, f"/api/message?seq={message['seq']}", 404)["error"]


def test_agents_are_listed_with_what_they_do(store: CoordinationStore, server: DashboardProcess) -> None:
    """Who is there, who died and who left today; each with what it has not read."""
    with store.changing() as change:
        for name in ("builder", "reviewer", "gone"):
            agents.join(change, name, Joining(run_id="r"))
        agents.beat(change, "reviewer", Beat("blocked", HOSTILE, 0.5))
        agents.leave(change, "gone")
    begin(store)
    found = get(server, "/api/agents")
    assert [(row["name"], row["state"], row["unread"]) for row in found["agents"]] == [
        ("reviewer", "blocked", 0),
        ("builder", "idle", 1),
        ("gone", "left", 0),
    ]
    assert found["agents"][0]["task"] == HOSTILE
    assert found["counts"]["blocked"] == 1


def test_what_was_given_up_is_queued_again_or_dropped(
    store: CoordinationStore, server: DashboardProcess
) -> None:
    """Its conversation is a choice of the list; one press settles it for one recipient."""
    begin(store)
    thread = begin(store, "doomed")
    taken = taking.take(store, "builder")
    taking.ack(store, "builder", taken.message.id, token=taken.token)
    taken = taking.take(store, "builder")
    taking.nack(store, "builder", taken.message.id, token=taken.token, reason=HOSTILE[:28], permanent=True)
    found = get(server, "/api/conversations?state=dead")
    assert [row["id"] for row in found["threads"]] == [thread]
    assert found["counts"]["dead"] == 1
    message = get(server, f"/api/conversation?thread={thread}")["messages"][0]
    assert message["to"][0]["state"] == "dead"
    asked: Any = {"seq": message["seq"], "agent": "builder"}
    assert post(server, "/api/act/settle", 400, **asked, verb="bury")["error"]
    assert post(server, "/api/act/settle", 404, verb="drop", seq=message["seq"], agent="nobody")["error"]
    assert post(server, "/api/act/settle", **asked, verb="redrive")["states"] == ["queued"]
    assert get(server, "/api/conversations?state=dead")["threads"] == []


def test_numbers_of_other_programs_do_no_harm(store: CoordinationStore, server: DashboardProcess) -> None:
    """A progress without end and a time that no calendar has are answered as JSON that a browser reads."""
    with store.changing() as change:
        agents.join(change, "builder", Joining())
    store.close()
    with sqlite3.connect(store.path) as link:
        link.execute("UPDATE heartbeats SET progress = 9e999, ts_ms = 9000000000000000, status = 'x'")
    link.close()
    _, _, body = conftest.ask(server, "/api/agents", authorization=server.authorization)
    assert "Infinity" not in body
    assert json.loads(body)["agents"][0]["progress"] is None


def test_messages_are_found_by_their_words(store: CoordinationStore, server: DashboardProcess) -> None:
    """Newest first, by pages; no operator of the search language acts, and no word at all is refused."""
    for number in range(35):
        begin(store, f"note {number} about parsers")
    first = get(server, "/api/search?q=parser*")
    second = get(server, f"/api/search?q=parser*&below={first['next']}")
    found = [one["summary"] for page in (first, second) for one in page["messages"]]
    assert found == [f"note {number} about parsers" for number in reversed(range(35))]
    assert second["next"] is None
    for words in ("", "*", '"', "   ", "x" * 2000):
        assert get(server, f"/api/search?q={quote(words)}", 400)["error"]
    for words in ("NEAR(a b)", 'a" OR "b', "summary:x", "a AND", "\x00", "%"):
        conftest.ask(server, f"/api/search?q={quote(words)}", authorization=server.authorization)


def test_a_change_is_said_to_open_pages(store: CoordinationStore, server: DashboardProcess) -> None:
    """Each change of the store rings, a sign of life of an agent as well."""
    stream = Stream(server, "/api/store/stream")
    stream.next("changed")
    begin(store)
    _, data = stream.next("changed")
    assert data["trouble"] == ""
    with store.changing() as change:
        agents.join(change, "builder", Joining())
    stream.next("changed")
    with store.changing() as change:
        agents.beat(change, "builder", Beat("working"))
    stream.next("changed")
    stream.close()


def test_a_person_replies_once_and_ends_a_conversation(
    store: CoordinationStore, server: DashboardProcess
) -> None:
    """The same id is said once; the reply reaches who wrote last; the conversation ends for all."""
    thread = begin(store, kind="question")
    said: Any = {"thread_id": thread, "body": f"yes\n{HOSTILE}", "kind": "event", "id": "p-1"}
    assert post(server, "/api/act/reply", **said) == post(server, "/api/act/reply", **said)
    reply = messages_of(store, thread)[-1]
    assert (reply.from_agent, reply.body, reply.to) == (user_name(), said["body"], ("lead", "builder"))
    assert post(server, "/api/act/reply", 409, **{**said, "body": "no"})["error"]
    post(server, "/api/act/cancel", thread_id=thread, reason="enough")
    assert thread_of(store, thread).status == "cancelled"
    assert [view.kind for view in agents.gone(store, since_ms=0, limit=9)] == ["person"]


def test_a_person_begins_a_conversation_once(writer: FleetWriter, server: DashboardProcess) -> None:
    """Its first message goes to those named, in the page's person's name; the same id begins one only."""
    asked: Any = {
        "to": "ann, ben",
        "kind": "task",
        "summary": "build <b>it</b>",
        "body": HOSTILE,
        "priority": "high",
    }
    begun = post(server, "/api/act/begin", **asked, id="p-1")
    assert post(server, "/api/act/begin", **asked, id="p-1") == begun
    with contextlib.closing(CoordinationStore(str(writer.home))) as store:
        (first,) = messages_of(store, begun["thread_id"])
        assert (first.from_agent, first.to, first.kind) == (user_name(), ("ann", "ben"), "task")
        assert (first.summary, first.body, first.priority) == (asked["summary"], HOSTILE, "high")
    anybody = post(server, "/api/act/begin", **{**asked, "to": ""}, id="")
    assert anybody["thread_id"] != begun["thread_id"]


def test_a_question_of_work_is_answered_by_a_reply(
    store: CoordinationStore, server: DashboardProcess
) -> None:
    """A reply of kind answer to a blocked conversation is its answer."""
    thread = begin(store, kind="task")
    block(store, thread)
    post(server, "/api/act/reply", thread_id=thread, body="because", kind="answer", id="")
    assert messages_of(store, thread)[-1].kind == "answer"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("reply", {"thread_id": "t", "body": "x", "kind": "task", "id": ""}),
        ("reply", {"thread_id": "t", "body": "  ", "kind": "event", "id": ""}),
        ("reply", {"thread_id": "t", "body": ["x"], "kind": "event", "id": ""}),
        ("reply", {"thread_id": "t", "body": "a\x00b", "kind": "event", "id": ""}),
        ("reply", {"thread_id": "t" * 65, "body": "x", "kind": "event", "id": ""}),
        ("reply", {"thread_id": "t", "body": "x", "kind": "event", "id": "i" * 65}),
        ("begin", FIRST | {"to": "", "kind": "question"}),
        ("begin", FIRST | {"to": "no agent!"}),
        ("begin", FIRST | {"to": ["ann"]}),
        ("begin", FIRST | {"kind": "answer"}),
        ("begin", FIRST | {"summary": " "}),
        ("begin", FIRST | {"summary": "two\nlines"}),
        ("begin", FIRST | {"body": "a\x00b"}),
        ("begin", FIRST | {"priority": "urgent"}),
        ("read", {"thread_id": "t", "through": -1}),
        ("read", {"thread_id": "t", "through": "1"}),
        ("read", {"thread_id": 1, "through": 1}),
    ],
)
def test_what_is_no_action_is_refused(
    store: CoordinationStore, server: DashboardProcess, path: str, body: dict[str, object]
) -> None:
    """A clear sentence and 400, and nothing is written."""
    begin(store)
    before = store.rows("thread_counts")
    assert post(server, f"/api/act/{path}", 400, **body)["error"]
    assert store.rows("thread_counts") == before


def test_nothing_is_done_on_a_page_that_only_reads(writer: FleetWriter, store: CoordinationStore) -> None:
    """Without --allow-actions every action is refused, and the person joins nowhere."""
    thread = begin(store)
    with DashboardProcess(writer.home) as server:
        for path in ("begin", "reply", "cancel", "read"):
            assert post(server, f"/api/act/{path}", 403, thread=thread)["error"]
    assert agents.gone(store, since_ms=0, limit=9) == []


def test_the_page_speaks_in_no_agents_name(store: CoordinationStore) -> None:
    """Where an agent that is no person has the name of the page's owner, nothing is said in that name."""
    thread = begin(store)
    with store.changing() as change:
        agents.join(change, "somebody", Joining())
    new = NewBoard("lead", "RELEASE", "x", ("ann", "somebody"))
    board = Boards(store).open(new).board.board_id
    said = {"thread_id": thread, "body": "x", "kind": "event", "id": ""}
    assessed = {"board": board, "verdict": "APPROVE", "score": 9}
    for verb, args in (("reply", said), ("board-assess", assessed)):
        with pytest.raises(ConflictError):
            act(Path(store.home), "somebody", verb, args)
    with pytest.raises(NotFoundError):  # which says nothing to agents
        act(Path(store.home), "somebody", "session-stop", {"name": "nothing", "how": "hard"})


def test_a_store_that_is_missing_newer_or_broken_is_said_and_the_fleet_stays(
    writer: FleetWriter, server: DashboardProcess
) -> None:
    """Without a store there is nothing to show; what cannot be read is said; none of it harms the fleet."""
    path = Path(writer.home) / "coordination.db"
    wait_for(lambda: conftest.ask(server, "/healthz")[0] == 200, what="a fleet")
    assert not path.exists()
    assert get(server, "/api/conversations")["made"] is False
    assert get(server, "/api/agents")["made"] is False
    assert not path.exists(), "looking makes nothing"
    stream = Stream(server, "/api/store/stream")
    stream.next("changed")
    made = CoordinationStore(str(writer.home))
    thread = begin(made)
    made.close()
    stream.next("changed")
    assert get(server, f"/api/conversation?thread={thread}")["made"] is True
    with sqlite3.connect(path) as link:
        link.execute("PRAGMA user_version = 9999")
    link.close()
    newer = get(server, "/api/conversations", 503)
    assert "9999" in newer["error"]
    assert newer["hint"]
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    path.write_bytes(b"no database at all, but long enough to be read as one" * 100)
    assert get(server, "/api/search?q=x", 503)["error"]
    while True:
        _, data = stream.next("changed", "alive")
        if data["trouble"]:
            break
    stream.close()
    assert conftest.ask(server, "/healthz")[0] == 200
    assert get(server, "/api/summary")["counts"]


def test_a_store_on_a_disk_that_takes_no_change_is_read(store: CoordinationStore) -> None:
    """Nothing can be made beside the file, so it is read as it is."""
    thread = begin(store)
    store.file.checkpoint()
    store.close()
    home = Path(store.home)
    for suffix in ("-wal", "-shm"):
        (home / f"coordination.db{suffix}").unlink(missing_ok=True)
    with looking(home) as found:
        assert found is not None
        assert thread_of(found, thread).thread_id == thread


def test_locks_are_shown_with_who_waits_for_whom(store: CoordinationStore, server: DashboardProcess) -> None:
    """Holders until when, waiters behind whom; what has run out is not shown."""
    locks = Locks(store, job_ended=lambda _: False)
    locks.acquire(LockRequest("builder", ("src/a.py",)))
    locks.acquire(LockRequest("reviewer", ("src/b.py",), seconds=0.001))
    locks.begin(LockRequest("lead", ("src/a.py", "docs")))
    locks.begin(LockRequest("other", ("docs",)))
    found = get(server, "/api/locks")
    assert [(row["agent"], row["target"]) for row in found["locks"]] == [("builder", "src/a.py")]
    waits = {row["agent"]: row["before"] for row in found["waiters"]}
    assert waits == {"lead": ["builder"], "other": ["lead"]}
    assert (found["held"], found["waiting"], found["circles"]) == (1, 2, [])


def test_a_member_has_its_turn_on_a_board_and_nobody_else(
    store: CoordinationStore, server: DashboardProcess
) -> None:
    """The page's person assesses where it is a member, in the phase; a changed decision is not shown."""
    boards = Boards(store, key=home_key(store.home))
    me = user_name()
    board = boards.open(NewBoard("lead", "RELEASE", HOSTILE, ("ann", me), quick=True)).board.board_id
    other = boards.open(NewBoard("lead", "OTHER", "x", ("ann", "ben"))).board.board_id
    assert [one["board_id"] for one in get(server, "/api/boards")["boards"]] == [other, board]
    assert get(server, f"/api/board?board={board}")["mine"] is True
    assert get(server, f"/api/board?board={other}")["mine"] is False
    said: Any = {"verdict": "APPROVE", "score": 9}
    assert post(server, "/api/act/board-assess", 400, board=other, **said)["error"]
    assert post(server, "/api/act/board-vote", 409, board=board, verdict="APPROVE")
    assert post(server, "/api/act/board-assess", 400, board=board, verdict="x")["error"]
    assert post(server, "/api/act/board-sing", 400, board=board)["error"]
    assert post(server, "/api/act/board-assess", 404, board="nothing", **said)["error"]
    assert post(server, "/api/act/board-assess", board=board, **said)["board"]["phase"] == "ASSESSING"
    boards.say(board, "ann", BoardTurn.ASSESS, {"verdict": "APPROVE", "score": 8})
    page = get(server, f"/api/board?board={board}")
    assert (page["board"]["verdict"], page["proposal"], page["mine"]) == ("APPROVED", HOSTILE, False)
    sealed = str(store.rows("board", {"board_id": board})[0][-1])
    forged = json.dumps({**json.loads(sealed), "verdict": "REJECTED"})
    store.close()
    with sqlite3.connect(store.path) as link:
        link.execute("UPDATE boards SET resolution = ? WHERE board_id = ?", (forged, board))
    link.close()
    assert get(server, f"/api/board?board={board}")["resolution"] == {"verdict": "CHANGED", "forged": True}


def test_figures_of_the_store_are_in_the_metrics(store: CoordinationStore, server: DashboardProcess) -> None:
    """Unread, blocked, agents by state, locks and waiters; a store that cannot be read is 0 in one metric."""
    thread = begin(store, kind="task")
    block(store, thread)
    with store.changing() as change:
        agents.join(change, "builder", Joining())
    locks = Locks(store, job_ended=lambda _: False)
    locks.acquire(LockRequest("builder", ("a",)))
    locks.begin(LockRequest("other", ("a",)))
    wait_for(lambda: 'jobwire_agents{state="blocked"} 1.0' in metrics(server), what="figures")
    text = metrics(server)
    for line in (
        "jobwire_store_readable 1.0", "jobwire_unread_messages 1.0", "jobwire_blocked_threads 1.0",
        "jobwire_dead_deliveries 0.0", "jobwire_file_locks 1.0", "jobwire_lock_waiters 1.0",
    ):  # fmt: skip
        assert line in text.splitlines()
    store.close()
    path = Path(store.path)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    path.write_bytes(b"not a database at all" * 500)
    assert "jobwire_store_readable 0.0" in metrics(server).splitlines()


def metrics(server: DashboardProcess) -> str:
    """Return what Prometheus reads."""
    return conftest.ask(server, "/metrics", authorization=server.authorization)[2]
